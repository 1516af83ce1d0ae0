"""What heads.json says about the run that made it, and what the screen shows of it."""

import datetime
import platform
import sys

import numpy as np

import fairseq_headprune
from fairseq_headprune.dump import file_sha256
from fairseq_headprune.units.layout import flag


def provenance(args, dump, types, relations, parses, counted, limits) -> dict:
    """The block ``provenance`` without what only the pass can tell (``counts``, ``unaligned``)."""
    manifest = dump.manifest
    options = {
        "types": list(types),
        "relations": list(relations),
        "keep_subtypes": args.keep_subtypes,
        **limits._asdict(),
        "rare_top": args.rare_top,
        "bootstrap": args.bootstrap,
        "level": args.level,
        "seed": args.seed,
        "max_unaligned": args.max_unaligned,
    }
    return {
        "program": "analysis roles",
        "arguments": sys.argv[1:],
        "created": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": None,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "fairseq_headprune": fairseq_headprune.__version__,
        },
        "model": manifest["model"],
        "dump": {
            "directory": str(args.dump),
            "sentences": len(dump),
            "complete": bool(manifest.get("complete")),
            "damaged_shards": dict(dump.damaged),
            "data": manifest["data"],
            "options": manifest["options"],
        },
        "layout": manifest["layout"],
        "parses": parses,
        "frequencies": counted
        and {
            "file": args.frequencies,
            "sha256": file_sha256(args.frequencies),
            "types": len(counted.counts),
            "tokens": sum(counted.counts.values()),
        },
        "options": options,
    }


def identity(dump, about: dict) -> dict:
    """What must be equal for a saved state to be continued."""
    kept = ("versions", "model", "dump", "layout", "parses", "frequencies", "options")
    same = {key: about[key] for key in kept}
    return {**same, "shards": dump.shard_numbers, "counts": dump.counts}


def summary(content, out) -> str:
    """Which heads have which functions, as text."""
    lines = []
    for record in content["heads"]:
        if record["functions"]:
            name = f"{flag(record['type'])}:{record['layer']}:{record['head']}"
            lines.append(f"  {name:<14} {'; '.join(record['functions'])}")
    lines = lines or ["  no head passes a threshold"]
    tests = [
        m
        for record in content["heads"]
        for directions in (record["syntactic"] or {}).values()
        for m in directions.values()
        if m["gain_low"] is not None
    ]
    if tests:
        level = content["provenance"]["options"]["level"]
        lines.append(
            f"  of {len(tests)} combinations of head, relation and direction, the gain's interval is above "
            f"0 in {sum(m['gain_low'] > 0 for m in tests)} (by chance {len(tests) * (1 - level) / 2:.0f}); "
            f"corrected for their number (Holm), {sum(m['gain_p_holm'] < 0.05 for m in tests)} gains remain"
        )
    counts = content["provenance"]["counts"]
    unfit = counts["unaligned_sentences"]
    about = content["provenance"]
    if about["frequencies"] and not counts["rare_sentences"]:
        lines.append(
            f"  no sentence has a token beyond the {about['options']['rare_top']} most frequent, so no head "
            "can be a rare-word head: count more text, or give a smaller --rare-top"
        )
    return "\n".join(
        [
            f"{len(content['heads'])} heads, {counts['sentences']} sentences"
            + (f", {unfit} of them not aligned to their parse (unaligned.tsv)" if unfit else ""),
            *lines,
            f"written: {out / 'heads.json'}",
        ]
    )
