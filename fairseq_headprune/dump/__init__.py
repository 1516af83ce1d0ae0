"""Attention and head relevance on disk: written shard by shard, read one sentence at a time.

A dump is a directory: ``manifest.json`` and, for n = 00000, 00001, ..., ``shard-n.safetensors``
(arrays) with ``shard-n.jsonl`` (ids and tokens). README.md of `fairseq_headprune` describes every
file, so that numpy and safetensors alone can read it.

Writing: `DumpWriter`, `make_manifest`. Reading: `open_dump`. Before writing: `estimate_bytes`.
"""

from fairseq_headprune.dump.format import (
    estimate_bytes,
    file_sha256,
    human_size,
    make_manifest,
)
from fairseq_headprune.dump.reader import Dump, Record, Shard, open_dump
from fairseq_headprune.dump.writer import DumpWriter

__all__ = [
    "Dump",
    "DumpWriter",
    "Record",
    "Shard",
    "estimate_bytes",
    "file_sha256",
    "human_size",
    "make_manifest",
    "open_dump",
]
