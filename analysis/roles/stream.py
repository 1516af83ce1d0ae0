"""One pass over a dump: every sentence is looked at once and only tallies are kept.

Sentences of equal lengths that lie in one shard are taken together, a few at a time, because
numpy's calls, not the numbers in them, are what short sentences cost.
"""

import gc
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from fairseq_headprune.analysis.frequencies import Frequencies
from fairseq_headprune.analysis.merging import merge_words, to_float
from fairseq_headprune.analysis.parses import ConlluFile
from fairseq_headprune.analysis.roles import heads as roles
from fairseq_headprune.analysis.roles.questions import Questions
from fairseq_headprune.analysis.roles.tallies import RareTally, SyntaxTally, TypeTally, add_rows
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.intervals import group
from fairseq_headprune.units.layout import flag

BATCH_BYTES = 1_800_000
"""Weights of sentences taken together: few enough to stay in the processor's cache."""

_MOST = np.float16(1.01).view(np.uint16)
"""Bits of what no attention weight exceeds; NaN, infinity and negative numbers are beyond it."""

COUNTS = (
    "sentences", "empty_sentences", "source_tokens", "target_tokens", "words", "parsed_sentences",
    "unaligned_sentences", "merged_words", "relations_inside_a_word", "rare_sentences",
    "unknown_to_frequencies",
)  # fmt: skip


class Unaligned(NamedTuple):
    """A sentence whose parse does not fit its tokens."""

    id: int
    reason: str


class Analysis:
    """The tallies of a pass, and how a sentence gets into them.

    ``types``: attention types looked at. ``trees``: parses by sentence id, or None.
    ``relations``: names as `relation_name` gives them. ``frequencies``: or None. The last two
    roles are those of encoder self-attention.
    """

    def __init__(
        self,
        dump,
        types: Sequence[str],
        trees: ConlluFile | None = None,
        relations: Sequence[str] = (),
        keep_subtypes: bool = False,
        frequencies: Frequencies | None = None,
    ):
        self.types = tuple(types)
        self.relations = tuple(relations)
        self.frequencies = frequencies
        heads = {t: len(dump.head_index[t]) for t in self.types}
        self.layers = {t: [layer for layer, _ in dump.head_index[t]] for t in self.types}
        self.batch_cells = {t: BATCH_BYTES / 2 / max(1, heads[t]) for t in self.types}
        self.with_relevance = [t for t in self.types if t in dump.manifest["contents"]["relevance"]]
        self.by_type = {t: TypeTally(heads[t], t in self.with_relevance) for t in self.types}
        encoder = heads.get("enc_self", 0)
        self.questions = Questions(trees, self.relations, keep_subtypes) if trees else None
        self.syntax = SyntaxTally(encoder, self.questions.slots) if trees else None
        self.rare = RareTally(encoder) if frequencies else None
        self.counts = dict.fromkeys(COUNTS, 0)

    def tallies(self) -> dict[str, object]:
        """Every tally by name, for saving."""
        named = dict(self.by_type, syntax=self.syntax, rare=self.rare)
        return {name: tally for name, tally in named.items() if tally is not None}

    # -- one shard ----------------------------------------------------------------------

    def add_shard(self, records, position: int) -> list[Unaligned]:
        """Add sentences; the first one is number ``position`` of the dump. Returns those whose
        parse does not fit."""
        unaligned: list[Unaligned] = []
        batches: dict[tuple, list] = {}
        for number, record in enumerate(records, position):
            place = group(number)
            self.counts["sentences"] += 1
            self.counts["source_tokens"] += len(record.source)
            self.counts["target_tokens"] += len(record.target)
            for type in self.types:
                queries, keys = roles.token_spans(type, record.source, record.target)
                shape = (queries.stop - queries.start, keys.stop - keys.start)
                if type == "enc_self" and not shape[0]:
                    self.counts["empty_sentences"] += 1
                if min(shape) > 0:
                    batch = batches.setdefault((type, *shape), [])
                    batch.append((record, place, queries, keys))
                    if len(batch) * shape[0] * shape[1] >= self.batch_cells[type]:
                        self._add_batch(type, batch, unaligned)
                        batch.clear()
            for type in self.with_relevance:
                self._add_relevance(type, record, place)
        for (type, *_), batch in batches.items():
            if batch:
                self._add_batch(type, batch, unaligned)
        return unaligned

    def _add_relevance(self, type, record, place):
        if not self.layers[type]:
            return
        relevance = record.heads_relevance(type)
        if not np.isfinite(relevance).all():
            raise UserError(f"sentence {record.id} of the dump has {flag(type)} relevance that is "
                            "not finite: dump it again")  # fmt: skip
        self.by_type[type].add_relevance(place, roles.relevance_shares(relevance, self.layers[type]))

    # -- sentences of equal lengths -----------------------------------------------------

    def _add_batch(self, type, batch, unaligned):
        if not self.layers[type]:
            return
        weights = _gather(type, batch)
        found = roles.largest(weights)
        if found.weight.max() > _MOST:
            _complain(type, batch, found)
        groups = np.array([place for _, place, _, _ in batch])
        queries, keys = found.at.shape[1], found.at.shape[0]
        self.by_type[type].add(
            groups,
            found,
            to_float(found.weight),
            roles.offset_votes(found),
            roles.offset_chances(type, queries, keys),
        )
        if type == "enc_self":
            tokens = [record.source[:keys] for record, *_ in batch]
            if self.rare:
                self._add_rare(groups, tokens, found.at, found.vote())
            if self.syntax:
                ids = [record.id for record, *_ in batch]
                self._add_syntax(ids, groups, tokens, weights, unaligned)

    def _add_rare(self, groups, tokens, at, vote):
        numbers = self.frequencies.numbers(chain.from_iterable(tokens)).reshape(len(tokens), -1)
        rare = roles.rare_tokens(numbers, *self.frequencies.look_up(numbers))
        self.counts["unknown_to_frequencies"] += int((numbers < 0).sum())
        counted = np.flatnonzero(rare.rarest.any(axis=1))
        self.counts["rare_sentences"] += len(counted)
        if not len(counted):
            return
        self.rare.add(groups[counted], roles.Rare(*(targets[counted] for targets in rare)))
        sentence, key = np.nonzero(rare.two_rarest)  # the rarest are among them
        # An index on both sides of a slice puts its axis first: [targets, queries, heads].
        votes = (at[key, :, sentence] * vote.swapaxes(0, 1)[sentence]).sum(axis=1)
        add_rows(self.rare.hits[1], groups[sentence], votes)
        rarest = rare.rarest[sentence, key]
        add_rows(self.rare.hits[0], groups[sentence[rarest]], votes[rarest])

    def _add_syntax(self, ids, groups, tokens, weights, unaligned):
        asked = self.questions.ask(ids, tokens)
        unaligned.extend(Unaligned(ids[number], reason) for number, reason in asked.misfits)
        self.counts["unaligned_sentences"] += len(asked.misfits)
        self.counts["parsed_sentences"] += len(ids) - len(asked.misfits)
        self.counts["words"] += int((asked.cuts.pieces > 0).sum())
        self.counts["merged_words"] += asked.merged_words
        self.counts["relations_inside_a_word"] += asked.inside
        sentence, query, slot, key = asked.sentence, asked.query, asked.slot, asked.key
        if not len(sentence):
            return
        fresh = np.append(True, (query[1:] != query[:-1]) | (sentence[1:] != sentence[:-1]))
        row = np.cumsum(fresh) - 1
        found = roles.largest(merge_words(weights, asked.cuts, sentence[fresh], query[fresh]))
        votes = found.at[key, row] * found.vote()[row]
        self.syntax.add(groups[sentence], sentence, slot, row, key - query, votes)


def _gather(type, batch) -> np.ndarray:
    """The bits of the sentences' weights, ``uint16 [keys, queries, sentences, heads]``.

    A view: in memory the queries lead and EOS is still there, as that takes one plain transposition
    a sentence.
    """
    first, _, queries, keys = batch[0]
    heads, rows, columns = first.heads_attention(type).shape
    weights = np.empty((rows * columns, len(batch), heads), np.uint16)
    for number, (record, *_) in enumerate(batch):
        weights[:, number] = record.heads_attention(type).view(np.uint16).reshape(heads, -1).T
    shape = (rows, columns, len(batch), heads)
    return weights.reshape(shape)[queries, keys].transpose(1, 0, 2, 3)


def _complain(type, batch, found):
    bad = (found.weight > _MOST).any(axis=(0, 2))
    record = batch[int(np.flatnonzero(bad)[0])][0]
    raise UserError(
        f"sentence {record.id} of the dump has {flag(type)} numbers that are no attention weights "
        "(negative, above 1 or not finite): dump it again"
    )


def run(dump, analysis: Analysis, first_shard: int, position: int, after_shard: Callable) -> int:
    """Add the shards from ``first_shard`` on; ``position`` sentences came before it.

    ``after_shard(next_shard, position, unaligned)`` is called behind each, the place to show
    progress and to save. Returns the number of sentences read in all.
    """
    gc.freeze()  # hundreds of thousands of objects of torch and fairseq that need no more looks
    try:
        for number, shard in enumerate(dump.iter_shards()):
            if number < first_shard:
                continue
            unaligned = analysis.add_shard(shard.records, position)
            position += len(shard)
            after_shard(number + 1, position, unaligned)
    finally:
        gc.unfreeze()
    return position
