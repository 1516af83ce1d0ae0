"""``head_relevance``: the relevance of every head of a model for a batch of sentences."""

import logging
from dataclasses import dataclass
from typing import Dict, Iterator, List, Mapping, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from fairseq_headprune.errors import UserError
from fairseq_headprune.layout import ATTENTION_TYPES
from fairseq_headprune.lrp.alpha_beta import AlphaBeta
from fairseq_headprune.lrp.epsilon import Epsilon
from fairseq_headprune.lrp.forward import Trace, trace
from fairseq_headprune.lrp.network import Network
from fairseq_headprune.lrp.rules import Rule
from fairseq_headprune.lrp.support import check_model
from fairseq_headprune.lrp.transformer import WayBack, way_back
from fairseq_headprune.lrp.z_plus import ZPlus
from fairseq_headprune.projections import total_heads

logger = logging.getLogger(__name__)

RULES = {rule.name: rule for rule in (AlphaBeta, ZPlus, Epsilon)}
"""Rules by their name on command lines, the default first."""

ATTENTION_MODES = ("full", "values")

BLOCK_SIZE = 2**16
"""Contributions formed at a time on a CPU: what its second-level cache holds."""


@dataclass
class Relevance(Mapping):
    """Relevance of heads: ``relevance[type]`` is a tensor ``[steps, sentences, layers, heads]``.

    Not normalised: the sum, over a head's neurons and all query positions, of relevance at the input
    of the output projection, for a start of 1 at one logit of that step. Heads count as in the whole
    model; those removed or closed hold 0, and so do steps beyond a sentence's end.
    """

    heads: Dict[str, Tensor]
    valid: Tensor
    """bool [steps, sentences]: true where the sentence has that step."""
    start: Tensor
    """LongTensor [sentences, steps]: the token whose logit was explained."""
    nonfinite: Tensor
    """bool [steps, sentences]: valid steps with an infinite or NaN relevance. Left as they are."""
    source: Optional[Tensor] = None
    """[steps, sentences, source tokens] relevance at the encoder's input (embedding + position),
    summed over channels; 0 at padding. None unless asked for, as are the next two."""
    target: Optional[Tensor] = None
    """[steps, sentences, steps] the same at the decoder's input (``prev_output_tokens``)."""
    residual: Optional[Tensor] = None
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
    src_lengths: Optional[Tensor],
    prev_output_tokens: Tensor,
    rule: str = "alpha-beta",
    start: Union[str, Tensor] = "top1",
    attention: Optional[str] = None,
    tokens: bool = False,
    dtype: torch.dtype = torch.float64,
    chunk_size: Optional[int] = None,
    stabiliser: Optional[float] = None,
) -> Relevance:
    """How much each head contributes to one logit of every generation step (sections 4 and A).

    Arguments:
        model: a Transformer of arch transformer, gated_transformer or pruned_transformer. Neither its
            parameters nor its mode are touched; dropout never acts.
        src_tokens: LongTensor [sentences, source tokens], padded on either side.
        src_lengths: as fairseq passes it; lengths are read from the padding.
        prev_output_tokens: LongTensor [sentences, steps], the decoder's input (teacher forcing).
        rule: "alpha-beta", "z-plus" or "epsilon"; README.md beside this file has their equations.
        start: "top1", the model's best token at each step, as in the paper; or a LongTensor
            [sentences, steps] of the tokens to explain.
        attention: "full" (through queries, keys and values; the default of alpha-beta and z-plus) or
            "values" (attention weights are constants; all that epsilon is defined for).
        tokens: also give the relevance of source and target tokens and the conservation residual.
        dtype: precision to compute in, whatever the model's is. Rounding is amplified where a signed
            sum is divided by: in float32, z-plus and epsilon depend on it in the second digit and
            alpha-beta in the fifth, so that batches of other sizes give other results.
        chunk_size: how many numbers the largest tensor may hold. Memory is a small multiple of it;
            results do not depend on it. By default 2^19 on a CPU (its caches), 2^25 elsewhere.
        stabiliser: epsilon's eps, 0.01 by default; other rules have none.

    Sentences do not influence each other. Relevance that is not finite stays in the result, is
    marked in ``nonfinite`` and logged; ``average`` counts it instead of averaging it in.

    Raises:
        UserError: a model, rule, start or mode that is not supported, named in the message.
    """
    check_model(model)
    make = _rule(rule, stabiliser)
    mode = _mode(RULES[rule], attention)
    parameter = next(model.parameters())
    on_cpu = parameter.device.type == "cpu"
    if chunk_size is None:
        chunk_size = 2**19 if on_cpu else 2**25
    if chunk_size < 1:
        raise UserError(f"chunk size {chunk_size} must be at least 1")
    source_real = src_tokens.ne(model.encoder.padding_idx)
    valid = prev_output_tokens.ne(model.decoder.padding_idx)
    given = _given_start(start, prev_output_tokens, valid, model)

    result = _empty(model, src_tokens, valid, dtype, tokens)
    network = Network.of(model, dtype)
    engine = make(min(chunk_size, BLOCK_SIZE) if on_cpu else chunk_size)
    for group in _groups(model, source_real, valid, chunk_size):
        source_columns = source_real[group].any(0)
        columns = valid[group].any(0)
        part = trace(
            network, src_tokens[group][:, source_columns], prev_output_tokens[group][:, columns]
        )
        chosen = part.logits.argmax(-1) if given is None else given[group][:, columns]
        size = _start_size(model, part)
        step = max(1, chunk_size // max(1, size))
        steps = part.features.shape[1]
        for first in range(0, steps, step):
            starts = slice(first, min(first + step, steps))
            back = way_back(
                part, engine, mode, chosen, starts, valid[group][:, columns], tokens
            )
            _store(result, back, group, columns, source_columns, starts)
        rows = group[:, None]
        result.start[rows, columns.nonzero().T] = torch.where(
            valid[group][:, columns], chosen, model.decoder.padding_idx
        )
    return _finish(result)


def _rule(name: str, stabiliser: Optional[float]):
    if name not in RULES:
        raise UserError(f"unknown relevance rule '{name}': use " + ", ".join(RULES))
    if stabiliser is None:
        return RULES[name]
    if name != Epsilon.name:
        raise UserError(f"rule {name} has no stabiliser: leave it out or use rule {Epsilon.name}")
    if not stabiliser >= 0:
        raise UserError(f"the stabiliser {stabiliser} must not be negative")
    return lambda block_size: Epsilon(block_size, stabiliser)


def _mode(rule, attention: Optional[str]) -> str:
    if attention is None:
        return rule.attention_modes[0]
    if attention not in ATTENTION_MODES:
        raise UserError(
            f"unknown attention mode '{attention}': use " + " or ".join(ATTENTION_MODES)
        )
    if attention not in rule.attention_modes:
        raise UserError(
            f"rule {rule.name} takes attention weights as constants: use attention 'values'"
        )
    return attention


def _given_start(start, prev_output_tokens: Tensor, valid: Tensor, model) -> Optional[Tensor]:
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


def _totals(model) -> Dict[str, int]:
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    return {
        "enc_self": total_heads(encoder.self_attn),
        "dec_self": total_heads(decoder.self_attn),
        "dec_enc": total_heads(decoder.encoder_attn),
    }


def _empty(model, src_tokens: Tensor, valid: Tensor, dtype, tokens: bool) -> Relevance:
    B, steps = valid.shape
    totals = _totals(model)
    layers = {
        "enc_self": len(model.encoder.layers),
        "dec_self": len(model.decoder.layers),
        "dec_enc": len(model.decoder.layers),
    }

    def zeros(*shape):
        return torch.zeros(*shape, dtype=dtype, device=valid.device)

    return Relevance(
        {key: zeros(steps, B, layers[key], totals[key]) for key in ATTENTION_TYPES},
        valid.T.contiguous(),
        torch.full_like(valid, model.decoder.padding_idx, dtype=torch.long),
        torch.zeros_like(valid.T),
        zeros(steps, B, src_tokens.shape[1]) if tokens else None,
        zeros(steps, B, steps) if tokens else None,
    )


def _width(model, longest: int) -> int:
    """Numbers per token and start of the widest tensor on the way back."""
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    heads = max(_totals(model).values())
    return max(
        3 * encoder.fc1.in_features,
        3 * decoder.fc1.in_features,
        encoder.fc1.out_features,
        decoder.fc1.out_features,
        2 * heads * longest,
    )


def _start_size(model, part: Trace) -> int:
    """Numbers per start of the widest tensor on the way back through ``part``."""
    source, steps = part.encoder.output.shape[1], part.features.shape[1]
    longest = max(source, steps)
    return part.features.shape[0] * longest * _width(model, longest)


def _groups(model, source_real: Tensor, valid: Tensor, chunk_size: int) -> List[Tensor]:
    """Sentences of similar length that are computed together, as index tensors."""
    source, steps = source_real.sum(1), valid.sum(1)
    longest = torch.maximum(source, steps).tolist()
    steps = steps.tolist()
    order = sorted((i for i in range(len(steps)) if steps[i]), key=lambda i: (longest[i], steps[i]))
    groups: List[List[int]] = []
    for i in order:
        # sorted, so sentence i is the longest so far; its group may not have more steps than this
        if groups:
            together = groups[-1] + [i]
            most = max(steps[j] for j in together)
            size = len(together) * most * longest[i] * _width(model, longest[i])
            if size <= chunk_size:
                groups[-1].append(i)
                continue
        groups.append([i])
    return [torch.tensor(group, device=valid.device) for group in groups]


def _store(
    result: Relevance,
    back: WayBack,
    group: Tensor,
    columns: Tensor,
    source_columns: Tensor,
    starts: slice,
) -> None:
    rows = columns.nonzero().squeeze(1)[starts, None]
    for key, value in back.heads.items():
        result.heads[key][rows, group] = value.transpose(0, 1)
    for name, own in (("source", source_columns), ("target", columns)):
        value, whole = getattr(back, name), getattr(result, name)
        if whole is not None and value is not None:
            where = own.nonzero().squeeze(1)
            whole[rows[..., None], group[:, None], where] = value.transpose(0, 1)


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
        logger.warning(
            "relevance of %d of %d generation steps is not finite", count, int(result.valid.sum())
        )
    return result
