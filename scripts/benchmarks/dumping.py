"""Translation with and without a dump of every head's attention, timed in turns.

What is timed is what fairseq-generate does between loading the model and printing: batches, search,
and for the dump the second scoring and the files. Loading and printing, alike on both sides, are not.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import fairseq_headprune
from fairseq_headprune.base.timing import Times, in_turns, summary
from fairseq_headprune.dump import open_dump

fairseq_headprune.register()


def configuration(arguments: Sequence[str]):
    """The configuration of fairseq-generate with these arguments."""
    parser = options.get_generation_parser(default_task="translation_headprune")
    parsed = options.parse_args_and_arch(parser, [str(a) for a in arguments])
    return convert_namespace_to_omegaconf(parsed)


def prepare(cfg, every: int = 1) -> Callable[[], int]:
    """Load everything; the function returned translates every ``every``-th batch of the subset and
    gives the number of sentences."""
    task = tasks.setup_task(cfg.task)
    models, saved = checkpoint_utils.load_model_ensemble([cfg.common_eval.path], task=task)
    task.load_dataset(cfg.dataset.gen_subset, task_cfg=saved.task)
    for model in models:
        model.prepare_for_inference_(cfg)

    def translate() -> int:
        batches = task.get_batch_iterator(
            dataset=task.dataset(cfg.dataset.gen_subset),
            max_tokens=cfg.dataset.max_tokens,
            max_sentences=cfg.dataset.batch_size,
            max_positions=utils.resolve_max_positions(
                task.max_positions(), *[model.max_positions() for model in models]
            ),
            seed=cfg.common.seed,
        ).next_epoch_itr(shuffle=False)
        generator = task.build_generator(models, cfg.generation)
        sentences = 0
        for number, sample in enumerate(batches):
            if number % every == 0:
                task.inference_step(generator, models, sample)
                sentences += sample["nsentences"]
        if task.record is not None:
            task.record.writer.close()
        return sentences

    return translate


def compare(
    arguments: Sequence[str],
    repeats: int,
    every: int = 1,
    progress: Callable[[str], None] = lambda message: None,
) -> list[dict]:
    """Spreads of both sides' seconds and of plain translation's time over the dump's.

    ``arguments``: those of fairseq-generate, --dump-attention left out.
    """
    plain_cfg = configuration(arguments)
    times: dict[str, Times] = {"plain": Times([], []), "dump": Times([], [])}
    sizes: list[int] = []
    sentences: dict[str, int] = {}
    for number in range(repeats + 1):  # the first round warms up
        with tempfile.TemporaryDirectory() as folder:
            dump_cfg = configuration([*arguments, "--dump-attention", f"{folder}/dump"])
            ready = {"plain": prepare(plain_cfg, every), "dump": prepare(dump_cfg, every)}

            def side(name, ready=ready):
                def run():
                    sentences[name] = ready[name]()

                return run

            taken = in_turns({n: side(n) for n in ready}, repeats=1, warmup=0, seed=number)
            files = Path(folder, "dump").iterdir()
            sizes.append(sum(path.stat().st_size for path in files))
            assert len(open_dump(Path(folder, "dump"))) == sentences["dump"] == sentences["plain"]
        if number:
            for name, one in taken.items():
                times[name].cpu.extend(one.cpu)
                times[name].wall.extend(one.wall)
        progress(f"round {number} of {repeats}: " + ", ".join(_seconds(n, t) for n, t in taken.items()))
    return [{"sentences": sentences["plain"], "dump_bytes": sizes[-1], "times": summary(times, "plain")}]


def _seconds(name: str, times: Times) -> str:
    return f"{name} {times.cpu[-1]:.1f} s CPU, {times.wall[-1]:.1f} s"
