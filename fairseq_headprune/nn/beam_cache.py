"""Keys and values of one beam search, written once and never copied when beams are reordered.

Usual caches hold, per hypothesis, the keys of its own past, and copy them all whenever beam search
continues one hypothesis twice and drops another. Here every key stays where it was written, and a
table says which of them lie on the path of which hypothesis. All hypotheses of a sentence attend to
the keys of all of them at once, with those off their path masked: the products grow from vectors to
small matrices, and what moves at each step is the table (a row of numbers per hypothesis), not the
keys of every layer.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

FIRST_STEPS = 16
"""Steps there is room for at first; the room doubles whenever it is full."""


class BeamCache:
    """Self-attention keys and values of ``sentences`` sentences with ``beam`` hypotheses each.

    A slot is a place for one key: step t of hypothesis i of a sentence is its slot ``t * beam + i``.
    Keys of a layer are kept as ``[B, H, d, slots]`` and values as ``[B, H, slots, d]``, the forms
    that the two products of attention read fastest. Rows of hypotheses are ``sentence * beam + i``.
    """

    def __init__(self, sentences: int, beam: int, heads: Sequence[int], head_dim: int, like: Tensor):
        """``heads``: number of heads per layer (0 allowed); ``like``: for type and device."""
        self.beam = beam
        self.steps = 0
        self.room = 0
        self.keys: list[Tensor] = [like.new_empty(sentences, count, head_dim, 0) for count in heads]
        self.values: list[Tensor] = [like.new_empty(sentences, count, 0, head_dim) for count in heads]
        # 0 where the hypothesis (row) sees the slot, -inf elsewhere
        self.paths = like.new_empty(sentences * beam, 0)
        self._diagonal = like.new_full((beam, beam), float("-inf")).fill_diagonal_(0.0)
        self._padded = False
        self._set_sentences(sentences)

    def _set_sentences(self, number: int) -> None:
        self.sentences = number
        self._own = self._diagonal.repeat(number, 1)
        self._numbers = torch.arange(number, device=self._own.device).unsqueeze(1)

    def begin_step(self, padded: Tensor | None = None) -> None:
        """Make place for one more step. ``padded`` bool [rows]: hypotheses whose token is padding,
        which nothing attends to."""
        if self.steps == self.room:
            self._grow(max(FIRST_STEPS, 2 * self.room))
        self.steps += 1
        new = self.paths[:, (self.steps - 1) * self.beam : self.steps * self.beam]
        new.copy_(self._own)
        if padded is not None:
            new.masked_fill_(padded.unsqueeze(1), float("-inf"))
            self._padded = True

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write this step's keys and values ``[B, beam, H, d]`` of a layer.

        Returns all there are: keys ``[B, H, d, slots]`` and values ``[B, H, slots, d]``, views.
        """
        stop = self.steps * self.beam
        start = stop - self.beam
        all_keys, all_values = self.keys[layer], self.values[layer]
        all_keys[..., start:stop].copy_(keys.permute(0, 2, 3, 1))
        all_values[:, :, start:stop].copy_(values.transpose(1, 2))
        return all_keys[..., :stop], all_values[:, :, :stop]

    def mask(self) -> Tensor | None:
        """``[B, 1, beam, slots]`` to add to scores, or None when every slot is seen."""
        if self.beam == 1 and not self._padded:
            return None
        return self.paths[:, : self.steps * self.beam].view(self.sentences, 1, self.beam, -1)

    def reorder(self, order: Tensor) -> Tensor | None:
        """Row r goes on as a continuation of row ``order[r]``; fewer rows: sentences are finished.

        Beams never leave their sentence. Returns the sentences that remain, ``[B]``, in their
        order, or None when they are the same as before.
        """
        sources = torch.div(order.view(-1, self.beam), self.beam, rounding_mode="floor")
        self.paths = self.paths.index_select(0, order)
        if self.sentences == 1 and sources.size(0) == 1:
            return None
        if sources.size(0) == self.sentences and bool((sources == self._numbers).all()):
            return None
        kept = sources[:, 0]
        if not bool((sources == kept.unsqueeze(1)).all()):
            raise ValueError("hypotheses of one sentence cannot continue those of another one")
        self.keys = [x.index_select(0, kept) for x in self.keys]
        self.values = [x.index_select(0, kept) for x in self.values]
        self._set_sentences(kept.numel())
        return kept

    def _grow(self, room: int) -> None:
        """Room for ``room`` steps, what was written kept."""
        slots = self.steps * self.beam
        for layer, old in enumerate(self.keys):
            batch, heads, d, _ = old.shape
            self.keys[layer] = old.new_empty(batch, heads, d, room * self.beam)
            self.keys[layer][..., :slots] = old[..., :slots]
            old = self.values[layer]
            self.values[layer] = old.new_empty(batch, heads, room * self.beam, d)
            self.values[layer][:, :, :slots] = old[:, :, :slots]
        paths = self.paths.new_empty(self.paths.size(0), room * self.beam)
        paths[:, :slots] = self.paths[:, :slots]
        self.paths = paths
        self.room = room
