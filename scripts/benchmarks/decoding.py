"""Beam search with stock, gated and pruned models: same sentences, same forced length."""

from collections.abc import Callable, Sequence

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from benchmarks import models
from benchmarks.models import Size
from fairseq_headprune.base.timing import in_turns, ratios, summary

Hypotheses = list[list[dict[str, Tensor]]]


def sentences(batch: int, length: int, words: int, seed: int = 3) -> dict[str, dict[str, Tensor]]:
    """A batch of ``batch`` random sources, ``length`` tokens each, the last one EOS."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, words, (batch, length), generator=generator)
    tokens[:, -1] = 2
    lengths = torch.full((batch,), length)
    return {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}


def searcher(model: nn.Module, symbols, length: int, beam: int = 5) -> SequenceGenerator:
    """fairseq's generator on a model prepared as fairseq-generate does; every hypothesis gets
    exactly ``length`` tokens, EOS included."""
    model.eval()
    model.prepare_for_inference_(generation_options(beam))
    return SequenceGenerator(
        [model], symbols, beam_size=beam, max_len_a=0, max_len_b=length - 1, min_len=length - 1
    )


def generation_options(beam: int):
    """The part of a configuration that models read when they are prepared for inference."""
    from fairseq.dataclass.configs import CommonConfig, GenerationConfig
    from omegaconf import OmegaConf

    return OmegaConf.create(
        {
            "common": OmegaConf.structured(CommonConfig),
            "generation": OmegaConf.structured(GenerationConfig(beam=beam)),
        }
    )


def compare(ours: Hypotheses, reference: Hypotheses) -> dict[str, float]:
    """How alike two searches are: hypotheses with the same tokens, of all and of the best ones,
    and the largest difference between scores of same rank."""
    same = same_best = total = 0
    worst = 0.0
    for mine, theirs in zip(ours, reference):
        for rank, (a, b) in enumerate(zip(mine, theirs)):
            equal = bool(torch.equal(a["tokens"], b["tokens"]))
            total += 1
            same += equal
            same_best += equal and rank == 0
            worst = max(worst, abs(float(a["score"]) - float(b["score"])))
        assert len(mine) == len(theirs)
    assert len(ours) == len(reference)
    return {
        "hypotheses": total,
        "identical": same,
        "sentences": len(ours),
        "identical_best": same_best,
        "largest_score_difference": worst,
    }


def sides(
    size: Size, words: int, layouts: Sequence[str], length: int, beam: int, device: str = "cpu"
) -> tuple[dict[str, Callable], dict[str, Callable]]:
    """``(timed, references)``: searches to be timed, and for each of ours the search with a stock
    model of full size that must give the same hypotheses (heads silenced instead of removed)."""
    symbols = models.dictionary(words)
    base = models.stock(size, symbols)
    base.load_state_dict(models.decisive_weights(base))
    timed, references = {}, {}

    def search(model):
        return searcher(model.to(device), symbols, length, beam)

    timed["stock"] = search(_copy(base, size, symbols))
    gated = models.ours(size, symbols)
    models.take_heads(gated, base)
    timed["gated"] = search(gated)
    references["gated"] = timed["stock"]
    for text in layouts:
        layout = models.spread_evenly(models.counts_for(text, size), size)
        pruned = models.ours(size, symbols, "none", layout)
        models.take_heads(pruned, base)
        timed[f"pruned {text}"] = search(pruned)
        silenced = _copy(base, size, symbols)
        models.silence(silenced, layout)
        references[f"pruned {text}"] = search(silenced)
    return timed, references


def _copy(model: nn.Module, size: Size, symbols) -> nn.Module:
    twin = models.stock(size, symbols)
    twin.load_state_dict(model.state_dict())
    return twin


def run(
    size: Size,
    words: int,
    layouts: Sequence[str],
    batches: Sequence[int] = (1, 16),
    source_length: int = 25,
    target_length: int = 26,
    beam: int = 5,
    repeats: int = 5,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, object]]:
    """One entry per batch size: spreads of all sides, of their encoders alone, of gated's CPU time over
    that of our others (``same_program``), and the comparison of their hypotheses."""
    timed, references = sides(size, words, layouts, target_length, beam, device)
    results = []
    for batch in batches:
        sample = sentences(batch, source_length, words)
        sample["net_input"] = {k: v.to(device) for k, v in sample["net_input"].items()}
        progress(f"batch {batch}: comparing hypotheses")
        agreement = {
            name: compare(timed[name].generate([], sample), references[name].generate([], sample))
            for name in references
        }
        calls = {name: _call(generator, sample) for name, generator in timed.items()}
        wait = torch.cuda.synchronize if device.startswith("cuda") else None

        def tell(n: int, batch=batch) -> None:
            progress(f"batch {batch}: round {n}")

        times = in_turns(calls, repeats, synchronize=wait, progress=tell)
        encoders = {name: _encode(generator, sample) for name, generator in timed.items()}
        encoding = in_turns(encoders, repeats, synchronize=wait)
        entry = {
            "batch": batch,
            "agreement": agreement,
            "times": summary(times, "stock"),
            # what removal gives: stock runs another program, which is slower with all its heads
            "same_program": {n: ratios(times["gated"].cpu, t.cpu) for n, t in times.items() if n != "stock"},
            "encoder_times": summary(encoding, "stock"),
        }
        results.append(entry)
    return results


def _call(generator: SequenceGenerator, sample):
    return lambda: generator.generate([], sample)


def _encode(generator: SequenceGenerator, sample):
    @torch.no_grad()
    def call():
        return generator.model.forward_encoder(sample["net_input"])

    return call
