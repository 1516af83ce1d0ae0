"""Tables of what relevance costs, from the results of benchmarks/relevance.py."""

from typing import Dict, List

from fairseq_headprune.benchmarks.report import markdown


def _range(spread: Dict[str, float], scale: float, digits: int) -> str:
    middle, low, high = (f"{scale * spread[k]:.{digits}f}" for k in ("median", "q1", "q3"))
    return f"{middle} [{low}, {high}]"


def sentence_table(rows: List[Dict]) -> str:
    """A line per rule and precision: the sentence that the authors' code was timed on."""
    header = ["rule", "precision", "CPU ms", "at most", "of the authors' time"]
    return markdown(header, [
        [r["rule"], r["dtype"], _range(r["cpu_seconds"], 1000, 0), f"{1000 * r['limit_seconds']:.0f}",
         f"1/{r['authors_seconds_over_ours']:.0f}"]
        for r in rows
    ])


def batch_table(batch: Dict) -> str:
    """A line per rule and precision: a batch of real pairs, beside forward and backward of the same."""
    one = _range(batch["forward_backward_seconds"], 1000, 0)
    steps = f"{batch['mean_steps']:.1f}"
    header = ["rule", "precision", "times forward + backward", "per step"]
    table = markdown(header, [
        [r["rule"], r["dtype"], _range(r["multiple"], 1, 1), f"{r['multiple_per_step']:.2f}"]
        for r in batch["rows"]
    ])
    return (f"{batch['sentences']} pairs of {steps} target tokens on average; forward + backward of them: "
            f"{one} ms\n\n{table}")


def tables(results: List[Dict]) -> str:
    """Markdown: both tables; the second only where a model's batch was timed."""
    parts = [sentence_table(entry["sentence"]) for entry in results]
    parts += [batch_table(entry["batch"]) for entry in results if "batch" in entry]
    return "\n\n".join(parts)
