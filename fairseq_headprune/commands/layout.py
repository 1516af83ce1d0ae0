"""``headprune layout``: print which heads a checkpoint has, and what its gates say."""

import json
import shlex

from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.models import architecture, starting_file
from fairseq_headprune.selection import gate_table


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("checkpoint", help="stock, gated or pruned Transformer checkpoint")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print only the layout, as the JSON that --head-layout and --layout read",
    )
    parser.add_argument(
        "--flags",
        action="store_true",
        help="print the model's flags for fairseq-train --arch gated_transformer or pruned_transformer",
    )
    parser.add_argument("--json-gates", action="store_true", help="print layout, P(open) and counts as JSON")


def run(args):
    """Run the command."""
    state = checkpoints.load_checkpoint(args.checkpoint)
    if args.json:
        print(checkpoints.open_layout(state).to_json())
    elif args.flags:
        print(shlex.join(architecture.flags(starting_file.options_of(state))))
    elif args.json_gates:
        print(json.dumps(gate_table.as_json(state), indent=1))
    else:
        print(gate_table.describe(state))
        print("\nlayout: " + checkpoints.open_layout(state).to_json())
