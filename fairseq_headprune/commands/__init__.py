"""The command ``headprune``: a table of subcommands, each of whose modules is imported when it is called.

A subcommand is a module with ``add_arguments(parser)`` and ``run(args)``; what ``run`` returns is the exit
status. No subcommand waits for what another one needs, and ``headprune --help`` loads none.
"""

import argparse
import importlib
import sys

from fairseq_headprune.base.errors import command

_HERE, _ANALYSIS = "fairseq_headprune.commands", "fairseq_headprune.analysis"

COMMANDS = {
    "layout": (f"{_HERE}.layout", "which heads a checkpoint has, and what its gates say"),
    "remove": (f"{_HERE}.remove", "write a checkpoint without heads"),
    "compare": (f"{_HERE}.compare", "translate with several checkpoints: heads, BLEU, sizes, speed"),
    "sweep": (f"{_HERE}.sweep", "prune one baseline many times and compare"),
    "roles": (
        f"{_ANALYSIS}.roles.command",
        "what each head does: confidence, positional, syntactic, rare words",
    ),
    "match": (f"{_ANALYSIS}.matching.command", "several models side by side, heads matched by what they do"),
    "ablate": (
        f"{_ANALYSIS}.ablation.command",
        "switch heads off at test time: differences in loss and BLEU",
    ),
    "relevance": (f"{_HERE}.relevance", "heat maps of head relevance, and how far the rules agree"),
    "figures": (f"{_ANALYSIS}.figures.command", "draw the paper's figures and tables from saved tables"),
    "maps": (f"{_ANALYSIS}.maps", "save attention maps of chosen sentences for Figure 5 and the report"),
    "report": (f"{_ANALYSIS}.report.command", "one self-contained page to read in a browser"),
    "page": (f"{_ANALYSIS}.page_tables", "make the tables of a results page anew from saved tables"),
    "import": (f"{_HERE}.import_model", "a Marian or Hugging Face model as a fairseq folder"),
    "translate": (f"{_HERE}.translate", "plain text in, plain text out, with an imported model"),
    "encode": (f"{_HERE}.encode", "plain text as binarised data, with an imported model's vocabularies"),
    "export": (f"{_HERE}.export_model", "an imported model, pruned or not, for Hugging Face or Marian"),
    "user-dir": (f"{_HERE}.user_dir", "print the folder to give fairseq as --user-dir"),
}
"""Subcommand -> its module and what it does, in one line."""


def overview() -> str:
    """The text of ``headprune --help``."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(["usage: headprune COMMAND ...", "", "commands (each has its own --help):", *lines])


@command
def main(argv=None):
    """Run one subcommand; exit status 2 with a sentence on bad input."""
    argv = sys.argv[1:] if argv is None else [str(word) for word in argv]
    if not argv or argv[0] in ("-h", "--help"):
        print(overview())
        return 0 if argv else 2
    name, *rest = argv
    if name == "--version":
        from fairseq_headprune import __version__

        print(f"headprune {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"error: unknown command '{name}': use {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    module_name, what = COMMANDS[name]
    module = importlib.import_module(module_name)
    parser = argparse.ArgumentParser(prog=f"headprune {name}", description=what[0].upper() + what[1:] + ".")
    module.add_arguments(parser)
    return module.run(parser.parse_args(rest)) or 0
