"""fairseq-train with a starting file that is cut, hostile or of another size ends with one sentence."""

import pytest
import torch

from fairseq_headprune.base.errors import UserError
from tests.helpers import command_lines


def damaged(kind, tiny, path):
    if kind == "cut":
        data = tiny.checkpoint.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        return path
    state = torch.load(tiny.checkpoint, weights_only=True)
    if kind == "hostile":
        with_text = f"open({str(path.parent / 'ran')!r}, 'w') and 2"
        state["cfg"]["model"] = {"_name": "fconv", "encoder_layers": with_text}
    torch.save(state, path)
    return path


@pytest.mark.parametrize("option", ["--restore-file", "--finetune-from-model"])
@pytest.mark.parametrize(
    "kind, word",
    [("cut", "truncated"), ("hostile", "fconv"), ("sizes", "was trained with --encoder-ffn-embed-dim 32")],
)
def test_training_starts_from_no_such_file(tiny, tmp_path, option, kind, word):
    path = damaged(kind, tiny, tmp_path / "start.pt")
    more = ["--encoder-ffn-embed-dim", "48"] if kind == "sizes" else []
    with pytest.raises(UserError, match=word):
        command_lines.tiny_model(tmp_path / "out", tiny.data, "gated_transformer", option, str(path), *more)
    assert not (tmp_path / "ran").exists()
