"""``headprune relevance``: heat maps of head relevance from saved tables, and how far the rules agree."""

import io
from pathlib import Path

from fairseq_headprune.analysis import relevance
from fairseq_headprune.base import files
from fairseq_headprune.base.outputs import folder
from fairseq_headprune.dump import open_dump
from fairseq_headprune.units.layout import flag


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "tables", nargs="+", metavar="FILE", help="tables of fairseq-generate --relevance-table, one per rule"
    )
    parser.add_argument(
        "--dump",
        action="append",
        default=[],
        metavar="DIR",
        help="dump with the relevance of a rule: adds how well two halves of its "
        "sentences agree (repeatable)",
    )
    parser.add_argument(
        "--out",
        required=True,
        type=folder("--out"),
        help="folder for the pictures and agreement.json",
    )


def run(args):
    """Run the command."""
    tables = [relevance.read(path) for path in args.tables]
    halves = [relevance.split_half(open_dump(path)) for path in args.dump]
    comparison = relevance.compare(tables, halves)

    import matplotlib

    matplotlib.use("agg")
    from fairseq_headprune.analysis.figures import grid, style

    # one scale for all, so that a flat map looks flat
    top = max(rows.max() for table in tables for rows in table.shares.values() if rows.size)
    for table in tables:
        heads = relevance.head_table(table)
        for type in table.layout.types:
            with style.applied():
                title = f"{flag(type)}, rule {table.rule}"
                figure = grid.heat(heads, type, "relevance", title, "share of the layer", limit=top)
                picture = io.BytesIO()
                figure.savefig(picture, format="png")
                matplotlib.pyplot.close(figure)
            files.write_bytes(Path(args.out) / f"{table.rule}_{flag(type)}.png", picture.getvalue())
    files.write_json(Path(args.out) / "agreement.json", comparison)
    print(relevance.markdown(comparison), end="")
