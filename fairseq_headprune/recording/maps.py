"""Attention weights of every head while a model runs, for stock, gated and pruned models."""

from contextlib import contextmanager

from torch import Tensor, nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.nn.attention import HeadAttention
from fairseq_headprune.nn.projections import attention_modules
from fairseq_headprune.units.anatomy import PLACES, PROJECTIONS
from fairseq_headprune.units.layout import ATTENTION_TYPES, flag


def like_stock(module: nn.Module) -> HeadAttention:
    """A HeadAttention that shares the parameters of a stock MultiheadAttention."""
    if module.bias_k is not None or module.add_zero_attn or getattr(module, "use_xformers", False):
        raise UserError("attention with bias_kv, zero_attn or xFormers cannot be recorded")
    twin = HeadAttention(
        module.embed_dim,
        module.num_heads,
        range(module.num_heads),
        kdim=module.kdim,
        vdim=module.vdim,
        dropout=module.dropout_module.p,
        bias=module.q_proj.bias is not None,
        self_attention=module.self_attention,
        encoder_decoder_attention=module.encoder_decoder_attention,
    )
    for name in PROJECTIONS:
        setattr(twin, name, getattr(module, name))
    twin._incremental_state_id = module._incremental_state_id
    twin.train(module.training)
    return twin


@contextmanager
def record_attention(model: nn.Module):
    """Record while open: ``maps[type][layer]`` becomes the attention weights of the last call,
    float32 ``[batch, existing heads, queries, keys]``, after softmax and before dropout; padded keys
    hold 0, rows of padded queries are meaningless, and a layer without heads gives no rows.

    Meant for whole sequences (forced decoding). The model computes what it always does.
    """
    modules = attention_modules(model)
    maps: dict[str, _Maps] = {t: _Maps(t, len(modules[t])) for t in ATTENTION_TYPES}
    # a kind without modules is an SSRU's place, which has no map
    owners = [(p.layers(model), p.attribute, key) for key, p in PLACES.items() if modules[key]]
    replaced = []
    try:
        for layers, name, key in owners:
            for number, layer in enumerate(layers):
                module = getattr(layer, name)
                if not isinstance(module, HeadAttention):
                    replaced.append((layer, name, module))
                    module = like_stock(module)
                    setattr(layer, name, module)
                module.recorder = maps[key].slot(number)
        yield maps
    finally:
        for layers, name, _ in owners:
            for layer in layers:
                module = getattr(layer, name)
                if isinstance(module, HeadAttention):
                    module.recorder = None
        for layer, name, module in replaced:
            setattr(layer, name, module)


class _Maps:
    """The recorded weights of one attention type, by layer."""

    def __init__(self, key: str, layers: int):
        self.key = key
        self._slots: list[list[Tensor]] = [[] for _ in range(layers)]

    def slot(self, layer: int) -> list[Tensor]:
        """The list that the module of this layer appends to."""
        return self._slots[layer]

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, layer: int) -> Tensor:
        if not self._slots[layer]:
            raise LookupError(f"no forward pass was recorded for {flag(self.key)} layer {layer}")
        return self._slots[layer][-1]

    def __iter__(self):
        return (self[layer] for layer in range(len(self)))
