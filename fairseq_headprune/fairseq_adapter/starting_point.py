"""What fairseq-train starts from, looked at before the model is built."""

import functools
import sys

_typed: list[list[str]] = []
"""The command line that was parsed last, where it is not this program's own."""


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


def agree_with_starting_files():
    """fairseq-train loads weights into whatever model the flags describe: with another number of heads,
    another activation or unscaled embeddings they fit and mean something else. Our models are compared with
    the file before they are built.
    """
    from fairseq import models
    from omegaconf import DictConfig

    original = models.build_model
    if getattr(original, "agrees_with_starting_files", False):
        return

    @functools.wraps(original)
    def build_model(cfg, task, from_checkpoint=False):
        name = models.ARCH_MODEL_NAME_REGISTRY.get(getattr(cfg, "_name", None))
        if (
            isinstance(cfg, DictConfig)
            and not from_checkpoint
            and name in ("gated_transformer", "pruned_transformer")
        ):
            from fairseq_headprune.models.architecture import typed_options
            from fairseq_headprune.models.starting_file import take_over

            # a worker that was spawned has the command line of its parent
            words = _typed[0] if _typed else sys.argv[1:]
            take_over(cfg, task, typed_options(words), models.MODEL_DATACLASS_REGISTRY[name]().gate_types)
        return original(cfg, task, from_checkpoint)

    build_model.agrees_with_starting_files = True
    models.build_model = build_model
