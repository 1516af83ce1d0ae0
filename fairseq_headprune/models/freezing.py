"""Which parameters stay as they are while a model is fine-tuned: pure decisions on names."""

from typing import Dict, Iterable, List, Mapping, Set, Tuple

from fairseq_headprune.base.errors import UserError

PARTS = ("encoder", "decoder", "embeddings")


def parse_freeze(text: str) -> Tuple[str, ...]:
    """``none`` or any of ``encoder,decoder,embeddings`` -> the parts, in the standard order."""
    text = "none" if text is None else text.strip()
    if text == "none":
        return ()
    parts = {part.strip() for part in text.split(",")}
    unknown = sorted(parts - set(PARTS))
    if unknown:
        raise UserError(f"--freeze does not know '{unknown[0]}': use none or any of " + ", ".join(PARTS))
    return tuple(part for part in PARTS if part in parts)


def belongs_to(name: str, part: str) -> bool:
    """Whether the parameter of this name is in the part. Gates belong to none: they are what is learned."""
    if ".gates." in name:
        return False
    if part == "embeddings":
        # with tied weights the output projection is the same tensor and is found by its identity
        return any(f".{word}." in name for word in ("embed_tokens", "embed_positions"))
    return name.startswith(part + ".")


def frozen_names(parts: Iterable[str], names: Mapping[str, int]) -> Tuple[List[str], List[str]]:
    """Decide what is frozen.

    ``names`` maps every parameter name, aliases included, to an identity of its tensor. Returns the
    frozen names (with all their aliases) and, of these, the ones frozen only because they share
    their tensor with a frozen part.
    """
    parts = tuple(parts)
    direct: Set[str] = {n for n in names if any(belongs_to(n, part) for part in parts)}
    tensors = {names[n] for n in direct}
    frozen = [n for n in names if names[n] in tensors]
    return frozen, [n for n in frozen if n not in direct]


def freeze(model, parts: Iterable[str]) -> Dict[str, List[str]]:
    """Set ``requires_grad`` to False for the parts of a model; returns the two lists by name."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    frozen, shared = frozen_names(parts, {n: id(p) for n, p in parameters.items()})
    for name in frozen:
        parameters[name].requires_grad = False
    return {"frozen": frozen, "shared": shared}
