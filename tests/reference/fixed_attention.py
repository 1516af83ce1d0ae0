"""Attention of which some heads do not choose where to look, head by head and query by query."""

import torch


def where(offset, query, keys, first):
    """The key a head at this offset takes: the nearest there is to query + offset, counted from ``first``."""
    best = None
    for key in keys:
        if best is None or abs(key - first - query - offset) < abs(best - first - query - offset):
            best = key
    return best


def fixed_attention(module, query, key, fixed, padding=None, causal=False, cross=False):
    """``[T, B, C]`` from the module's weights. ``fixed``: head -> offset, or None for equal weights; heads
    that it does not name attend as they do. Rows of padded queries are left 0."""
    q = query @ module.q_proj.weight.T + module.q_proj.bias
    k = key @ module.k_proj.weight.T + module.k_proj.bias
    v = key @ module.v_proj.weight.T + module.v_proj.bias
    d = module.head_dim
    result = torch.zeros_like(query)
    for b in range(query.size(1)):
        for i in range(query.size(0)):
            if not cross and padding is not None and padding[b, i]:
                continue
            real = [j for j in range(key.size(0)) if padding is None or not padding[b, j]]
            keys = [j for j in real if not (causal and j > i)]
            row = module.out_proj.bias.clone()
            for place, head in enumerate(getattr(module, "heads", range(module.num_heads))):
                columns = slice(place * d, (place + 1) * d)
                if head not in fixed:
                    scores = torch.stack([(q[i, b, columns] * k[j, b, columns]).sum() / d**0.5 for j in keys])
                    weights = torch.softmax(scores, 0).tolist()
                elif fixed[head] is None:
                    weights = [1 / len(keys)] * len(keys)
                else:
                    chosen = where(fixed[head], i, keys, real[0] if cross else 0)
                    weights = [float(j == chosen) for j in keys]
                context = sum(w * v[j, b, columns] for w, j in zip(weights, keys))
                row += module.out_proj.weight[:, columns] @ context
            result[i, b] = row
    return result
