"""How fairseq's programs read their command lines, and what they leave out."""

import contextlib
import functools
import io
import sys

_typed: list[list[str]] = []
"""The command line that was parsed last, where it is not this program's own."""


def command_line() -> list[str]:
    """The words that options were parsed from last; a worker that was spawned has those of its parent."""
    return _typed[0] if _typed else sys.argv[1:]


def remember_command_lines():
    """fairseq's configuration does not tell what was given from what is a default; the command line does."""
    from fairseq import options

    original = options.parse_args_and_arch
    if getattr(original, "remembers_command_lines", False):
        return

    @functools.wraps(original)
    def parse_args_and_arch(parser, input_args=None, *args, **kwargs):
        _typed[:] = [list(sys.argv[1:] if input_args is None else input_args)]
        return original(parser, input_args, *args, **kwargs)

    parse_args_and_arch.remembers_command_lines = True
    options.parse_args_and_arch = parse_args_and_arch


def help_with_every_option():
    """fairseq prints --help before it has added the options of model, task and criterion.

    Parse without --help first, which adds them, then print.
    """
    from fairseq import options

    original = options.parse_args_and_arch
    if getattr(original, "helps_with_every_option", False):
        return

    @functools.wraps(original)
    def parse_args_and_arch(parser, input_args=None, *args, **kwargs):
        given = sys.argv[1:] if input_args is None else list(input_args)
        rest = [word for word in given if word not in ("-h", "--help")]
        if len(rest) == len(given):
            return original(parser, input_args, *args, **kwargs)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                original(parser, rest, *args, **kwargs)
        except SystemExit:
            pass  # something required is missing, as it may be when help is asked for
        parser.print_help()
        raise SystemExit(0)

    parse_args_and_arch.helps_with_every_option = True
    options.parse_args_and_arch = parse_args_and_arch


def validate_without_a_task():
    """fairseq-validate names no task by itself, since the checkpoint does, and then looks for its options."""
    from fairseq import options

    original = options.parse_args_and_arch
    if getattr(original, "names_a_task", False):
        return

    @functools.wraps(original)
    def parse_args_and_arch(parser, *args, **kwargs):
        if any(action.dest == "task" for action in parser._actions) and parser.get_default("task") is None:
            parser.set_defaults(task="translation")
        return original(parser, *args, **kwargs)

    parse_args_and_arch.names_a_task = True
    options.parse_args_and_arch = parse_args_and_arch


def refuse_other_tasks():
    """Tasks of several languages fail somewhere inside when they build our models, or write files that are
    refused when they are read (`checkpoints.guard`)."""
    from fairseq import options

    original = options.parse_args_and_arch
    if getattr(original, "refuses_other_tasks", False):
        return

    @functools.wraps(original)
    def parse_args_and_arch(*args, **kwargs):
        from fairseq.models import ARCH_MODEL_NAME_REGISTRY

        from fairseq_headprune.base.errors import UserError
        from fairseq_headprune.checkpoints.guard import TASKS

        result = original(*args, **kwargs)
        parsed = result[0] if isinstance(result, tuple) else result
        model = ARCH_MODEL_NAME_REGISTRY.get(getattr(parsed, "arch", None))
        task = getattr(parsed, "task", None)
        if model in ("gated_transformer", "pruned_transformer") and task and task not in TASKS:
            raise UserError(f"--task {task} does not go with --arch {parsed.arch}: use {' or '.join(TASKS)}")
        return result

    parse_args_and_arch.refuses_other_tasks = True
    options.parse_args_and_arch = parse_args_and_arch
