"""Which sentences and which starts are computed together, so that memory stays bounded."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_headprune.lrp.network import FeedForwardPart, Network, RecurrentPart

FEWEST_STARTS = 8
"""A chunk counts as having at least so many: the forward pass is kept too, whatever the starts."""


@dataclass(frozen=True)
class Chunk:
    """Sentences computed together, without the columns that are padding in all of them."""

    sentences: Tensor  # LongTensor: rows of the batch
    source: Tensor  # LongTensor: columns of src_tokens
    steps: Tensor  # LongTensor: columns of prev_output_tokens
    starts: list[slice]  # generation steps (places in ``steps``) explained together


def width(network: Network) -> int:
    """Numbers per token of the widest layer."""
    widest = 0
    for part in network.parts:
        if isinstance(part, FeedForwardPart):
            linears = (part.fc1, part.fc2)
        elif isinstance(part, RecurrentPart):
            linears = (part.value,)
        else:
            linears = (part.together or part.key_value, part.query, part.out)
        widest = max([widest] + [max(linear.weight.shape) for linear in linears])
    return widest


def size(network: Network, sentences: int, longest: int, starts: int) -> int:
    """Numbers in the largest tensor on the way back: R, or attention with its keys."""
    heads = max(heads for _, heads in network.head_sizes.values())
    return sentences * longest * starts * max(width(network), heads * longest)


def chunks(
    network: Network, source_real: Tensor, valid: Tensor, chunk_size: int, alone: int
) -> Iterator[Chunk]:
    """Cut a batch, given where its tokens are not padding, ``[sentences, columns]`` each.

    Sentences of similar length go together up to ``chunk_size``. Starts are cut only when one sentence
    exceeds ``alone``.
    """
    for group in groups(network, source_real.sum(1), valid.sum(1), chunk_size):
        sentences = torch.tensor(group, device=valid.device)
        source = source_real[sentences].any(0).nonzero().squeeze(1)
        steps = valid[sentences].any(0).nonzero().squeeze(1)
        one_start = size(network, len(group), max(len(source), len(steps)), 1)
        together = max(1, max(chunk_size, alone) // one_start)
        starts = [slice(first, min(first + together, len(steps))) for first in range(0, len(steps), together)]
        yield Chunk(sentences, source, steps, starts)


def groups(network: Network, source_lengths: Tensor, steps: Tensor, chunk_size: int) -> list[list[int]]:
    """Sentences (those with any step) in groups whose largest tensor stays below ``chunk_size``."""
    longest = torch.maximum(source_lengths, steps).tolist()
    steps = steps.tolist()
    order = sorted((i for i, n in enumerate(steps) if n), key=lambda i: (longest[i], steps[i]))
    found: list[list[int]] = []
    for i in order:
        if found:
            # sorted: sentence i is the longest so far
            starts = max(FEWEST_STARTS, *(steps[j] for j in found[-1]), steps[i])
            if size(network, len(found[-1]) + 1, longest[i], starts) <= chunk_size:
                found[-1].append(i)
                continue
        found.append([i])
    return found
