"""Scores by the name of a criterion, kept in files so that they are computed once."""

from collections.abc import Mapping
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.files import read_json, write_json
from fairseq_headprune.selection.baseline import Baseline
from fairseq_headprune.selection.importance import CRITERIA, Scores
from fairseq_headprune.units.layout import parse_head


def check_criterion(name: str) -> None:
    """UserError for a criterion that does not exist."""
    if name not in CRITERIA:
        raise UserError(f"unknown criterion '{name}': use {', '.join(CRITERIA)}")


def sentences_for(name: str, asked: int = 0) -> int:
    """How many sentences scores are taken from (``asked`` 0: the default); 0 when none is read."""
    default = CRITERIA[name].sentences if name else 0
    return (asked or default) if default else 0


def score_heads(
    name: str, checkpoint: str, data: str | None = None, seed: int = 1, sentences: int = 0
) -> Scores:
    """Scores of all heads of a checkpoint, from the first ``sentences`` of ``valid`` (0: the default).

    UserError for a criterion that does not exist, or whose needs (gates, data) are not met.
    """
    check_criterion(name)
    return CRITERIA[name].scores(Baseline(str(checkpoint), data, sentences_for(name, sentences), seed))


def to_json(scores: Scores) -> dict[str, float]:
    """Head as text -> score."""
    return {str(head): value for head, value in scores.items()}


def from_json(data: Mapping[str, float]) -> Scores:
    """The inverse of ``to_json``."""
    return {parse_head(text): float(value) for text, value in data.items()}


def cached_scores(
    name: str, checkpoint: str, data: str, folder: Path, seed: int = 1, sentences: int = 0
) -> Scores:
    """Scores from FOLDER/CRITERION-SENTENCES.json, computed and kept there when there is no such file."""
    count = sentences_for(name, sentences)
    path = Path(folder) / (f"random-seed{seed}.json" if name == "random" else f"{name}-{count}.json")
    if path.exists():
        return from_json(read_json(path, "scores of heads"))
    scores = score_heads(name, checkpoint, data, seed, count)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, to_json(scores))
    return scores
