"""``python -m analysis COMMAND``: finds the command's module and runs it.

A command is a module with ``add_arguments(parser)`` and ``run(args)``; it is imported only when it
is asked for, so that no command waits for what another one needs.
"""

import argparse
import importlib
import sys

from fairseq_headprune.base.errors import command

COMMANDS = {
    "roles": (
        "fairseq_headprune.analysis.roles.command",
        "what each head does: confidence, positional, syntactic, rare words",
    ),
    "compare": ("fairseq_headprune.analysis.matching.command", "several models side by side, heads matched by what they do"),
    "ablate": ("fairseq_headprune.analysis.ablation.command", "switch heads off at test time: differences in loss and BLEU"),
    "figures": ("fairseq_headprune.analysis.figures", "draw the paper's figures and tables from saved tables"),
    "maps": (
        "fairseq_headprune.analysis.maps",
        "save attention maps of chosen sentences for Figure 5 and the report",
    ),
    "page": ("fairseq_headprune.analysis.page_tables", "make the tables of a results page anew from saved tables"),
    "report": ("fairseq_headprune.analysis.report", "one self-contained page to read in a browser"),
}
"""Command -> its module and what it does, in one line."""


def overview() -> str:
    """The text of ``python -m analysis --help``."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        ["usage: python -m analysis COMMAND ...", "", "commands (each has its own --help):", *lines]
    )


@command
def main(argv=None):
    """Run one command; exit status 2 with a sentence on bad input."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0] in ("-h", "--help"):
        print(overview())
        return 0 if argv else 2
    name, *rest = argv
    if name not in COMMANDS:
        print(f"error: unknown command '{name}': use {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    module_name, what = COMMANDS[name]
    module = importlib.import_module(module_name)
    parser = argparse.ArgumentParser(prog=f"python -m analysis {name}", description=what + ".")
    module.add_arguments(parser)
    return module.run(parser.parse_args(rest)) or 0


if __name__ == "__main__":
    sys.exit(main())
