"""CoNLL-U read by the conllu package: slow, and the measure for analysis/parses.py."""

import gzip

import conllu


def read(path):
    """List of sentences: (surface, place, heads, labels), as fairseq_headprune.analysis.parses.Parse has them."""
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [sentence(tokens) for tokens in conllu.parse_incr(file)]


def sentence(tokens):
    words = [t for t in tokens if isinstance(t["id"], int)]
    covered = {}
    for token in tokens:
        if isinstance(token["id"], tuple) and token["id"][1] == "-":
            first, _, last = token["id"]
            inside = [w["form"] for w in words if first <= w["id"] <= last]
            if "".join(inside) != token["form"]:
                covered.update({i: (first, token["form"]) for i in range(first, last + 1)})
    surface, place = [], []
    for word in words:
        first, form = covered.get(word["id"], (word["id"], word["form"]))
        if first == word["id"]:
            surface.append(form)
        place.append(len(surface) - 1)
    return surface, place, [w["head"] - 1 for w in words], [w["deprel"] for w in words]
