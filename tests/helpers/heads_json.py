"""Synthetic contents of heads.json, for tests of everything that reads that file."""

import json
import random
from pathlib import Path

DIRECTIONS = ("h->d", "d->h")
RELATIONS = ("nsubj", "obj", "amod", "advmod")
BASELINES = {"nsubj": (0.35, -1), "obj": (0.41, 2), "amod": (0.72, -1), "advmod": (0.46, -1)}
"""Relation -> baseline accuracy and its relative position from syntactic head to dependent."""


def _share(rng, value, n, prefix=""):
    """``value`` kept within 0..1, its count and an interval around it, under the schema's names."""
    value = min(max(value, 0.0), 1.0)
    width = 0.5 / max(n, 1) ** 0.5
    key = (lambda name: f"{prefix}_{name}") if prefix else (lambda name: name)
    return value, {
        key("n"): n,
        key("low"): max(0.0, value - width),
        key("high"): min(1.0, value + width),
    }


def head_record(rng, type_, layer, head, function="", n=2000):
    """One record of ``heads``; ``function`` is one of the texts of ``functions`` or nothing."""
    kind, *detail = function.split() or [""]
    record = {"type": type_, "layer": layer, "head": head}
    relevance, more = _share(rng, 0.3 if function else rng.uniform(0.02, 0.15), n, "relevance")
    record.update(relevance=relevance, **more)
    peak = rng.uniform(0.82, 0.97) if kind == "positional" else rng.uniform(0.15, 0.7)
    confidence, more = _share(rng, peak, n, "confidence")
    record.update(confidence=confidence, **more, max_weight=confidence)
    record.update(ties=rng.uniform(0, 0.01), blank=0.0)

    offset = int(detail[0]) if kind == "positional" else rng.choice((-1, 0, 1))
    share, more = _share(rng, rng.uniform(0.91, 0.96) if kind == "positional" else 0.4, n)
    record["positional"] = {"offset": offset, "share": share, **more}
    share, more = _share(rng, share * 1.03, int(n * 0.95))
    record["positional"].update({f"{k}_possible": v for k, v in {"share": share, **more}.items()})

    record["syntactic"] = record["rare"] = None
    if type_ == "enc_self":
        record["syntactic"] = {}
        for relation in RELATIONS:
            baseline, at = BASELINES[relation]
            record["syntactic"][relation] = {}
            for direction in DIRECTIONS:
                passes = kind == "syntactic" and detail == [relation, direction]
                wanted = baseline + (0.2 if passes else rng.uniform(-0.3, 0.05))
                accuracy, more = _share(rng, wanted, n // 10)
                record["syntactic"][relation][direction] = {
                    "accuracy": accuracy,
                    **more,
                    "baseline": baseline,
                    "baseline_offset": at if direction == "h->d" else -at,
                    "gain": accuracy - baseline,
                    "gain_low": more["low"] - baseline,
                    "gain_high": more["high"] - baseline,
                    "gain_p": 1e-6 if passes else 0.9,
                    "gain_p_holm": 1e-4 if passes else 1.0,
                    "syntactic": passes,
                    **dict(away=accuracy / 2, away_n=n // 20, away_low=accuracy / 3, away_high=accuracy),
                    "by_distance": {k: accuracy for k in ("1", "2", "3-4", "5-8")} | {"9+": None},
                }
        rare = kind == "rare"
        record["rare"] = {"n": n // 2, "rare": rare}
        for key, value, chance in (
            ("rarest", 0.66 if rare else 0.1, 0.07),
            ("two_rarest", 0.83 if rare else 0.18, 0.14),
        ):
            value, more = _share(rng, value, n // 2, key)
            more.pop(f"{key}_n")
            record["rare"].update({key: value, **more, f"{key}_chance": chance})
    record["functions"] = [function] if function else []
    return record


def heads_json(layers=6, heads=8, types=("enc_self",), functions=None, removed=(), seed=1):
    """The content of a heads.json.

    ``functions`` maps (type, layer, head) to a function text, ``removed`` lists (type, layer, head)
    that have no record. Without ``functions`` the encoder gets one head of every kind.
    """
    rng = random.Random(seed)
    if functions is None:
        functions = {
            ("enc_self", 0, 0): "rare words",
            ("enc_self", 0, 1 % heads): "positional -1",
            ("enc_self", 1 % layers, 0): "positional +1",
            ("enc_self", 2 % layers, 1 % heads): "syntactic nsubj h->d",
            ("enc_self", 2 % layers, 2 % heads): "syntactic obj d->h",
            ("enc_self", 3 % layers, 2 % heads): "syntactic amod d->h",
        }
    types_all = ("enc_self", "dec_self", "dec_enc")
    kept = {
        t: [[h for h in range(heads) if (t, layer, h) not in set(removed)] for layer in range(layers)]
        for t in types_all
    }
    records = [
        head_record(rng, t, layer, h, functions.get((t, layer, h), ""))
        for t in types_all
        if t in types
        for layer in range(layers)
        for h in kept[t][layer]
    ]
    relations = {}
    for relation in RELATIONS:
        baseline, at = BASELINES[relation]
        relations[relation] = {}
        for direction, sign in (("h->d", 1), ("d->h", -1)):
            counts = {sign * at: int(200 * baseline)}
            for offset in (-4, -3, -2, -1, 1, 2, 3, 4):
                counts.setdefault(sign * offset, int(200 * (1 - baseline) / 7))
            relations[relation][direction] = {
                "n": 200,
                "pairs": sum(counts.values()),
                "words": 200,
                "sentences": 150,
                "baseline": baseline,
                "baseline_offset": sign * at,
                "baseline_low": baseline - 0.03,
                "baseline_high": baseline + 0.03,
                "distances": {"1": 80, "2": 40, "3-4": 40, "5-8": 40, "9+": 0},
                "histogram": {str(k): counts[k] for k in sorted(counts)},
            }
    provenance = {
        "program": "analysis roles",
        "arguments": ["DUMP", "--out", "DIR"],
        "created": "2020-01-01T00:00:00Z",
        "seconds": 1.0,
        "versions": {"python": "3.11", "numpy": "2"},
        "model": {"file": f"model-{seed}.pt", "sha256": f"{seed:064x}"},
        "dump": {
            "directory": "dump",
            "sentences": 200,
            "complete": True,
            "damaged_shards": {},
            "data": {},
            "options": {},
        },
        "layout": kept,
        "parses": {"kind": "conllu", "file": "trees.conllu", "sha256": "0" * 64, "parser": None},
        "frequencies": {"file": "dict.txt", "sha256": "0" * 64, "types": 1000, "tokens": 50000},
        "options": {
            "types": list(types),
            "relations": list(RELATIONS),
            "positional_share": 0.9,
            "syntactic_over": "words",
            "margin": 0.1,
            "margin_kind": "points",
            "positional_over": "all",
            "rare_top": 500,
            "rare_share": 0.5,
            "rare_margin": 0.1,
            "keep_subtypes": False,
            "max_unaligned": 0.1,
            "seed": 1,
            "bootstrap": 1000,
            "level": 0.95,
        },
        "counts": {
            "sentences": 200,
            "empty_sentences": 0,
            "source_tokens": 2000,
            "target_tokens": 2000,
            "words": 1800,
            "parsed_sentences": 200,
            "unaligned_sentences": 0,
            "merged_words": 0,
            "relations_inside_a_word": 0,
            "rare_sentences": 150,
            "unknown_to_frequencies": 0,
        },
        "unaligned": [],
    }
    return {"provenance": provenance, "relations": relations, "heads": records}


def write_heads_json(directory, **options) -> Path:
    """``heads_json(**options)`` written as DIRECTORY/heads.json."""
    path = Path(directory) / "heads.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(heads_json(**options), indent=1), encoding="utf-8")
    return path
