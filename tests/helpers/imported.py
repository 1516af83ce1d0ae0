"""Imported models, opened: a `Source` through the folder that headprune import writes."""

import torch

from fairseq_headprune.checkpoints import reading
from fairseq_headprune.imports import checkpoint, folder
from fairseq_headprune.imports.vocabulary import fairseq_order


def open_source(source, place, languages=("en", "pt")):
    """``(model, task)`` of ``source``, written to the new folder ``place`` and read again."""
    folder.write(source, languages, checkpoint.build(source, languages), place)
    model, _, task = reading.load_model(place / "model.pt", str(place))
    return model, task


def fairseq_ids(words):
    """``[len(words)]``: fairseq's id of each id of a vocabulary."""
    ids = torch.empty(len(words), dtype=torch.long)
    for new, old in enumerate(fairseq_order(words)):
        if old >= 0:
            ids[old] = new
    return ids


def batches(pairs, size=25):
    """``(indices, src, lengths, prev, target)`` of at most ``size`` pairs of 1-d id tensors each: sources
    padded on the left, targets on the right, the decoder's input shifted behind ``</s>``."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        sources, targets = zip(*(pairs[i] for i in chosen))
        lengths = torch.tensor([len(s) for s in sources])
        src = torch.full((len(chosen), int(lengths.max())), 1)
        target = torch.full((len(chosen), max(map(len, targets))), 1)
        for row, (s, t) in enumerate(zip(sources, targets)):
            src[row, src.size(1) - len(s) :], target[row, : len(t)] = s, t
        prev = torch.cat([torch.full((len(chosen), 1), 2), target[:, :-1]], 1)
        yield chosen, src, lengths, prev, target
