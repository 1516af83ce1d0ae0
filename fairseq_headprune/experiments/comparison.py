"""Several checkpoints side by side: heads, parameters, file size, BLEU and decoding time.

All translate the same sentences in turns, batch by batch, so that BLEU and speed come from one run
and whatever else the machine does disturbs every model alike.

Our decoder is faster than fairseq's even when nothing is removed. So where a stock model is compared
with ours, it runs in our program too, with all its heads: speed against that row is what removal gives.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import sacrebleu
import torch
from fairseq import utils

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.timing import ratios
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints import removal
from fairseq_headprune.models.gated_transformer import GatedTransformerModel
from fairseq_headprune.translation import scoring
from fairseq_headprune.translation.search import open_search
from fairseq_headprune.units.layout import HeadLayout, flag

NOTHING_REMOVED = "same program, nothing removed"


@dataclass
class Row:
    """What is said of one checkpoint. ``bytes`` is the size of the file, which holds optimizer state
    too when fairseq-train wrote it; ``weight_bytes`` is its weights alone. ``seconds`` is process CPU
    time; ``times`` the median, over batches, of the first checkpoint's time divided by this one's, with
    quartiles (above 1: faster); ``times_same_program`` the same for the first model's heads in our
    program, None for a model that runs in stock fairseq's (or when all do)."""

    name: str
    path: str
    heads: dict[str, int]
    layout: dict[str, list[list[int]]]
    parameters: int
    weight_bytes: int
    bytes: int
    bleu: float
    signature: str
    sentences: int
    seconds: float
    times: dict[str, float]
    times_same_program: dict[str, float] | None = None


class Contestant:
    """One loaded model with fairseq's own generator for it."""

    def __init__(self, path: str, data: str, beam: int, bpe: str | None = None):
        self.path = path
        self.state = checkpoints.load_checkpoint(path)
        self.bytes = os.path.getsize(path)
        self.model, self.task, self.generator = open_search(path, data, beam)
        self.bpe = bpe or scoring.splitting(self.task.target_dictionary.symbols)
        self.translations: dict[int, str] = {}
        self.seconds: list[float] = []

    def translate(self, sample) -> None:
        """Best hypotheses of a batch, with the time they took."""
        start = time.process_time()
        found = self.task.inference_step(self.generator, [self.model], sample)
        self.seconds.append(time.process_time() - start)
        for number, hypotheses in zip(sample["id"].tolist(), found):
            self.translations[number] = scoring.words(
                self.task.target_dictionary, hypotheses[0]["tokens"], self.bpe
            )

    @property
    def ours(self) -> bool:
        """Whether it runs in our program."""
        return isinstance(self.model, GatedTransformerModel)


def nothing_removed(first: Contestant, data: str, beam: int) -> Contestant:
    """A stock model in our program, with all its heads."""
    whole = checkpoints.existing_layout(first.state)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(first.path))
        removal.save(removal.remove_heads(first.state, whole, allow_no_cross_attention=True), path)
        return Contestant(path, data, beam, first.bpe)


def reading(dataset, task, bpe: str) -> dict[int, str]:
    """Reference translations by sentence number."""
    pad = task.target_dictionary.pad()
    return {
        i: scoring.words(task.target_dictionary, utils.strip_pad(dataset[i]["target"], pad), bpe, True)
        for i in range(len(dataset))
    }


def compare(
    named: Mapping[str, str],
    data: str,
    subset: str = "test",
    beam: int = 5,
    sentences_per_batch: int = 16,
    tokenize: str = "none",
    progress: Callable[[int, int], None] = lambda done, total: None,
    bpe: str | None = None,
) -> list[Row]:
    """One Row per checkpoint of ``named`` (name -> path), the first one being the yardstick of speed.
    When that one is a stock model and another is ours, a row NOTHING_REMOVED follows it.
    ``bpe``: how pieces are joined, as fairseq's ``--remove-bpe`` (None: found from the dictionary).

    UserError when a file is no Transformer checkpoint, or a sentence would go untranslated.
    """
    contestants = {name: Contestant(path, data, beam, bpe) for name, path in named.items()}
    first = same = next(iter(contestants.values()))
    if not first.ours and any(c.ours for c in contestants.values()):
        same = nothing_removed(first, data, beam)
        (name, _), *others = contestants.items()
        contestants = {name: first, NOTHING_REMOVED: same, **dict(others)}
    try:
        first.task.load_dataset(subset)
    except FileNotFoundError as error:
        raise UserError(f"there is no '{subset}' set in {data} ({error})") from None
    dataset = first.task.dataset(subset)
    batches = first.task.get_batch_iterator(
        dataset, max_sentences=sentences_per_batch, required_batch_size_multiple=1
    ).next_epoch_itr(shuffle=False)
    order, total = random.Random(1), len(batches)
    with torch.no_grad():
        for number, sample in enumerate(batches):
            names = list(contestants)
            order.shuffle(names)
            for name in names:
                contestants[name].translate(sample)
            progress(number + 1, total)
    references = reading(dataset, first.task, first.bpe)
    return [row(name, c, first, same, references, tokenize) for name, c in contestants.items()]


def row(name: str, one: Contestant, first: Contestant, same: Contestant, references, tokenize: str) -> Row:
    """Everything about one checkpoint once all have translated."""
    if set(one.translations) != set(references):
        raise UserError(f"{one.path} translated {len(one.translations)} of {len(references)} sentences")
    numbers = sorted(references)
    metric = sacrebleu.BLEU(tokenize=tokenize, force=True)
    ours, theirs = scoring.apart([one.translations[n] for n in numbers], [references[n] for n in numbers])
    score = metric.corpus_score(ours, [theirs])
    layout = checkpoints.open_layout(one.state)
    weights = removal.without_gates(one.state["model"])
    return Row(
        name=name,
        path=os.path.basename(one.path),
        heads=layout.counts(),
        layout=layout.to_dict(),
        parameters=removal.parameter_count(weights),
        weight_bytes=removal.weight_bytes(weights),
        bytes=one.bytes,
        bleu=score.score,
        signature=str(metric.get_signature()),
        sentences=len(numbers),
        seconds=sum(one.seconds),
        times=ratios(first.seconds, one.seconds),
        times_same_program=ratios(same.seconds, one.seconds) if one.ours and same.ours else None,
    )


def table(rows: Sequence[Row]) -> str:
    """The rows for people, and below them the heads that the last checkpoint has, by layer."""
    types = HeadLayout.from_dict(rows[0].layout).types
    head = ["model", *(flag(t) for t in types), "BLEU", "parameters", "weights kB", "file kB"]
    cells = [[*head, "speed, same program", f"speed, {rows[0].name}"]]
    for r in rows:
        cells.append(
            [r.name]
            + [str(r.heads[t]) for t in types]
            + [f"{r.bleu:.2f}", f"{r.parameters:,}", f"{r.weight_bytes / 1000:,.0f}"]
            + [f"{r.bytes / 1000:,.0f}", speed(r.times_same_program), speed(r.times)]
        )
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in cells]
    whole = HeadLayout.from_dict(rows[0].layout)
    kept = HeadLayout.from_dict(rows[-1].layout)
    own = any(r.name == NOTHING_REMOVED for r in rows)
    note = f"{rows[0].sentences} sentences; {rows[0].signature}\n"
    note += "speed of decoding: median over batches, quartiles, of CPU time against"
    note += f" {NOTHING_REMOVED} (what removal gives), and" if own else ""
    note += f" {rows[0].name}" + (" (our program's own gain included)" if own else "")
    note += "\nfiles that fairseq-train wrote hold optimizer state as well as weights"
    return "\n".join([*lines, "", note, "", f"heads of {rows[-1].name}:", kept.table(whole)])


def speed(times: Mapping[str, float] | None) -> str:
    """Median and quartiles; a dash without any."""
    return f"{times['median']:.2f}x ({times['q1']:.2f} to {times['q3']:.2f})" if times else "-"


def as_json(rows: Sequence[Row]) -> dict[str, object]:
    """The rows for programs, with the versions they were made with."""
    import fairseq

    versions = {"torch": torch.__version__, "sacrebleu": sacrebleu.__version__}
    versions["fairseq"] = fairseq.__version__
    return {
        "threads": torch.get_num_threads(),
        "versions": versions,
        "rows": [asdict(r) for r in rows],
    }
