"""``headprune maps``: attention maps of a few chosen sentences, saved small enough to be kept
beside the tables. Figure 5 and the report are drawn from them.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairseq_headprune.analysis import head_table
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import file
from fairseq_headprune.units.layout import Head, flag, parse_head, parse_types

SCALE = 255
EOS = "</s>"


@dataclass(frozen=True)
class Sentence:
    """One sentence and its maps: ``weights[type]`` is uint8 ``[heads, queries, keys]`` in 1/255."""

    id: int
    source: list[str]
    target: list[str]
    index: Mapping[str, list[tuple[int, int]]]
    """Type -> (layer, head) of each map."""
    weights: Mapping[str, np.ndarray]

    def heads(self, type: str) -> list[Head]:
        """The heads that have a map."""
        return [Head(type, layer, head) for layer, head in self.index.get(type, [])]

    def map(self, head: Head) -> np.ndarray:
        """float ``[queries, keys]`` of a head; KeyError when there is none."""
        try:
            place = self.index[head.type].index((head.layer, head.head))
        except (KeyError, ValueError):
            raise KeyError(str(head)) from None
        return self.weights[head.type][place] / SCALE

    def labels(self, type: str) -> tuple[list[str], list[str]]:
        """Tokens of the rows and of the columns; a decoder's keys are its inputs, EOS first."""
        queries = self.source if type == "enc_self" else self.target
        keys = [EOS, *self.target[:-1]] if type == "dec_self" else self.source
        return queries, keys


@dataclass(frozen=True)
class Maps:
    """A maps file. ``marked``: the heads that Figure 5 shows, none for all of them."""

    provenance: Mapping[str, Any]
    marked: list[Head]
    sentences: list[Sentence]


def to_json(sentence: Sentence) -> dict[str, Any]:
    """As it is written; weights are bytes in base64, row by row, head by head."""
    return {
        "id": sentence.id,
        "source": sentence.source,
        "target": sentence.target,
        "attention": {
            type: {
                "heads": [list(pair) for pair in sentence.index[type]],
                "shape": list(array.shape[1:]),
                "weights": base64.b64encode(array.tobytes()).decode("ascii"),
            }
            for type, array in sentence.weights.items()
        },
    }


def from_json(data: Mapping[str, Any]) -> Sentence:
    """The inverse of `to_json`."""
    index, weights = {}, {}
    for type, entry in data["attention"].items():
        index[type] = [tuple(pair) for pair in entry["heads"]]
        raw = np.frombuffer(base64.b64decode(entry["weights"]), np.uint8)
        weights[type] = raw.reshape(len(index[type]), *entry["shape"])
    return Sentence(data["id"], data["source"], data["target"], index, weights)


def read(path) -> Maps:
    """Read a maps file; UserError when it is another."""
    data = files.read_json(path, "a file of attention maps")
    try:
        sentences = [from_json(sentence) for sentence in data["sentences"]]
        marked = [parse_head(text) for text in data["marked"]]
        return Maps(data["provenance"], marked, sentences)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not a file of `analysis maps` ({type(error).__name__}: {error})"
        ) from None


def quantise(weights: np.ndarray) -> np.ndarray:
    """Weights between 0 and 1 as uint8, to the nearest 1/255."""
    return np.rint(np.clip(weights.astype(np.float32), 0, 1) * SCALE).astype(np.uint8)


def take(record, dump, types: Sequence[str]) -> Sentence:
    """One sentence of a dump."""
    index = {type: list(dump.head_index[type]) for type in types}
    weights = {type: quantise(record.heads_attention(type)) for type in types}
    return Sentence(record.id, list(record.source), list(record.target), index, weights)


def choose(dump, number: int, shortest: int = 8, longest: int = 16) -> list[int]:
    """Ids of the first sentences of a length that can be looked at; any length where none has it."""
    found, others = [], []
    for record in dump:
        if len(found) == number:
            break
        (found if shortest <= len(record.source) <= longest else others).append(record.id)
    return sorted(found or others[:number])


def add_arguments(parser):
    """Options of the command."""
    parser.add_argument("dump", help="dump folder")
    parser.add_argument("--out", required=True, type=file("--out"), help="JSON file to write")
    parser.add_argument(
        "--sentences",
        default="4",
        help="ids like 3,17, or one number N for N sentences "
        "of 8 to 16 tokens; for one id write it with a comma: 17,",
    )
    parser.add_argument("--types", help="enc-self,dec-self,dec-enc; default: all that were dumped")
    parser.add_argument("--mark", help="heads for Figure 5, like enc-self:0:3,enc-self:2:1")
    parser.add_argument(
        "--heads", metavar="FILE", help="heads.json: mark its rare-word heads, as in the paper"
    )


def run(args):
    """Run the command."""
    from fairseq_headprune.dump import open_dump

    dump = open_dump(args.dump)
    dumped = dump.contents["attention"]
    types = parse_types(args.types) if args.types else tuple(dumped)
    for type in types:
        if type not in dumped:
            raise UserError(
                f"the dump {args.dump} has no {flag(type)} attention: it has {', '.join(map(flag, dumped))}"
            )
    if not types:
        raise UserError(
            f"there is no attention to take: --types is '{args.types}'"
            if dumped
            else f"the dump {args.dump} has no attention: make one with --dump-types"
        )
    ids = _ids(args.sentences, dump)
    marked = [parse_head(text) for text in args.mark.split(",")] if args.mark else []
    if args.heads:
        table = head_table.read(args.heads)
        marked += [h for h in table.of("enc_self") if any(f.kind == "rare" for f in table.functions(h))]
    for head in marked:
        if head.type not in types or (head.layer, head.head) not in dump.head_index[head.type]:
            raise UserError(f"head {head} is to be marked, but the dump {args.dump} has no map of it")
    sentences = [take(dump[id], dump, types) for id in ids]
    files.write_json(
        args.out,
        {
            "provenance": {
                "program": "analysis maps",
                "model": dump.manifest.get("model"),
                "data": dump.manifest.get("data"),
                "sentences": len(dump),
            },
            "marked": [str(head) for head in marked],
            "sentences": [to_json(sentence) for sentence in sentences],
        },
    )
    print(f"{args.out}: {len(sentences)} sentences ({', '.join(map(str, ids))})")


def _ids(text: str, dump) -> list[int]:
    parts = [part for part in text.split(",") if part.strip()]
    if not parts or not all(part.strip().isdecimal() for part in parts):
        raise UserError(f"--sentences {text}: write ids like 3,17, or one number")
    if len(parts) == 1 and "," not in text:
        found = choose(dump, int(text))
        if not found:
            raise UserError(f"--sentences {text}: the dump has no sentence to choose")
        return found
    ids = [int(part) for part in parts]
    for id in ids:
        if id not in dump:
            raise UserError(f"--sentences: the dump has no sentence {id}")
    return ids
