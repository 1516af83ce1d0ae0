"""fairseq's own generator, and after it the best hypotheses scored once more with recording.

Beam search reorders and drops hypotheses as it goes, so what its steps attended to is not what
the winner attended to. The winners are therefore decoded a second time, all steps at once, with
their tokens given (forced decoding); hypotheses and scores stay those of fairseq.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor, nn
from tqdm import tqdm

from fairseq_headprune import lrp
from fairseq_headprune.recording.maps import record_attention

CELLS = 1 << 25
"""Attention weights that are held at once while recording: 128 MB in float32."""

Arrays = dict[str, np.ndarray]


class Pairs(NamedTuple):
    """Sentences with their translations as a batch for forced decoding."""

    src_tokens: Tensor  # [B, S], padded on the left
    src_lengths: Tensor  # [B]
    prev_output_tokens: Tensor  # [B, T], EOS first, padded on the right
    target: Tensor  # [B, T], EOS last
    target_lengths: list[int]


def pairs(sources: Sequence[Tensor], targets: Sequence[Tensor], pad: int, eos: int) -> Pairs:
    """From token ids without padding; each target ends with EOS and the decoder starts from EOS."""
    inputs = [torch.cat([t.new_tensor([eos]), t[:-1]]) for t in targets]
    return Pairs(
        data_utils.collate_tokens(list(sources), pad, left_pad=True),
        torch.tensor([len(s) for s in sources], device=sources[0].device),
        data_utils.collate_tokens(inputs, pad, left_pad=False),
        data_utils.collate_tokens(list(targets), pad, left_pad=False),
        [len(t) for t in targets],
    )


def groups(
    source_lengths: Sequence[int], target_lengths: Sequence[int], heads: int, cells: int = CELLS
) -> Iterator[slice]:
    """Consecutive sentences whose padded attention maps fit in ``cells``; one sentence at least."""
    start = widest = longest = 0
    for stop, (source, target) in enumerate(zip(source_lengths, target_lengths)):
        s, t = max(widest, source), max(longest, target)
        if stop > start and (stop + 1 - start) * heads * (s * s + t * t + s * t) > cells:
            yield slice(start, stop)
            start, s, t = stop, source, target
        widest, longest = s, t
    if len(source_lengths) > start:
        yield slice(start, len(source_lengths))


@torch.no_grad()
def head_attention(model: nn.Module, batch: Pairs, types: Sequence[str]) -> list[Arrays]:
    """Per sentence: type -> float16 ``[existing heads, queries, keys]`` without padding, heads
    layer by layer."""
    width, steps = batch.src_tokens.size(1), batch.target.size(1)
    with record_attention(model) as maps:
        model(
            src_tokens=batch.src_tokens,
            src_lengths=batch.src_lengths,
            prev_output_tokens=batch.prev_output_tokens,
            features_only=True,
        )
    nothing = {"enc_self": (0, width, width), "dec_self": (0, steps, steps), "dec_enc": (0, steps, width)}
    whole = {
        t: torch.cat(list(maps[t]), dim=1).half().cpu().numpy()
        if len(maps[t])
        else np.zeros((len(batch.target_lengths), *nothing[t]), dtype=np.float16)
        for t in types
    }
    result = []
    for b, (S, T) in enumerate(zip(batch.src_lengths.tolist(), batch.target_lengths)):
        source, target = slice(width - S, width), slice(0, T)
        rows = {"enc_self": source, "dec_self": target, "dec_enc": target}
        columns = {"enc_self": source, "dec_self": target, "dec_enc": source}
        result.append({t: whole[t][b][:, rows[t], columns[t]] for t in types})
    return result


def head_relevance(
    model: nn.Module, batch: Pairs, rule: str, start: str, attention: str, **options: Any
) -> list[Arrays]:
    """Per sentence: type -> float32 ``[steps, layers, heads]``, steps of padding left out.

    ``start`` is ``"top1"`` or ``"emitted"``, the token that the sentence has at each step; the other
    options are those of `lrp.head_relevance`.
    """
    whole = lrp.head_relevance(
        model,
        batch.src_tokens,
        batch.src_lengths,
        batch.prev_output_tokens,
        rule=rule,
        start=batch.target if start == "emitted" else start,
        attention=attention,
        **options,
    )
    arrays = {t: whole[t].float().cpu().numpy() for t in whole}
    return [{t: arrays[t][:T, b] for t in arrays} for b, T in enumerate(batch.target_lengths)]


class RecordingGenerator:
    """Stands in for ``generator`` and hands what its best hypotheses did to ``record``.

    ``record`` is a `RunRecord`.
    With relevance on, the best hypothesis of each sentence that is not too long for it gets an entry
    ``head_relevance``: type -> float32 ``[steps, layers, heads]``.
    """

    def __init__(self, generator, model: nn.Module, record, pad: int, eos: int):
        self.generator = generator
        self.model = model
        self.record = record
        self.pad = pad
        self.eos = eos

    def __getattr__(self, name):
        if name == "generator":  # not yet set: no way to look further
            raise AttributeError(name)
        return getattr(self.generator, name)

    def generate(self, models, sample: dict[str, Any], **options) -> list[list[dict[str, Any]]]:
        """As fairseq's generators; ``sample["id"]`` numbers the sentences."""
        try:
            hypotheses = self.generator.generate(models, sample, **options)
            # sampling must go on as if nothing had happened in between
            with torch.random.fork_rng(devices=[]):
                self._record_best(sample, hypotheses)
            self.record.save_if_finished()
        except BaseException:
            self.record.interrupted = True
            raise
        return hypotheses

    def _record_best(self, sample, hypotheses):
        tokens = sample["net_input"]["src_tokens"]
        sentences = []
        for number, (id, row) in enumerate(zip(sample["id"].tolist(), tokens)):
            source = row[row.ne(self.pad)]
            if not self.record.skip(id, source):
                sentences.append((id, source, hypotheses[number][0]))
        sources = [source for _, source, _ in sentences]
        targets = [best["tokens"].to(tokens) for _, _, best in sentences]
        for part in groups([len(s) for s in sources], [len(t) for t in targets], self.record.heads):
            self._record_group(sentences[part], sources[part], targets[part])

    def _record_group(self, sentences, sources, targets):
        options = self.record.options
        batch = pairs(sources, targets, self.pad, self.eos)
        attention = relevance = [{}] * len(sentences)
        short: list[int] = []
        if options.attention_types:
            attention = head_attention(self.model, batch, options.attention_types)
        if options.rules:
            short = [
                n for n, pair in enumerate(zip(sources, targets)) if self.record.is_short(*map(len, pair))
            ]
            relevance = self._relevance(sources, targets, short)
        for n, (id, source, best) in enumerate(sentences):
            if n in short:
                best["head_relevance"] = relevance[n]
            elif options.rules:
                self.record.too_long.append(id)
            self.record.add(id, source, targets[n], attention[n], relevance[n])

    def _relevance(self, sources, targets, short: Sequence[int]) -> list[Arrays]:
        """Relevance of the sentences ``short``, and zeros for the others."""
        result = [self.record.no_relevance(len(target)) for target in targets]
        if not short:
            return result
        batch = pairs([sources[n] for n in short], [targets[n] for n in short], self.pad, self.eos)
        self.record.announce_line([(len(sources[n]), len(targets[n])) for n in short])
        steps = sum(batch.target_lengths)
        with tqdm(total=steps, unit=" steps", desc="relevance", delay=5, mininterval=1, leave=False) as bar:
            found = head_relevance(self.model, batch, **self.record.options.rules, progress=bar.update)
        for n, relevance in zip(short, found):
            result[n] = relevance
        return result
