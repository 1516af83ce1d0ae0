"""Scores of heads: how much each is worth by one criterion or another, the higher the more.

- ``gates``: P(open) of a gated checkpoint (section 6.1);
- ``gradient``: Michel et al. (2019): the expected size of dL/dg_h at g_h = 1, g_h a factor on the
  output of head h, with scores of a layer divided by their Euclidean norm;
- ``confidence``: mean over query tokens of the largest attention weight, end of sentence left out
  (section 4 of Voita et al. 2019);
- ``lrp-RULE``: head relevance (appendix A): a head's absolute share of its layer, mean over steps;
- ``random``: a random order.

All but gates and random are of a model as it is, on a few sentences with their references (forced
decoding). Heads of all layers are ranked in one list by these numbers. Gradient and relevance are
normalised within a layer (by the norm of its scores, by their sum), so they compare heads of one layer;
across layers the list says how far a head stands out among those of its own layer, not how much the layer
matters, and a layer with few heads left has large shares.

A new criterion is a function here and its entry in `CRITERIA`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_headprune import lrp
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.nn.projections import attention_modules, existing_heads, existing_layout
from fairseq_headprune.recording.maps import record_attention
from fairseq_headprune.selection.baseline import Baseline, Batch
from fairseq_headprune.selection.gate_table import gate_table
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head, HeadLayout

Scores = dict[Head, float]
Place = tuple[str, int]
"""Kind of attention and layer."""


def gradient_importance(model: nn.Module, batches: Iterable[Batch]) -> Scores:
    """Sum over sentences of |dL/dg_h|, L the sentence's loss (nats, summed over its target tokens),
    per target token of the whole set; then divided by the layer's norm.

    dL/dg_h of a sentence is the inner product of the head's output and the loss's gradient there.
    """
    sums: dict[Place, Tensor] = {}
    tokens = 0
    with record_attention(model):
        modules = attention_modules(model)
        for batch in batches:
            outputs: dict[Any, Tensor] = {}
            with _catch_head_outputs(modules, outputs), torch.enable_grad():
                loss, count = _summed_loss(model, batch)
                tensors = list(outputs.values())
                gradients = torch.autograd.grad(loss, tensors)
            tokens += count
            for (key, layer), output, gradient in zip(outputs, tensors, gradients):
                heads = len(existing_heads(modules[key][layer]))
                product = (output * gradient).detach().double()
                each = product.view(*product.shape[:2], heads, -1).sum((0, 3))  # [sentences, heads]
                sums[key, layer] = sums.get((key, layer), 0) + each.abs().sum(0)
    layers = {place: value / max(tokens, 1) for place, value in sums.items()}
    return _named(model, {p: v / (v.norm() + 1e-20) for p, v in layers.items()})


class _catch_head_outputs:
    """While open, the concatenated outputs of the heads [time, sentences, heads * d] of every
    attention module are put into ``outputs`` by (type, layer)."""

    def __init__(self, modules, outputs):
        self.places = [(m, (t, i)) for t in modules for i, m in enumerate(modules[t])]
        self.outputs = outputs

    def __enter__(self):
        for module, place in self.places:
            if module.num_heads:
                module.project_out = self._wrapped(module.project_out, place)

    def _wrapped(self, project, place):
        def caught(x):
            x = x if x.requires_grad else x.detach().requires_grad_()
            self.outputs[place] = x
            return project(x)

        return caught

    def __exit__(self, *_):
        for module, _ in self.places:
            module.__dict__.pop("project_out", None)


def _summed_loss(model: nn.Module, batch: Batch):
    """Negative log-likelihood in nats summed over the batch's target tokens, and their number."""
    logits = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])[0]
    pad: int = model.decoder.padding_idx  # type: ignore[union-attr,assignment]
    target = batch["target"]
    loss = nn.functional.cross_entropy(
        logits.float().flatten(0, 1), target.flatten(), ignore_index=pad, reduction="sum"
    )
    return loss, int(target.ne(pad).sum())


@torch.no_grad()
def confidence(model: nn.Module, batches: Iterable[Batch], eos: int) -> Scores:
    """Mean over query tokens of the largest attention weight, EOS left out as key and as query."""
    pad: int = model.decoder.padding_idx  # type: ignore[union-attr,assignment]
    sums: dict[Place, Tensor] = {}
    counts: dict[Place, int] = {}
    for batch in batches:
        source, target = batch["src_tokens"], batch["prev_output_tokens"]
        real = {  # the decoder's input starts with EOS
            "src": source.ne(pad) & source.ne(eos),
            "tgt": target.ne(pad) & target.ne(eos),
        }
        with record_attention(model) as maps:
            model(source, batch["src_lengths"], target)
        for key in ATTENTION_TYPES:
            queries = real["src" if key == "enc_self" else "tgt"]
            keys = real["tgt" if key == "dec_self" else "src"]
            for layer, weights in enumerate(maps[key]):
                largest = weights.masked_fill(~keys[:, None, None, :], 0).amax(-1)  # [B, H, Q]
                total = (largest * queries[:, None]).sum((0, 2)).double()
                sums[key, layer] = sums.get((key, layer), 0) + total
                counts[key, layer] = counts.get((key, layer), 0) + int(queries.sum())
    return _named(model, {p: v / max(counts[p], 1) for p, v in sums.items()})


def relevance(model: nn.Module, batches: Iterable[Batch], rule: str) -> Scores:
    """Head relevance by one of the rules of `lrp`: absolute shares of the layer, averaged over steps."""
    results = (
        lrp.head_relevance(model, b["src_tokens"], b["src_lengths"], b["prev_output_tokens"], rule=rule)
        for b in batches
    )
    average = lrp.average(results, magnitudes=True)
    # these tables count heads as in the whole model
    return {h: float(average[h.type][h.layer, h.head]) for h in existing_layout(model)}


def random_scores(layout: HeadLayout, seed: int) -> Scores:
    """A random order of the heads."""
    values = np.random.default_rng(seed).random(len(layout))
    return {head: float(v) for head, v in zip(layout, values)}


def _named(model: nn.Module, values) -> Scores:
    """``(type, layer) -> [existing heads]`` as scores by head."""
    modules = attention_modules(model)
    return {
        Head(key, layer, head): float(value)
        for (key, layer), row in values.items()
        for head, value in zip(existing_heads(modules[key][layer]), row.tolist())
    }


def _by_gates(baseline: Baseline) -> Scores:
    scores = gate_table(baseline.state)
    if not scores:
        raise UserError(
            f"{baseline.checkpoint} has no gates to choose by: choose by another criterion, "
            + ", ".join(name for name in CRITERIA if name != "gates")
        )
    return scores


def _by_relevance(baseline: Baseline, rule: str) -> Scores:
    return relevance(baseline.model, baseline.batches, rule)


@dataclass(frozen=True)
class Criterion:
    """One way of scoring the heads of a checkpoint."""

    scores: Callable[[Baseline], Scores]
    sentences: int = 0
    """How many sentences it reads unless another number is given; 0 when it reads none."""


CRITERIA: dict[str, Criterion] = {
    "gates": Criterion(_by_gates),
    "gradient": Criterion(lambda b: gradient_importance(b.model, b.batches), 200),
    "confidence": Criterion(lambda b: confidence(b.model, b.batches, b.eos), 200),
    # fewer sentences, since relevance costs more
    **{f"lrp-{rule}": Criterion(partial(_by_relevance, rule=rule), 60) for rule in lrp.RULES},
    "random": Criterion(lambda b: random_scores(b.layout, b.seed)),
}
"""Name on command lines -> criterion."""
