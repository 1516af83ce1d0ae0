"""``head_relevance``: the relevance of every head of a model for a batch of sentences."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.lrp.alpha_beta import AlphaBeta
from fairseq_headprune.lrp.appendix_a2 import AppendixA2
from fairseq_headprune.lrp.chunks import Chunk, chunks
from fairseq_headprune.lrp.epsilon import Epsilon
from fairseq_headprune.lrp.forward import trace
from fairseq_headprune.lrp.network import Network
from fairseq_headprune.lrp.support import check_model
from fairseq_headprune.lrp.transformer import WayBack, way_back
from fairseq_headprune.lrp.z_plus import ZPlus
from fairseq_headprune.units.layout import ATTENTION_TYPES

logger = logging.getLogger(__name__)

RULES = {rule.name: rule for rule in (AlphaBeta, ZPlus, Epsilon, AppendixA2)}
"""Rules by their name on command lines, the default first."""

ATTENTION_MODES = ("full", "values")

BLOCK_SIZE = 2**16
"""Contributions formed at a time on a CPU: two such arrays fit its second-level cache."""


CHUNK_SIZE = 2**19
"""Numbers in the largest tensor of sentences that are computed together on a CPU: half fits its cache."""
ALONE = 2**22
"""... of one sentence: all starts share the contributions that are formed for each token, so that cutting
them costs more than the cache gives (eight times as long for 96 tokens of a base model)."""


@dataclass
class Relevance(Mapping):
    """Relevance of heads: ``relevance[type]`` is a tensor ``[steps, sentences, layers, heads]``.

    Not normalised: the sum, over a head's neurons and all query positions, of relevance at the input
    of the output projection, for a start of 1 at one logit of that step. Heads count as in the whole
    model; those removed or closed hold 0, and so do steps beyond a sentence's end.
    """

    heads: dict[str, Tensor]
    valid: Tensor
    """bool [steps, sentences]: true where the sentence has that step."""
    start: Tensor
    """LongTensor [sentences, steps]: the token whose logit was explained."""
    nonfinite: Tensor
    """bool [steps, sentences]: valid steps with an infinite or NaN relevance. Left as they are."""
    source: Tensor | None = None
    """[steps, sentences, source tokens] relevance at the encoder's input (embedding + position),
    summed over channels; 0 at padding. None unless asked for, as are the next two."""
    target: Tensor | None = None
    """[steps, sentences, steps] the same at the decoder's input (``prev_output_tokens``)."""
    residual: Tensor | None = None
    """[steps, sentences]: 1 - (all source and target relevance), 0 if nothing was lost on the way.
    0 at steps that a sentence does not have."""

    def __getitem__(self, key: str) -> Tensor:
        return self.heads[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.heads)

    def __len__(self) -> int:
        return len(self.heads)


@torch.no_grad()
def head_relevance(
    model: nn.Module,
    src_tokens: Tensor,
    src_lengths: Tensor | None,
    prev_output_tokens: Tensor,
    rule: str = "alpha-beta",
    start: str | Tensor = "top1",
    attention: str | None = None,
    tokens: bool = False,
    dtype: torch.dtype | None = None,
    chunk_size: int | None = None,
    stabiliser: float | None = None,
    progress: Callable[[int], object] | None = None,
) -> Relevance:
    """How much each head contributes to one logit of every generation step (sections 4 and A).

    Arguments:
        model: a Transformer of arch transformer, gated_transformer or pruned_transformer. Neither its
            parameters nor its mode are touched; dropout never acts.
        src_tokens: LongTensor [sentences, source tokens], padded on either side.
        src_lengths: as fairseq passes it; lengths are read from the padding.
        prev_output_tokens: LongTensor [sentences, steps], the decoder's input (teacher forcing).
        rule: "alpha-beta", "z-plus", "epsilon" or "appendix-a2"; their equations are
            in README.md beside this file.
        start: "top1", the model's best token at each step, as in the paper; or a LongTensor
            [sentences, steps] of the tokens to explain.
        attention: "full" (through queries, keys and values; the default) or "values" (attention weights
            are constants; all that epsilon is defined for).
        tokens: also give the relevance of source and target tokens and the conservation residual.
        dtype: precision to compute in, whatever the model's is. By default float64, but shares of
            alpha-beta in float32 if the model has no more: good to 1e-6 at half the time. float32 is
            good to 1e-4 in alpha-beta; the other rules divide by signed sums, which amplifies its
            rounding up to the second digit, so that batches of other sizes give other results.
        chunk_size: how many numbers the largest tensor may hold, if one sentence with one start fits.
            Memory is some fifty times that at most; results do not depend on it. By default 2^19 on a
            CPU (its caches) and 2^22 for the starts of one sentence, 2^25 elsewhere.
        stabiliser: what keeps denominators off 0 in epsilon (0.01 by default) and appendix-a2 (1e-6); other
            rules have none.

        progress: called with the number of generation steps that were explained since the last call.

    Sentences do not influence each other. Relevance that is not finite stays in the result, is
    marked in ``nonfinite`` and logged; ``average`` counts it instead of averaging it in.

    Raises:
        UserError: a model, rule, start or mode that is not supported, named in the message.
    """
    check_model(model)
    _check_rule(rule, stabiliser)
    mode = _mode(RULES[rule], attention)
    parameter = next(model.parameters())
    on_cpu = parameter.device.type == "cpu"
    alone = chunk_size or 0
    if chunk_size is None:
        chunk_size, alone = (CHUNK_SIZE, ALONE) if on_cpu else (2**25, 2**25)
    if chunk_size < 1:
        raise UserError(f"chunk size {chunk_size} must be at least 1")
    source_real = src_tokens.ne(model.encoder.padding_idx)
    valid = prev_output_tokens.ne(model.decoder.padding_idx)
    given = _given_start(start, prev_output_tokens, valid, model)

    if on_cpu:
        _keep_freed_memory()
    share_dtype = dtype
    if dtype is None:
        dtype = torch.float64
        share_dtype = dtype if parameter.dtype == dtype else torch.float32
    network = Network.of(model, dtype)
    block_size = min(chunk_size, BLOCK_SIZE) if on_cpu else chunk_size
    engine = RULES[rule](chunk_size, block_size, share_dtype)
    if stabiliser is not None:
        engine.stabiliser = stabiliser
    result = _empty(network, src_tokens, valid, dtype, tokens)
    for chunk in chunks(network, source_real, valid, chunk_size, alone):
        rows = chunk.sentences[:, None]
        part = trace(network, src_tokens[rows, chunk.source], prev_output_tokens[rows, chunk.steps])
        chosen = part.logits.argmax(-1) if given is None else given[rows, chunk.steps]
        real = valid[rows, chunk.steps]
        for starts in chunk.starts:
            _store(result, chunk, starts, way_back(part, engine, mode, chosen, starts, real, tokens))
            if progress is not None:
                progress(int(real[:, starts].sum()))
        result.start[rows, chunk.steps] = chosen.masked_fill(~real, network.decoder.padding)
    return _finish(result)


@cache
def _keep_freed_memory() -> None:
    """Once: let the C library keep what every layer frees for the next one.

    glibc returns large blocks to the system at once until one of this size has been freed; a sixth
    of the time then goes into getting the same memory back, page by page. Nothing is written here.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def _check_rule(name: str, stabiliser: float | None) -> None:
    if name not in RULES:
        raise UserError(f"unknown relevance rule '{name}': use " + ", ".join(RULES))
    if stabiliser is not None:
        check_stabiliser(name, stabiliser)


def check_stabiliser(rule: str, stabiliser: float, what: str = "the stabiliser") -> None:
    """UserError for a rule that has none, or a number that is none; ``what`` names it."""
    having = [name for name, known in RULES.items() if issubclass(known, Epsilon)]
    if rule not in having:
        raise UserError(f"rule {rule} has no stabiliser: leave {what} out or use rule {' or '.join(having)}")
    if not 0 <= stabiliser < float("inf"):
        raise UserError(f"{what} must be a number of at least 0, not {stabiliser}")


def _mode(rule, attention: str | None) -> str:
    if attention is None:
        return rule.attention_modes[0]
    if attention not in ATTENTION_MODES:
        raise UserError(f"unknown attention mode '{attention}': use " + " or ".join(ATTENTION_MODES))
    if attention not in rule.attention_modes:
        raise UserError(f"rule {rule.name} takes attention weights as constants: use attention 'values'")
    return attention


def _given_start(start, prev_output_tokens: Tensor, valid: Tensor, model) -> Tensor | None:
    if isinstance(start, str):
        if start != "top1":
            raise UserError(f"unknown start '{start}': use 'top1' or a tensor of token numbers")
        return None
    if start.shape != prev_output_tokens.shape:
        raise UserError(
            f"start has shape {list(start.shape)}; it must name one token for each of "
            f"{list(prev_output_tokens.shape)} sentences and steps"
        )
    vocabulary = model.decoder.output_projection.weight.shape[0]
    used = start[valid]
    if used.numel() and not (0 <= int(used.min()) and int(used.max()) < vocabulary):
        raise UserError(f"start names a token outside the vocabulary of {vocabulary}")
    # padding has no start; any row of the output projection will do there
    return start.masked_fill(~valid, 0)


def _empty(network: Network, src_tokens: Tensor, valid: Tensor, dtype, tokens: bool) -> Relevance:
    B, steps = valid.shape

    def zeros(*shape):
        return torch.zeros(*shape, dtype=dtype, device=valid.device)

    return Relevance(
        {key: zeros(steps, B, *network.head_sizes[key]) for key in ATTENTION_TYPES},
        valid.T.contiguous(),
        torch.full_like(valid, network.decoder.padding, dtype=torch.long),
        torch.zeros_like(valid.T),
        zeros(steps, B, src_tokens.shape[1]) if tokens else None,
        zeros(steps, B, steps) if tokens else None,
    )


def _store(result: Relevance, chunk: Chunk, starts: slice, back: WayBack) -> None:
    steps, sentences = chunk.steps[starts, None], chunk.sentences
    for key, value in back.heads.items():
        result.heads[key][steps, sentences] = value.transpose(0, 1)
    for whole, value, columns in (
        (result.source, back.source, chunk.source),
        (result.target, back.target, chunk.steps),
    ):
        if whole is not None and value is not None:
            whole[steps[..., None], sentences[:, None], columns] = value.transpose(0, 1)


def _finish(result: Relevance) -> Relevance:
    bad = torch.zeros_like(result.valid)
    for value in result.heads.values():
        bad |= ~value.isfinite().flatten(2).all(-1)
    if result.source is not None:
        total = result.source.sum(-1) + result.target.sum(-1)
        result.residual = torch.where(result.valid, 1 - total, torch.zeros_like(total))
        bad |= ~result.residual.isfinite()
    result.nonfinite = bad & result.valid
    count = int(result.nonfinite.sum())
    if count:
        logger.warning("relevance of %d of %d generation steps is not finite", count, int(result.valid.sum()))
    return result
