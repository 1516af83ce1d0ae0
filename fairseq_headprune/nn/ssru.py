"""The simpler simple recurrent unit that fast decoders have in place of self-attention.

Kim et al. (2019), "From Research to Production and Back: Ludicrously Fast Neural Machine Translation",
section 3: with f_t = sigmoid(W_f x_t + b_f), c_t = f_t * c_{t-1} + (1 - f_t) * W x_t and c_{-1} = 0,
the output is ReLU(c_t). It has no heads.
"""

import torch
import torch.nn.functional as F
from fairseq.incremental_decoding_utils import with_incremental_state
from torch import Tensor, nn


@with_incremental_state
class SSRU(nn.Module):
    """Stands where a decoder layer has its self-attention, with the same call.

    Query ``[time, batch, channels]`` -> output of that shape, and no weights. What it carries from step
    to step is c_t, one vector a hypothesis. Padding, which decoders have only at the end, is not masked.
    """

    def __init__(self, width: int):
        super().__init__()
        self.num_heads = self.head_dim = 0  # which fairseq's layer reads
        self.forget = nn.Linear(width, width)
        self.value = nn.Linear(width, width, bias=False)
        for linear in (self.forget, self.value):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.forget.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        cell: Tensor | None = None
        if incremental_state is not None:
            cell = self._get_input_buffer(incremental_state)["cell"]
        gate, added = self.gate_and_input(query)
        cells = scan(gate, added, cell)
        if incremental_state is not None:
            self._save(incremental_state, cells[-1])
        return F.relu(cells), None

    def gate_and_input(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """f and (1 - f) * W x, of the shape of ``x``."""
        gate = torch.sigmoid(self.forget(x))
        return gate, (1.0 - gate) * self.value(x)

    def step(self, x: Tensor, cell: Tensor | None) -> Tensor:
        """c_t for one step ``x`` ``[rows, channels]`` after ``cell`` (None: nothing came before)."""
        gate, added = self.gate_and_input(x)
        return added if cell is None else torch.addcmul(added, gate, cell)

    @torch.jit.export
    def reorder_incremental_state(
        self,
        incremental_state: dict[str, dict[str, Tensor | None]] | None,
        new_order: Tensor,
    ):
        """Follow the beams."""
        if incremental_state is not None:
            cell = self._get_input_buffer(incremental_state)["cell"]
            if cell is not None:
                self._save(incremental_state, cell.index_select(0, new_order))
        return incremental_state

    def _get_input_buffer(
        self, incremental_state: dict[str, dict[str, Tensor | None]] | None
    ) -> dict[str, Tensor | None]:
        found = self.get_incremental_state(incremental_state, "ssru")
        if found is not None:
            return found
        empty: dict[str, Tensor | None] = {"cell": None}
        return empty

    def _save(self, incremental_state: dict[str, dict[str, Tensor | None]], cell: Tensor):
        buffer: dict[str, Tensor | None] = {"cell": cell}
        self._set_input_buffer(incremental_state, buffer)

    # fairseq's layer, when scripted, asks for a method of this name
    def _set_input_buffer(
        self,
        incremental_state: dict[str, dict[str, Tensor | None]],
        buffer: dict[str, Tensor | None],
    ):
        return self.set_incremental_state(incremental_state, "ssru", buffer)


def scan(gate: Tensor, added: Tensor, cell: Tensor | None = None) -> Tensor:
    """All c_t = gate_t * c_{t-1} + added_t ``[time, ...]``, from c_{-1} = ``cell`` or 0."""
    cells = []
    for t in range(gate.size(0)):
        cell = added[t] if cell is None else torch.addcmul(added[t], gate[t], cell)
        cells.append(cell)
    return torch.stack(cells)
