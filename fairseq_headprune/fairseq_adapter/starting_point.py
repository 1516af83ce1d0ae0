"""What fairseq-train starts from, looked at before the model is built."""

import functools


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
            from fairseq_headprune.fairseq_adapter.command_lines import command_line
            from fairseq_headprune.models.architecture import typed_options
            from fairseq_headprune.models.starting_file import take_over

            gate_types = models.MODEL_DATACLASS_REGISTRY[name]().gate_types
            take_over(cfg, task, typed_options(command_line()), gate_types)
        return original(cfg, task, from_checkpoint)

    build_model.agrees_with_starting_files = True
    models.build_model = build_model
