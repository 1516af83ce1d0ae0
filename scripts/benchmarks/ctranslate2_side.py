"""The same test sentences through fairseq and through CTranslate2: time, size, BLEU."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.decoding import generation_options
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.timing import in_turns, summary
from fairseq_headprune.checkpoints import export as deploy
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints import removal
from fairseq_headprune.translation import scoring
from fairseq_headprune.units.layout import HeadLayout

BPE = "@@ "
STOCK = "fairseq, stock with zeros"
"""What speed-ups are relative to: the stock class, heads silenced and not removed."""


def test_sentences(task, subset: str, limit: int):
    """``(sources, references)``: token ids with EOS, and reference text, of the first sentences."""
    task.load_dataset(subset)
    pairs = task.dataset(subset)
    chosen = range(min(limit, len(pairs)))
    sources = [pairs[i]["source"] for i in chosen]
    references = [task.target_dictionary.string(pairs[i]["target"], BPE) for i in chosen]
    return sources, references


def batches(sources, size: int) -> list[list[int]]:
    """Sentence numbers, alike in length, ``size`` at a time."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    return [order[i : i + size] for i in range(0, len(order), size)]


def with_fairseq(model, task, sources, size: int, beam: int) -> Callable[[], list[str]]:
    """A call that translates all sources and returns text without BPE."""
    from fairseq.data import data_utils
    from fairseq.sequence_generator import SequenceGenerator

    model.prepare_for_inference_(generation_options(beam))
    generator = SequenceGenerator(
        [model], task.target_dictionary, beam_size=beam, max_len_a=1.2, max_len_b=10
    )
    pad = task.source_dictionary.pad()

    def translate():
        found = [""] * len(sources)
        for numbers in batches(sources, size):
            rows = [sources[i] for i in numbers]
            tokens = data_utils.collate_tokens(rows, pad, left_pad=True)
            lengths = torch.tensor([len(row) for row in rows])
            sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
            for i, hypotheses in zip(numbers, generator.generate([model], sample)):
                found[i] = task.target_dictionary.string(hypotheses[0]["tokens"], BPE)
        return found

    return translate


def with_ctranslate2(folder: str, task, sources, size: int, beam: int, threads: int):
    """As ``with_fairseq``, with CTranslate2 on ``threads`` threads."""
    import ctranslate2

    translator = ctranslate2.Translator(folder, device="cpu", intra_threads=threads)
    eos = task.source_dictionary.eos()
    words = [[task.source_dictionary[t] for t in row.tolist() if t != eos] for row in sources]

    def translate():
        found = [""] * len(sources)
        for numbers in batches(sources, size):
            results = translator.translate_batch(
                [words[i] for i in numbers], beam_size=beam, max_batch_size=size
            )
            for i, result in zip(numbers, results):
                found[i] = (" ".join(result.hypotheses[0]) + " ").replace(BPE, "").strip()
        return found

    return translate


def run(
    checkpoint: str,
    data: str,
    layout: HeadLayout = None,
    subset: str = "test",
    limit: int = 200,
    size: int = 16,
    beam: int = 5,
    repeats: int = 3,
    threads: int = 1,
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """One entry: for each side bytes, BLEU and spreads of time."""
    if limit < 1:
        raise UserError("--limit must be at least 1")
    state = checkpoints.load_checkpoint(checkpoint)
    with tempfile.TemporaryDirectory() as folder:
        files = {"fairseq, as given": checkpoint}
        for name, dense in ((STOCK, True), ("fairseq, removed", False)):
            files[name] = str(Path(folder) / f"{'dense' if dense else 'removed'}.pt")
            removal.save(removal.remove_heads(state, layout, dense=dense), files[name])
        calls, references, task = {}, None, None
        for name, file in files.items():
            model, _, task = checkpoints.load_model(file, data)
            sources, references = test_sentences(task, subset, limit)
            calls[name] = with_fairseq(model, task, sources, size, beam)
        for kind in ("float32", "int8"):
            name = f"CTranslate2, {kind}"
            files[name] = str(Path(folder) / kind)
            deploy.to_ctranslate2(state, data, files[name], None if kind == "float32" else kind, layout)
            calls[name] = with_ctranslate2(files[name], task, sources, size, beam, threads)
        progress("translating for BLEU")
        found = {name: call() for name, call in calls.items()}
        language = task.cfg.target_lang
        plain = scoring.detokenize(references, language)
        quality = {
            name: scoring.score(scoring.detokenize(lines, language), plain) for name, lines in found.items()
        }
        times = in_turns(calls, repeats, warmup=0, progress=lambda n: progress(f"round {n}"))
        same = {
            name: sum(a == b for a, b in zip(lines, found["fairseq, removed"]))
            for name, lines in found.items()
        }
        return [
            {
                "sentences": len(references),
                "bytes": {name: deploy.size_of(file) for name, file in files.items()},
                "quality": quality,
                "same_as_removed": same,
                "times": summary(times, STOCK),
            }
        ]
