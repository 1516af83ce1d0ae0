"""The K heads of highest score: one algorithm, whatever the scores are."""

from collections.abc import Mapping
from typing import Any

from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head, HeadLayout
from fairseq_headprune.units.target import check_target, groups


def highest(
    scores: Mapping[Head, float],
    target: Mapping[str, int],
    existing: HeadLayout,
    otherwise: HeadLayout | None = None,
    option: str = "--keep",
) -> HeadLayout:
    """Of the heads that have a score, the K of highest score of each group of ``target``, and all others.

    Args:
        target: ``{"total": K}`` or K by type, see `units.target.parse_target`.
        existing: the heads that there are.
        otherwise: of types that the target does not mention, these stay (default: ``existing``).
        option: what a UserError for more heads than there are calls the target.

    Ties go to the earlier type, layer and number.
    """
    available = {t: sum(h.type == t and h in scores for h in existing) for t in ATTENTION_TYPES}
    check_target(target, available, option)
    kept = [h for h in existing if h not in scores]
    covered: set[str] = set()
    for name, types in groups(target).items():
        # sorting is stable: equal scores stay in the standard order
        ranked = sorted((h for h in existing if h in scores and h.type in types), key=lambda h: -scores[h])
        kept += ranked[: target[name]]
        covered |= set(types)
    stay = existing if otherwise is None else otherwise
    kept += [h for h in stay if h in scores and h.type not in covered]
    return HeadLayout.from_heads(kept, existing)


def chosen(
    state: dict[str, Any], scores: Mapping[Head, float], target: Mapping[str, int], by: str = "gates"
) -> HeadLayout:
    """The layout that a checkpoint gets: `highest` among its heads, among those that act unless their
    gates are asked. Types that the target does not mention keep the heads that act."""
    acting = checkpoints.open_layout(state)
    among = checkpoints.existing_layout(state) if by == "gates" else acting
    return highest(scores, target, among, acting)
