"""Where a search spends its time: shares of torch's operators, grouped by what they are for."""

from collections.abc import Callable, Iterable

import torch

GROUPS: dict[str, tuple[str, ...]] = {
    "products with weights": ("addmm", "mm", "linear"),
    "products of attention": ("bmm", "baddbmm", "matmul", "_scaled_dot_product_flash_attention_for_cpu"),
    "copies of caches and tensors": ("index_select", "cat", "copy_", "clone", "contiguous", "_to_copy"),
    "norms, softmax, activation": (
        "native_layer_norm",
        "_softmax",
        "clamp_min",
        "clamp_min_",
        "relu",
        "relu_",
    ),
    "vocabulary: log-softmax, best": ("_log_softmax", "topk", "sort", "ne", "masked_fill_"),
    "between operators": ("EnsembleModel: forward_decoder", "EnsembleModel: forward_encoder"),
}
"""Operator names without ``aten::``. What fairseq's own marks hold besides operators is Python."""


def group_of(name: str) -> str:
    """The group of an operator, or "small operators"."""
    plain = name.replace("aten::", "")
    for group, names in GROUPS.items():
        if plain in names:
            return group
    return "small operators"


def shares(times: Iterable[tuple[str, float]]) -> dict[str, float]:
    """``(operator, own time)`` pairs -> group -> share of the whole, largest first."""
    sums: dict[str, float] = {}
    for name, own in times:
        sums[group_of(name)] = sums.get(group_of(name), 0.0) + own
    whole = sum(sums.values()) or 1.0
    return {g: t / whole for g, t in sorted(sums.items(), key=lambda item: -item[1])}


def profile(call: Callable[[], object], rounds: int = 2) -> dict[str, float]:
    """Shares of the operators' own times over some rounds of ``call``, after one not counted."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as taken:
        for _ in range(rounds):
            call()
    return shares((event.key, event.self_cpu_time_total) for event in taken.key_averages())
