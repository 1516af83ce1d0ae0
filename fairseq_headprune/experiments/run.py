"""Make the points of a sweep: fine-tune, remove, settle, translate, score, one folder each."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

from fairseq_headprune.base.errors import UserError, goes_on
from fairseq_headprune.base.locking import FolderLock
from fairseq_headprune.base.steps import Steps, read_json, write_json
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints import removal
from fairseq_headprune.experiments import commands, results
from fairseq_headprune.experiments.analyse import Analysis, analyse
from fairseq_headprune.experiments.check import check_sweep
from fairseq_headprune.experiments.commands import Budget
from fairseq_headprune.experiments.points import Point, needs
from fairseq_headprune.selection.choose import chosen
from fairseq_headprune.selection.gate_table import gate_table
from fairseq_headprune.translation import scoring
from fairseq_headprune.units.layout import HeadLayout
from fairseq_headprune.units.target import parse_target


@dataclass(frozen=True)
class TestSet:
    """A set to score on: its name in tables, its subset in the data folder, detokenised references
    (without: those of the data folder, detokenised), and its own data folder, if it has one."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    name: str
    subset: str
    references: str = ""
    data: str = ""


@dataclass(frozen=True)
class Sweep:
    """Everything that the points of one sweep share."""

    baseline: str
    data: str
    out: Path
    tests: tuple[TestSet, ...]
    target_lang: str
    budget: Budget = field(default_factory=Budget)
    beam: int = 5
    generate_tokens: int = 4000
    threads: int = 1
    results: Path | None = None
    analysis: Analysis | None = None
    elsewhere: tuple[TestSet, ...] = ()
    """Sets of another domain: scored apart, not counted among the test sets."""


def parse_test(text: str, option: str = "--test") -> TestSet:
    """``NAME=SUBSET`` or ``NAME=SUBSET:REFERENCES``; ``FOLDER/SUBSET`` for another data folder."""
    name, equals, rest = text.partition("=")
    path, _, references = rest.partition(":")
    data, _, subset = path.rpartition("/")
    if not (name and equals and subset):
        raise UserError(f"cannot read {option} '{text}': write NAME=SUBSET or NAME=SUBSET:REFERENCES")
    if references and not Path(references).is_file():
        raise UserError(f"the references {references} of {option} {name} do not exist")
    return TestSet(name, subset, references, data)


def run_sweep(sweep: Sweep, points: Sequence[Point], devices: Sequence[str] = ("",)) -> list[dict[str, Any]]:
    """Make all points, so many at once as there are ``devices`` (GPU numbers, or "" for none).

    Returns their results in order. A point that fails does not stop the others; the first error is
    raised at the end.
    """
    check_sweep(sweep, points)
    with FolderLock(sweep.out), goes_on("the same command goes on after the steps that are finished"):
        return _run_points(sweep, points, devices)


def _run_points(sweep, points, devices) -> list[dict[str, Any]]:
    free: Queue = Queue()
    for device in devices:
        free.put(device)
    futures: dict[str, Any] = {}

    def work(point: Point) -> dict[str, Any]:
        if needs(point) in futures:
            futures[needs(point)].result()  # listed before, so already running or done
        device = free.get()
        try:
            return run_point(sweep, point, device)
        finally:
            free.put(device)

    done, error = [], None
    with ThreadPoolExecutor(max_workers=len(devices)) as pool:
        for point in points:
            futures[point.name] = pool.submit(work, point)
        for point in points:
            try:
                done.append(futures[point.name].result())
            except UserError as problem:
                print(f"[{point.name}] {problem}", flush=True)
                error = error or problem
            except BaseException:  # an interrupted sweep does not start its other points
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    if error:
        raise error
    return done


def run_point(sweep: Sweep, point: Point, device: str = "") -> dict[str, Any]:
    """Make one point, or what is missing of it; returns its result (see `results`)."""
    folder = sweep.out / point.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder} of --out: {error.strerror}") from None
    steps = Steps(folder, commands.environment(device, sweep.threads))
    if steps.finished("point", point.to_dict()) and (folder / "result.json").exists():
        result = read_json(folder / "result.json")
    else:
        steps.finish("point", point.to_dict(), 0)
        make_model(sweep, point, steps, checkpoints.load_checkpoint(sweep.baseline))
        result = score_model(sweep, point, steps)
        write_json(result, folder / "result.json")
    if more(sweep, point, steps, result):
        write_json(result, folder / "result.json")
    if sweep.results:
        write_json(result, sweep.results / f"{point.name}.json")
    print(f"[{point.name}] " + results.one_line(result), flush=True)
    return result


def more(sweep: Sweep, point: Point, steps: Steps, result: dict[str, Any]) -> bool:
    """Add to a result what a later sweep asks for in addition; whether there was anything."""
    model, changed = final_model(sweep, point), False
    for test in sweep.elsewhere:
        if test.name not in result["elsewhere"]:
            found = translate(sweep, steps, model, test)
            write_json(found, steps.folder / f"elsewhere.{test.name}.json")
            result["elsewhere"][test.name] = scoring.score(found["hypotheses"], found["references"])
            changed = True
    if sweep.analysis and result["functions"] is None:
        tokens = sweep.generate_tokens
        result["functions"] = analyse(sweep.analysis, steps, model, sweep.data, tokens)
        changed = True
    return changed


def final_model(sweep: Sweep, point: Point) -> str:
    """The checkpoint of a point that is made."""
    return sweep.baseline if point.method == "baseline" else str(sweep.out / point.name / "model.pt")


def make_model(sweep: Sweep, point: Point, steps: Steps, state: dict[str, Any]) -> None:
    """FOLDER/model.pt and FOLDER/layout.json, by the stages that the point's method has."""
    folder, options = steps.folder, commands.baseline_options(state)
    removed, layout_file = folder / "removed.pt", folder / "layout.json"
    if point.method == "baseline":
        if not steps.finished("model", sweep.baseline):
            write_json(checkpoints.open_layout(state).to_dict(), layout_file)
            steps.finish("model", sweep.baseline, 0)
        return
    if point.method == "scratch":
        write_json(read_json(sweep.out / point.source / "layout.json"), layout_file)
        save_dir = folder / "scratch"
        steps.command(
            "scratch", commands.scratch(point, str(layout_file), options, sweep.data, save_dir, sweep.budget)
        )
        remove(steps, "model", save_dir / "checkpoint_last.pt", folder / "model.pt")
        return
    if point.method in ("control", "l0", "l0-target"):
        save_dir = folder / "finetune"
        steps.command(
            "finetune", commands.finetune(point, sweep.baseline, options, sweep.data, save_dir, sweep.budget)
        )
        remove(steps, "remove", save_dir / "checkpoint_last.pt", removed)
    elif point.method == "keep":
        gated = sweep.out / point.source / "finetune" / "checkpoint_last.pt"
        remove(steps, "remove", gated, removed, target=point.target)
    else:
        layout = criterion_layout(sweep, point, steps, state)
        remove(steps, "remove", Path(sweep.baseline), removed, layout=layout)
    if not layout_file.exists():
        layout = checkpoints.existing_layout(checkpoints.load_checkpoint(removed))
        write_json(layout.to_dict(), layout_file)
    if point.settle_updates:
        save_dir = folder / "settle"
        steps.command(
            "settle",
            commands.settle(
                point, str(removed), str(layout_file), options, sweep.data, save_dir, sweep.budget
            ),
        )
        remove(steps, "model", save_dir / "checkpoint_last.pt", folder / "model.pt")
    else:
        remove(steps, "model", removed, folder / "model.pt")


def remove(
    steps: Steps, name: str, source: Path, output: Path, target: str = "", layout: HeadLayout | None = None
) -> None:
    """What ``headprune remove`` does, as a step."""
    what = ["headprune", "remove", str(source), str(output)]
    what += ["--keep", target] if target else []
    what += ["--layout", layout.to_json()] if layout else []
    if steps.finished(name, what):
        return
    print(f"[{steps.folder.name}] {name}: {' '.join(what)}", flush=True)
    start = time.monotonic()
    state = checkpoints.load_checkpoint(source)
    if target:
        layout = chosen(state, gate_table(state), parse_target(target))
    removal.save(removal.remove_heads(state, layout), output, force=True)
    steps.finish(name, what, time.monotonic() - start)


def criterion_layout(sweep: Sweep, point: Point, steps: Steps, state: dict[str, Any]) -> HeadLayout:
    """Heads of the baseline by another criterion; scores are kept for all points in OUT/importance."""
    from fairseq_headprune.selection.scores import cached_scores

    scores = cached_scores(
        point.criterion, sweep.baseline, sweep.data, sweep.out / "importance", point.seed, point.sentences
    )
    return chosen(state, scores, parse_target(point.target), point.criterion)


def translate(sweep: Sweep, steps: Steps, model: str, test: TestSet) -> dict[str, list[Any]]:
    """``hypotheses`` and ``references`` of one set, detokenised, and ``source_lengths`` in words."""
    output, data = f"generate.{test.name}.out", test.data or sweep.data
    sentences = scoring.sentences_in(data, test.subset)
    steps.command(
        f"generate.{test.name}",
        commands.translate(model, data, test.subset, sweep.beam, sweep.generate_tokens),
        output,
    )
    references = scoring.read_lines(test.references) if test.references else None
    text = (steps.folder / output).read_text(encoding="utf-8")
    parsed = scoring.parse_generate(text, str(steps.folder / output), sentences)

    whole = scoring.splitting_of(data) == "sentencepiece"

    def plain(lines):  # SentencePiece pieces join to plain text; other pieces to Moses tokens
        return list(lines) if whole else scoring.detokenize(lines, sweep.target_lang)

    return {
        "hypotheses": plain(parsed.hypotheses),
        "references": references or plain(parsed.references),
        "source_lengths": [len(s.split()) for s in parsed.sources],
    }


def score_model(sweep: Sweep, point: Point, steps: Steps) -> dict[str, Any]:
    """Translate every test set and put the point's result together."""
    folder, model = steps.folder, final_model(sweep, point)
    translated = {test.name: translate(sweep, steps, model, test) for test in sweep.tests}
    write_json(translated, folder / "translations.json")
    trained = [folder / f"{stage}.log" for stage in ("settle", "scratch", "finetune")]
    trained = [log for log in trained if log.exists()]
    if not trained:
        steps.command("validate", commands.validate(model, sweep.data, sweep.generate_tokens))
        trained = [folder / "validate.log"]
    layout = HeadLayout.load(folder / "layout.json")
    return results.make_result(
        point,
        layout,
        translated,
        results.valid_loss(trained[0].read_text(encoding="utf-8")),
        model,
        sweep.baseline,
        steps.seconds(),
        asdict(sweep.budget),
        results.gate_facts(folder / "finetune"),
        results.updates_spent(point, sweep.out),
        threads=sweep.threads,
    )
