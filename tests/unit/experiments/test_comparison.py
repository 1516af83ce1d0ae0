"""The table of ``headprune compare`` says what was measured."""

from fairseq_headprune.experiments import comparison
from fairseq_headprune.units.layout import HeadLayout

FULL = HeadLayout.full(1, 2, 1, 2)
LESS = HeadLayout(((1,),), ((),), ((0, 1),))


def row(name, layout, **numbers):
    values = dict(parameters=1000, weight_bytes=4000, bytes=9096, bleu=12.345, seconds=2.0)
    values.update(numbers)
    times = {"median": 1.5, "q1": 1.25, "q3": 1.75, "min": 1, "max": 2, "n": 9}
    return comparison.Row(
        name,
        f"{name}.pt",
        layout.counts(),
        layout.to_dict(),
        signature="sig",
        sentences=7,
        times=times,
        **values,
    )


def test_table_has_a_line_per_checkpoint_and_the_heads_of_the_last():
    text = comparison.table([row("before", FULL), row("after", LESS, bleu=11.0)])
    lines = text.splitlines()
    assert lines[1].split()[:8] == ["before", "2", "2", "2", "12.35", "1,000", "4", "9"]
    assert lines[2].split()[:5] == ["after", "1", "0", "2", "11.00"]
    assert lines[2].split()[8:] == ["-", "1.50x", "(1.25", "to", "1.75)"]
    assert "7 sentences; sig\n" in text and "CPU time against before\n" in text
    assert text.endswith(LESS.table(FULL))


def test_heads_that_a_model_has_none_of_are_no_column():
    layout = HeadLayout(((0, 1),), (), ((1,),))
    text = comparison.table([row("before", layout)])
    assert text.split()[:4] == ["model", "enc-self", "dec-enc", "BLEU"] and "dec-self" not in text
    assert text.splitlines()[1].split()[:4] == ["before", "2", "1", "12.35"]


def test_speed_against_the_same_program_comes_first():
    removed = row("after", LESS)
    removed.times_same_program = {"median": 1.02, "q1": 1.0, "q3": 1.1}
    text = comparison.table([row("before", FULL), row(comparison.NOTHING_REMOVED, FULL), removed])
    assert "1.02x (1.00 to 1.10)  1.50x (1.25 to 1.75)" in text.splitlines()[3]
    assert "against same program, nothing removed (what removal gives), and before" in text
