#!/usr/bin/env python3
"""Heat maps of head relevance from saved tables, and how far the rules agree."""

import argparse
import logging
import sys
from pathlib import Path

from analysis import files, relevance
from fairseq_headprune.errors import command
from fairseq_headprune.layout import ATTENTION_TYPES, flag


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", metavar="FILE",
                        help="tables of fairseq-generate --relevance-table, one per rule")
    parser.add_argument("--out", required=True, type=Path,
                        help="folder for the pictures, agreement.json and agreement.md")
    args = parser.parse_args(argv)
    tables = [relevance.read(path) for path in args.tables]
    comparison = relevance.compare(tables)

    import matplotlib

    matplotlib.use("agg")
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    from analysis.figures import command as figures
    from analysis.figures import grid, style

    for table in tables:
        heads = relevance.head_table(table)
        for type in ATTENTION_TYPES:
            with style.applied():
                title = f"{flag(type)}, rule {table.rule}"
                figure = grid.heat(heads, type, "relevance", title, "share of the layer")
                figures.save({f"{table.rule}_{flag(type)}": figure}, args.out)
                matplotlib.pyplot.close(figure)
    files.write_json(args.out / "agreement.json", comparison)
    files.write_text(args.out / "agreement.md", relevance.markdown(comparison))
    print(relevance.markdown(comparison), end="")


if __name__ == "__main__":
    sys.exit(main())
