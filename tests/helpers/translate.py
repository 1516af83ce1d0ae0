"""Beam search on toy models, and the logits of forced decoding."""

from functools import partial

import torch
from fairseq.sequence_generator import SequenceGenerator

from tests.helpers.small_models import dictionary


def beam(model, src_tokens, src_lengths, beam_size=5, words=12, max_len=12):
    """Token lists and scores of all hypotheses, best first, per sentence."""
    generator = SequenceGenerator(
        [model], dictionary(words), beam_size=beam_size, max_len_a=0, max_len_b=max_len
    )
    sample = {"net_input": {"src_tokens": src_tokens, "src_lengths": src_lengths}}
    with torch.no_grad():
        found = generator.generate([model], sample)
    return [[(h["tokens"].tolist(), float(h["score"])) for h in hypotheses] for hypotheses in found]


def same_translations(one, other, tolerance=1e-4):
    """Whether two results of ``beam`` hold the same tokens, with scores within tolerance.

    Hypotheses whose scores are as near to each other as that may stand in either order: a tie, which
    rounding decides.
    """
    return len(one) == len(other) and all(map(partial(_same_ranking, tolerance=tolerance), one, other))


def _same_ranking(one, other, tolerance):
    scores = [score for _, score in one]
    if len(one) != len(other) or any(abs(s - x[1]) > tolerance for s, x in zip(scores, other)):
        return False
    for tokens, score in one:
        if tokens not in [x[0] for x in other if abs(x[1] - score) <= tolerance]:
            return False
    return True


def logits(model, src_tokens, src_lengths, prev_output_tokens):
    """``[sentences, steps, words]`` without gradients."""
    with torch.no_grad():
        return model(src_tokens, src_lengths, prev_output_tokens)[0]


def step_by_step(model, src_tokens, src_lengths, prev_output_tokens):
    """The same logits by incremental decoding."""
    with torch.no_grad():
        encoded = model.encoder(src_tokens, src_lengths)
        state = {}
        steps = [
            model.decoder(prev_output_tokens[:, : t + 1], encoded, incremental_state=state)[0]
            for t in range(prev_output_tokens.size(1))
        ]
    return torch.cat(steps, dim=1)
