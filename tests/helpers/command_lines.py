"""fairseq's command lines, run inside the test process: a new process takes seconds to import."""

import contextlib
import copy
import gc
import io
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import generate as generate_cli
from fairseq_cli import interactive as interactive_cli
from fairseq_cli import preprocess as preprocess_cli
from fairseq_cli import train as train_cli
from omegaconf import OmegaConf

import fairseq_headprune

USER_DIR = ["--user-dir", str(Path(fairseq_headprune.__file__).parent)]


def preprocess(*args: str) -> None:
    """fairseq-preprocess."""
    parser = options.get_preprocessing_parser()
    preprocess_cli.main(parser.parse_args([str(a) for a in args]))


def train(*args: str) -> None:
    """fairseq-train."""
    parser = options.get_training_parser()
    parsed = options.parse_args_and_arch(parser, [str(a) for a in args])
    train_cli.main(convert_namespace_to_omegaconf(parsed))


_configurations = {}


def configuration(parser, args: Sequence[str]):
    """The configuration that fairseq makes of these arguments.

    fairseq needs a second for it, so that one is kept per task and its values are replaced.
    """
    parsed = options.parse_args_and_arch(parser, [str(a) for a in args])
    key = (parsed.task, hasattr(parsed, "buffer_size"))
    if key not in _configurations:
        _configurations[key] = convert_namespace_to_omegaconf(parsed)
    cfg = copy.deepcopy(_configurations[key])
    for group in cfg:
        for name in cfg[group] if OmegaConf.is_dict(cfg[group]) else ():
            if hasattr(parsed, name):
                cfg[group][name] = getattr(parsed, name)
    return cfg


def generate(*args: str) -> str:
    """fairseq-generate; what it prints on standard output, log lines left out."""
    cfg = configuration(options.get_generation_parser(), args)
    return _printed(lambda: generate_cli.main(cfg))


def interactive(lines: Sequence[str], *args: str) -> str:
    """fairseq-interactive on these lines; what it prints on standard output."""
    cfg = configuration(options.get_interactive_generation_parser(), args)
    stdin, sys.stdin = sys.stdin, io.StringIO("".join(line + "\n" for line in lines))
    try:
        return _printed(lambda: interactive_cli.main(cfg))
    finally:
        sys.stdin = stdin


def _printed(run) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run()
        gc.collect()  # in place of the end of the process: the generator goes
    return out.getvalue()


WORDS = "one two three four five six seven eight nine ten".split()


def number_corpus(directory: Path, sizes) -> None:
    """Parallel text ``<split>.src`` and ``<split>.tgt``: number words and the same backwards, marked.

    ``sizes``: split -> lines. Lengths 2 to 9, so that batches need padding.
    """
    rng = random.Random(7)
    for split, size in sizes.items():
        lines = [[rng.choice(WORDS) for _ in range(rng.randint(2, 9))] for _ in range(size)]
        (directory / f"{split}.src").write_text("".join(" ".join(x) + "\n" for x in lines))
        (directory / f"{split}.tgt").write_text(
            "".join(" ".join(f"{w}_" for w in reversed(x)) + "\n" for x in lines)
        )


TINY = (
    "--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 16 --decoder-embed-dim 16 "
    "--encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32 --encoder-attention-heads 4 "
    "--decoder-attention-heads 4 --max-source-positions 32 --max-target-positions 32"
).split()


def tiny_model(directory: Path, data: Path, arch: str = "transformer", *more: str) -> Path:
    """Train a tiny model for a moment; the path of its checkpoint."""
    args = [data, "--arch", arch, *TINY, "--optimizer", "adam", "--lr", "0.01", "--seed", "1"]
    args += ["--criterion", "label_smoothed_cross_entropy", "--max-tokens", "600"]
    args += ["--max-update", "60", "--save-dir", directory, "--disable-validation", "--cpu"]
    args += ["--no-epoch-checkpoints", "--log-format", "none", *USER_DIR, *more]
    train(*args)
    return directory / "checkpoint_last.pt"
