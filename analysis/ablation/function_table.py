"""The tables of ``ablate --by-function`` side by side, one way of replacing heads a column."""

from pathlib import Path

from fairseq_headprune.analysis.ablation.by_function import REPLACE
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError


def function_table(folder: Path) -> str:
    """Markdown of every NAME/by_function.json in a folder: change of the loss over all sentences, then the
    contrast of each relation; UserError when there is none."""
    found = [
        files.read_json(path, "a table of ablate --by-function") for path in folder.glob("*/by_function.json")
    ]
    if not found:
        raise UserError(f"{folder} has no folder with a by_function.json")
    found.sort(key=lambda data: REPLACE.index(data["provenance"]["options"]["replace"]))
    rows = [["heads", "sentences", *[data["provenance"]["options"]["replace"] for data in found]]]
    for number, first in enumerate(found[0]["records"]):
        here = [data["records"][number] for data in found]
        if any((r["set"], r["relation"]) != (first["set"], first["relation"]) for r in here):
            raise UserError(f"the tables in {folder} are of different sets: make them with the same options")
        if first["relation"] is None:
            named = f"{first['set']}: {', '.join(first['heads'])}"
            rows.append([named, "all", *[_change(r, "difference", "low", "high") for r in here]])
        else:
            compared = f"{first['relation']}, {first['sentences_with']} / {first['sentences_without']}"
            names = ("contrast", "contrast_low", "contrast_high")
            rows.append(["", compared, *[_change(r, *names) for r in here]])
    return files.markdown(rows, left=2)


def _change(record, name: str, low: str, high: str) -> str:
    if record[name] is None:
        return "–"
    text = f"{record[name]:+.4f} [{record[low]:+.4f}, {record[high]:+.4f}]"
    return text.replace("-", "−")
