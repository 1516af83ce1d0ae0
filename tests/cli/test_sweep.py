"""``headprune sweep`` end to end on a tiny model: interruption, continuation, results, refusals."""

import hashlib
import json
import sys

import pytest

from fairseq_headprune.base import files, steps
from fairseq_headprune.base.locking import FolderLock
from fairseq_headprune.commands import main
from fairseq_headprune.experiments import commands, pareto
from fairseq_headprune.units.layout import HeadLayout
from tests.helpers import command_lines


def sweep(args):
    assert main(["sweep", *args]) == 0


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


class Interrupted(Exception):
    """What a killed sweep looks like from inside."""


@pytest.fixture
def in_process(monkeypatch):
    """Run the sweep's commands inside the test process, a new one takes seconds to import; records
    them, and raises ``Interrupted`` when the ``die_at``-th is reached."""
    state = {"ran": [], "die_at": None}

    class Done:
        returncode = 0

    def run(command, stdout, stderr, env, stdin):
        if state["die_at"] is not None and len(state["ran"]) == state["die_at"]:
            raise Interrupted
        program, *rest = command
        name = program.rsplit("/", 1)[-1]
        if name == "fairseq-train":
            command_lines.train(*rest, "--cpu")
            # as the program logs it; inside the test process the log goes elsewhere
            stdout.write('x | INFO | valid | {"valid_loss": "2.5", "valid_nll_loss": "2.0"}\n')
        elif "fairseq_headprune" in command:
            main(rest[2:])
        elif name == "fairseq-generate":
            stdout.write(command_lines.generate(*rest, "--cpu"))
        else:
            stdout.write('x | INFO | valid | {"valid_loss": "3.5", "valid_nll_loss": "3.0"}\n')
        state["ran"].append(command)
        return Done

    monkeypatch.setattr(steps.subprocess, "run", run)
    return state


def arguments(tiny, out, *more):
    options = ["--train-options", "--valid-subset test", "--max-tokens", "400", "--updates", "6"]
    options += ["--settle-updates", "2", "--generate-tokens", "600", "--beam", "2"]
    tests = ["--test", "tiny=test", "--target-lang", "en"]
    return [str(a) for a in (tiny.checkpoint, "--data", tiny.data, "--out", out, *tests, *options, *more)]


def test_a_sweep_goes_on_where_it_was_interrupted(tiny, tmp_path, in_process, capsys):
    out, results = tmp_path / "runs", tmp_path / "results"
    args = arguments(
        tiny,
        out,
        "--setting",
        "all",
        "--lambdas",
        "0.05",
        "--keep",
        "5",
        "--criteria",
        "random",
        "--counts",
        "4",
        "--results",
        results,
    )
    in_process["die_at"] = 5  # baseline: translate, validate; control: train twice, translate; then
    with pytest.raises(Interrupted):
        sweep(args)
    first = list(in_process["ran"])
    assert (out / "all-control" / "result.json").exists()
    assert not (out / "all-l0.05" / "result.json").exists()

    in_process["die_at"] = None
    sweep(args)
    both = in_process["ran"]
    assert len({tuple(c) for c in both}) == len(both), "a finished step was run again"
    assert both[: len(first)] == first

    points = pareto.load(results)
    assert set(points) == {"baseline", "all-control", "all-l0.05", "all-keep-5-of-all-l0.05", "all-random-4"}
    assert points["all-control"]["heads_in_all"] == 24
    assert points["all-random-4"]["sentences"] is None is points["all-control"]["sentences"]
    assert points["all-keep-5-of-all-l0.05"]["heads_in_all"] == 5
    assert points["all-random-4"]["updates_in_all"] == 0
    assert points["all-keep-5-of-all-l0.05"]["updates_in_all"] == points["all-control"]["updates_in_all"] == 8
    for name, point in points.items():
        layout = HeadLayout.from_dict(point["layout"])
        assert len(layout) == point["heads_in_all"] and layout.counts() == point["heads"]
        assert point["scores"]["together"]["sentences"] == 24
        # a model that was not fine-tuned has no control of its own recipe
        alone = {"baseline": set(), "all-control": {"baseline"}, "all-random-4": {"baseline"}}
        expected = alone.get(name, {"baseline", "all-control"})
        assert set(point["compared"]) == expected
        assert point["valid"] is not None and point["bytes"] > 0
        file = tiny.checkpoint if name == "baseline" else out / name / "model.pt"
        assert point["model"] == {"file": file.name, "sha256": sha256(file)}
        assert point["baseline"] == {"file": tiny.checkpoint.name, "sha256": sha256(tiny.checkpoint)}
    assert points["all-random-4"]["parameters"] < points["all-control"]["parameters"]
    table = capsys.readouterr().out.splitlines()
    assert any("all-random-4" in line and "4" in line for line in table[-8:])

    before = len(both)
    sweep(args)
    assert len(both) == before, "a finished sweep has nothing to run"
    # other options in the same folder would mix two experiments
    with pytest.raises(SystemExit) as stopped:
        sweep([a if a != "6" else "7" for a in args])
    assert stopped.value.code == 2
    assert "sweep with other options" in capsys.readouterr().err


def test_the_same_layout_from_scratch(tiny, tmp_path, in_process):
    out = tmp_path / "runs"
    layout = {"enc_self": [[1], []], "dec_self": [[0, 2], [3]], "dec_enc": [[0], [1, 2, 3]]}
    (out / "some-point").mkdir(parents=True)
    (out / "some-point" / "layout.json").write_text(json.dumps(layout))
    sweep(
        arguments(
            tiny,
            out,
            "--no-control",
            "--scratch",
            "some-point",
            "--scratch-updates",
            "4",
            "--only",
            "scratch-some-point",
        )
    )
    point = steps.read_json(out / "scratch-some-point" / "result.json")
    assert point["layout"] == layout and point["updates_in_all"] == 4
    assert "--finetune-from-model" not in in_process["ran"][0]


def test_heads_are_analysed_when_asked_for(tiny, tmp_path, in_process):
    out = tmp_path / "runs"
    args = arguments(tiny, out, "--lambdas", "none", "--only", "baseline")
    sweep(args)
    assert steps.read_json(out / "baseline" / "result.json")["functions"] is None
    ran = len(in_process["ran"])
    frequencies = tiny.data / "dict.src.txt"
    args += [
        "--analyse",
        "test",
        "--roles-options",
        f"--frequencies {frequencies} --bootstrap 10 --rare-top 1",
    ]
    args += ["--elsewhere", f"same={tiny.data}/test"]
    sweep(args)
    result = steps.read_json(out / "baseline" / "result.json")
    assert result["elsewhere"]["same"]["bleu"] == result["scores"]["together"]["bleu"]
    functions = steps.read_json(out / "baseline" / "result.json")["functions"]
    assert len(functions) == 24 and set(functions[0]) == {"type", "layer", "head", "functions"}
    assert len(in_process["ran"]) == ran + 3, "the test set is not translated again"


@pytest.mark.parametrize(
    "more, message",
    [
        (["--lambdas", "much"], "'much' is no list of numbers"),
        (["--keep", "3", "--keep-from", "nowhere", "--lambdas", "none"], "needs nowhere, which is neither"),
        (["--test", "x"], "cannot read --test 'x'"),
        (["--test", "x=test:/no/file"], "/no/file of --test x do not exist"),
        (["--lambdas", "none", "--only", "baseline", "--test", "x=nosuch"], "there is no subset 'nosuch'"),
        (["--seeds", "one"], "--seeds 'one'"),
        (["--beam", "0"], "--beam must be at least 1"),
        (["--criterion-sentences", "0"], "--criterion-sentences must be at least 1, not 0"),
        (["--train-options", "'open"], "cannot be split into words"),
        (["--suffix", "/x"], "--suffix '/x'"),
        (["--counts", "3"], "--criteria and --counts need each other"),
        (["--targets", "0"], "a sweep to 0 heads asks for no head at all"),
        (["--targets", "9"], "--targets enc-self=9 asks for 9 heads of type enc-self, the model has 8"),
        (["--keep", "99", "--lambdas", "0.1"], "--keep enc-self=99 asks for 99 heads of type enc-self"),
        (["--targets", "dec-self=1"], "the model has 0 to choose from"),
        (["--setting", "all", "--targets", "dec-enc=0"], "leaves no dec-enc head"),
        (
            ["--criteria", "random", "--counts", "25", "--setting", "all"],
            "--counts 25 asks for 25 heads in all",
        ),
        (["--figures", "figures"], "--figures needs --results"),
        (["--criteria", "luck", "--counts", "3", "--only", "enc-luck-3"], "unknown criterion 'luck'"),
        (["--criteria", "luck", "--counts", "3", "--dry-run"], "unknown criterion 'luck'"),
        (["--lr", "nan", "--dry-run"], "--lr must be a number above 0, not nan"),
        (["--label-smoothing", "-1"], "--label-smoothing must be a number 0 or more, not -1.0"),
        (["--test", "tiny=test", "--dry-run"], "the name 'tiny' of --test or --elsewhere is given twice"),
        (["--test", "together=test"], "the name 'together' of --test or --elsewhere names all sets as one"),
        (["--elsewhere", "zz"], "cannot read --elsewhere 'zz'"),
    ],
)
def test_bad_options_end_with_a_sentence(tiny, tmp_path, capsys, in_process, more, message):
    with pytest.raises(SystemExit) as stopped:
        sweep(arguments(tiny, tmp_path / "runs", *more))
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not [c for c in in_process["ran"] if "nosuch" in c or c[0].endswith("fairseq-train")]


def test_a_missing_baseline_is_noticed_in_a_dry_run(tiny, tmp_path, capsys):
    _, *rest = arguments(tiny, tmp_path / "runs", "--dry-run")
    with pytest.raises(SystemExit) as stopped:
        sweep([str(tmp_path / "no.pt"), *rest])
    assert stopped.value.code == 2
    assert "no.pt" in capsys.readouterr().err and not (tmp_path / "runs").exists()


def test_lines_of_references_are_counted(tiny, tmp_path, capsys, in_process):
    short = tmp_path / "short.txt"
    short.write_text("one\n" * 23)
    with pytest.raises(SystemExit):
        sweep(
            arguments(
                tiny,
                tmp_path / "runs",
                "--lambdas",
                "none",
                "--only",
                "baseline",
                "--test",
                f"short=test:{short}",
            )
        )
    assert "short.txt has 23 lines, the set short has 24 sentences" in capsys.readouterr().err


def test_references_in_pieces_are_refused(tiny, tmp_path, capsys):
    pieces = tmp_path / "pieces.txt"
    pieces.write_text("o@@ ne\n" * 24)
    with pytest.raises(SystemExit):
        sweep(arguments(tiny, tmp_path / "runs", "--dry-run", "--elsewhere", f"x=test:{pieces}"))
    assert "pieces.txt are BPE pieces (@@): give detokenised text" in capsys.readouterr().err


def test_an_end_on_the_way_is_a_sentence(tiny, tmp_path, capsys, in_process, monkeypatch):
    """Ctrl-C, a second sweep in the same folder, a disk that takes no more."""
    out = tmp_path / "runs"
    only = arguments(tiny, out, "--lambdas", "none", "--only", "baseline", "--no-table")
    in_process["die_at"] = 0
    monkeypatch.setattr(sys.modules[__name__], "Interrupted", KeyboardInterrupt)
    assert ends(only, capsys) == (
        130,
        "interrupted: the same command goes on after the steps that are finished",
    )
    with FolderLock(out):
        status, said = ends(only, capsys)
    assert status == 2 and said.startswith(f"error: another run is writing to {out}")
    in_process["die_at"] = None
    with monkeypatch.context() as full:
        replace = files.os.replace

        def takes_no_more(temporary, path):
            if path.name == "translations.json":
                raise OSError(28, "No space left on device")
            replace(temporary, path)

        full.setattr(files.os, "replace", takes_no_more)
        status, said = ends(only, capsys)
    assert (
        status == 2
        and "baseline/translations.json: No space left on device; the same command goes on" in said
    )
    assert not (out / "baseline" / "translations.json").exists()
    done = len(in_process["ran"])
    sweep(only)
    assert len(in_process["ran"]) == done + 1  # what is left: validation
    assert (out / "baseline" / "result.json").exists() and not (out / ".lock").exists()


def ends(args, capsys):
    """Status of a sweep that does not end well, and the last line that it says."""
    with pytest.raises(SystemExit) as stopped:
        sweep(args)
    return stopped.value.code, capsys.readouterr().err.splitlines()[-1]


def test_a_failed_command_is_named_with_its_log(tmp_path):
    run = steps.Steps(tmp_path)
    with pytest.raises(
        steps.UserError, match="step 'hopeless' of .* failed with status 3: see .*hopeless.log"
    ):
        run.command("hopeless", ["bash", "-c", "echo oh; exit 3"])
    assert (tmp_path / "hopeless.log").read_text() == "oh\n"
    assert not run.finished("hopeless", ["bash", "-c", "echo oh; exit 3"])


def test_programs_are_those_of_this_python():
    assert commands.program("fairseq-train").endswith("fairseq-train")
