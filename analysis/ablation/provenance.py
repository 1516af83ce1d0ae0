"""What the tables of an ablation say about the run that made them."""

import sys
from datetime import UTC, datetime
from typing import Any


def identity(args, sentences: int, options: tuple[str, ...]) -> dict[str, Any]:
    """Model, data and the options of these names: what must be equal for a measurement to be used again."""
    from fairseq_headprune.dump import file_sha256

    return {
        "model": {"file": str(args.checkpoint), "sha256": file_sha256(args.checkpoint)},
        "data": {"path": str(args.data), "subset": args.subset, "sentences": sentences},
        "options": {name: getattr(args, name) for name in options},
    }


def provenance(identity: dict[str, Any], model, seconds: float) -> dict[str, Any]:
    """The block ``provenance`` of a table."""
    import sacrebleu

    from fairseq_headprune.nn.projections import open_layout, whole_layout
    from fairseq_headprune.recording.run import versions

    return {
        "program": "analysis ablate",
        "arguments": sys.argv[2:],
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds_of_last_run": round(seconds, 1),
        "versions": {**versions(), "sacrebleu": sacrebleu.__version__},
        **identity,
        "layout": open_layout(model).to_dict(),
        "whole": whole_layout(model).to_dict(),
    }
