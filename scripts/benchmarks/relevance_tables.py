"""Tables of what relevance costs, from the results of benchmarks/relevance.py."""

from benchmarks.report import in_ms, markdown, with_quartiles


def sentence_table(rows: list[dict]) -> str:
    """A line per rule and precision: the sentence that the authors' code was timed on."""
    header = ["rule", "precision", "CPU ms", "at most", "of the authors' time"]
    return markdown(
        header,
        [
            [
                r["rule"],
                r["dtype"],
                with_quartiles(in_ms(r["cpu_seconds"]), "{:.0f}"),
                f"{1000 * r['limit_seconds']:.0f}",
                f"1/{r['authors_seconds_over_ours']:.0f}",
            ]
            for r in rows
        ],
    )


def batch_table(batch: dict) -> str:
    """A line per rule and precision: a batch of real pairs, beside forward and backward of the same."""
    one = with_quartiles(in_ms(batch["forward_backward_seconds"]), "{:.0f}")
    steps = f"{batch['mean_steps']:.1f}"
    header = ["rule", "precision", "times forward + backward", "per step"]
    table = markdown(
        header,
        [
            [r["rule"], r["dtype"], with_quartiles(r["multiple"], "{:.1f}"), f"{r['multiple_per_step']:.2f}"]
            for r in batch["rows"]
        ],
    )
    return (
        f"{batch['sentences']} pairs of {steps} target tokens on average; forward + backward of them: "
        f"{one} ms\n\n{table}"
    )


def tables(results: list[dict]) -> str:
    """Markdown: both tables; the second only where a model's batch was timed."""
    parts = [sentence_table(entry["sentence"]) for entry in results]
    parts += [batch_table(entry["batch"]) for entry in results if "batch" in entry]
    return "\n\n".join(parts)
