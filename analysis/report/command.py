"""``headprune report``: the page."""

from fairseq_headprune.analysis import head_table, maps
from fairseq_headprune.analysis.ablation import table as ablation_table
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import file


def add_arguments(parser):
    """Options of the command."""
    parser.add_argument("heads", metavar="[NAME=]HEADS", help="heads.json of `roles`")
    parser.add_argument("--ablation", metavar="FILE", help="ablation.json of `ablate`")
    parser.add_argument("--maps", metavar="FILE", help="attention maps of `analysis maps`")
    parser.add_argument("--title", help="title of the page")
    parser.add_argument("--out", required=True, type=file("--out"), metavar="FILE", help="HTML file to write")


def run(args):
    """Run the command."""
    from fairseq_headprune.analysis.report.page import build

    table = head_table.read(args.heads)
    ablation = ablation_table.read(args.ablation) if args.ablation else None
    if ablation and not set(ablation_table.by_head(ablation)) & set(table.records):
        raise UserError(f"--ablation {args.ablation} has none of the heads of {table.path}")
    _same_model(table, ablation, args.ablation)
    attention = maps.read(args.maps) if args.maps else None
    text = build(table, ablation, attention, args.title)
    files.write_text(args.out, text)
    print(f"{args.out}: {len(table.records)} heads, {len(text.encode()) / 1e6:.1f} MB; open it in a browser")


def _same_model(table, ablation, path):
    """An observation and an intervention on different checkpoints must not be put side by side."""
    one = (table.provenance.get("model") or {}).get("sha256")
    two = (ablation["provenance"].get("model") or {}).get("sha256") if ablation else None
    if one and two and one != two:
        raise UserError(
            f"--ablation {path} is of another model (sha256 {two[:12]}) than {table.path} ({one[:12]})"
        )
