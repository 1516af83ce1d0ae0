"""A checkpoint ready for fairseq's own search."""

from fairseq_headprune.checkpoints import reading as checkpoints


def open_search(path, data: str, beam: int, longest: tuple[float, int] = (1.2, 10)):
    """``(model, task, generator)`` of a checkpoint, prepared for inference.

    ``longest``: a translation ends after so many times the source's tokens plus so many. UserError as
    `checkpoints.reading.load_model`.
    """
    model, cfg, task = checkpoints.load_model(path, data)
    cfg.generation.beam = beam
    cfg.generation.max_len_a, cfg.generation.max_len_b = longest
    model.prepare_for_inference_(cfg)
    return model, task, task.build_generator([model], cfg.generation)
