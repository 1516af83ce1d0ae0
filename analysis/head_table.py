"""Reading heads.json, checked once so that whatever draws or compares it can rely on its form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairseq_headprune.analysis.roles.heads import Function
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head

REQUIRED = ("type", "layer", "head", "confidence", "positional", "functions")


def _number(value) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _index(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _object(value) -> bool:
    return value is None or isinstance(value, dict)


def _functions(value) -> bool:
    return isinstance(value, list) and all(
        isinstance(text, str) and text.split()[:1] and text.split()[0] in KINDS and len(text.split()) < 4
        for text in value
    )


KINDS = ("positional", "syntactic", "rare")
FORMS = {
    "layer": _index,
    "head": _index,
    "confidence": _number,
    "relevance": _number,
    "positional": _object,
    "syntactic": lambda value: _object(value) and all(map(_object, (value or {}).values())),
    "rare": _object,
    "functions": _functions,
}
"""Key of a record -> whether a value has its form."""


@dataclass(frozen=True)
class HeadTable:
    """One model's heads.json under a name that figures and tables call it by."""

    label: str
    path: str
    provenance: Mapping[str, Any]
    relations: Mapping[str, Any] | None
    records: dict[Head, Mapping[str, Any]]
    """By head, in the order of the file."""

    def of(self, type: str) -> dict[Head, Mapping[str, Any]]:
        """The records of one type."""
        return {head: record for head, record in self.records.items() if head.type == type}

    def types(self) -> tuple[str, ...]:
        """The types that have records."""
        return tuple(t for t in ATTENTION_TYPES if self.of(t))

    def layers(self, type: str) -> int:
        """Number of layers, those without heads included."""
        layout = self.provenance.get("layout") or {}
        return max([len(layout.get(type, []))] + [head.layer + 1 for head in self.of(type)])

    def sorted_layer(self, type: str, layer: int, by: str = "relevance") -> list[Head]:
        """Heads of a layer, the largest value of ``by`` first; without values, by number."""
        heads = [head for head in self.of(type) if head.layer == layer]
        return sorted(heads, key=lambda h: (-(self.records[h].get(by) or 0), h.head))

    def functions(self, head: Head) -> list[Function]:
        """What the head does."""
        return [Function.parse(text) for text in self.records[head]["functions"]]

    def tests(self) -> list[Mapping[str, Any]]:
        """Every encoder head on every relation in both directions: all that a best one was chosen from."""
        return [
            measured
            for record in self.of("enc_self").values()
            for directions in (record.get("syntactic") or {}).values()
            for measured in directions.values()
            if measured["gain"] is not None
        ]

    def best(self, relation: str, direction: str) -> tuple[Head, Mapping[str, Any]] | None:
        """The encoder head with the highest accuracy on a relation, and its measures."""
        found = []
        for head, record in self.of("enc_self").items():
            measured = ((record.get("syntactic") or {}).get(relation) or {}).get(direction)
            if measured and measured["accuracy"] is not None:
                found.append((measured["accuracy"], head, measured))
        if not found:
            return None
        _, head, measured = max(found, key=lambda item: (item[0], [-n for n in item[1][1:]]))
        return head, measured


def split_label(text: str) -> tuple[str, str]:
    """``en-de=FILE`` -> ("en-de", "FILE"); without a name the folder gives it."""
    label, equals, path = text.partition("=")
    if equals and label and "/" not in label:
        return label, path
    parts = [part for part in text.split("/") if part not in ("", ".", "..")]
    return (parts[-2] if len(parts) > 1 else parts[-1] if parts else text), text


def read(text: str) -> HeadTable:
    """Read ``LABEL=FILE`` or ``FILE``; UserError when it is no heads.json."""
    label, path = split_label(text)
    data = files.read_json(path, "a heads.json")
    if not isinstance(data, dict) or not isinstance(data.get("heads"), list) or not data["heads"]:
        raise UserError(f"{path} is not a heads.json of `analysis roles`: it has no 'heads'")
    records = {}
    for number, record in enumerate(data["heads"]):
        missing = [key for key in REQUIRED if not isinstance(record, dict) or key not in record]
        if missing:
            raise UserError(f"{path}: record {number} of 'heads' lacks '{missing[0]}'")
        if record["type"] not in ATTENTION_TYPES:
            raise UserError(f"{path}: record {number} of 'heads' has the unknown type '{record['type']}'")
        wrong = next((key for key, good in FORMS.items() if not good(record.get(key))), None)
        if wrong:
            raise UserError(
                f"{path}: record {number} of 'heads' has a '{wrong}' that `analysis roles` does not "
                "write: make the file anew"
            )
        records[Head(record["type"], record["layer"], record["head"])] = record
    about, relations = data.get("provenance") or {}, data.get("relations")
    if not isinstance(about, dict) or not isinstance(relations or {}, dict):
        raise UserError(f"{path}: 'provenance' and 'relations' must be objects: make the file anew")
    return HeadTable(label, path, about, relations, records)


def read_all(texts) -> list[HeadTable]:
    """Several of them; UserError when two have the same name."""
    tables = [read(text) for text in texts]
    labels = [table.label for table in tables]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"two tables are called '{label}': name them, e.g. de={tables[0].path}")
    return tables
