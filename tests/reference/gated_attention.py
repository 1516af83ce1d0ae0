"""Attention with gates, head by head and query by query, straight from section 6.1."""

import torch


def gated_attention(module, query, key, gate, padding=None, causal=False):
    """``[T, B, C]`` from the module's weights: concat(g_i * head_i) W_O + b."""
    q = query @ module.q_proj.weight.T + module.q_proj.bias
    k = key @ module.k_proj.weight.T + module.k_proj.bias
    v = key @ module.v_proj.weight.T + module.v_proj.bias
    d = module.head_dim
    out = torch.zeros(query.size(0), query.size(1), module.num_heads * d, dtype=query.dtype)
    for b in range(query.size(1)):
        for h in range(module.num_heads):
            columns = slice(h * d, (h + 1) * d)
            for i in range(query.size(0)):
                scores = []
                for j in range(key.size(0)):
                    hidden = (padding is not None and bool(padding[b, j])) or (causal and j > i)
                    score = (q[i, b, columns] * k[j, b, columns]).sum() / d**0.5
                    scores.append(torch.tensor(float("-inf"), dtype=q.dtype) if hidden else score)
                weights = torch.softmax(torch.stack(scores), dim=0)
                head = sum(w * v[j, b, columns] for j, w in enumerate(weights))
                out[i, b, columns] = gate[h] * head
    return out @ module.out_proj.weight.T + module.out_proj.bias
