"""Beam search on toy models, and the logits of forced decoding."""

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
    """Whether two results of ``beam`` hold the same tokens, with scores within tolerance."""
    return len(one) == len(other) and all(
        len(a) == len(b)
        and all(x[0] == y[0] and abs(x[1] - y[1]) <= tolerance for x, y in zip(a, b))
        for a, b in zip(one, other)
    )


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
