"""Layer-wise relevance propagation one sentence, one start and one neuron at a time, from the
definitions: contribution matrices written out, Jacobians of attention by automatic differentiation.

Everything is numpy in float64. ``Layer rules`` below are dictionaries of functions, so that the walk
down the network is written once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from fairseq_headprune.nn.projections import projections

E21, E19 = 1e-5, 1e-7


def array(tensor):
    return None if tensor is None else tensor.detach().double().numpy()


# -- alpha-beta ---------------------------------------------------------------------


def shares_alpha_beta(z):
    """z[j, i] -> share[j, i]: half for positive, half for negative contributions."""
    share = np.zeros_like(z)
    for j, inputs in enumerate(z):
        positive, negative = inputs[inputs > 0], inputs[inputs < 0]
        share[j, inputs > 0] = 0.5 * positive / (positive.sum() + E21)
        share[j, inputs < 0] = 0.5 * negative / (negative.sum() - E21)
    return share


def give_alpha_beta(R, z):
    """R~_i = sum_j R_j share_ji, rescaled to sum_j |R_j|."""
    raw = shares_alpha_beta(z).T @ R
    return raw * np.abs(R).sum() / (np.abs(raw).sum() + E21)


def rescale(R, *parts, eps):
    """The parts with one common factor that restores sum |R|."""
    total = sum(np.abs(part).sum() for part in parts)
    return [part * np.abs(R).sum() / (total + eps) for part in parts]


def linear_alpha_beta(R, x, weight, bias):
    n = x.shape[-1]
    spread = 0 if bias is None else bias[:, None] / n
    out = np.stack([give_alpha_beta(R[t], weight * x[t] + spread) for t in range(len(x))])
    return rescale(R, out, eps=E21)[0]


def norm_alpha_beta(R, x, g, b, eps):
    h = x.shape[-1]
    out = []
    for t in range(len(x)):
        c = x[t] - x[t].mean()
        v = (c**2).mean()
        A = np.eye(h) / np.sqrt(v) - np.outer(c, c) * (v + eps) ** -1.5 / h
        J = g[:, None] * (A - A.mean(1, keepdims=True))
        out.append(give_alpha_beta(R[t], J * x[t] + b[:, None] / h))
    return rescale(R, np.stack(out), eps=E21)[0]


def add_alpha_beta(R, x, u):
    skip, update = np.zeros_like(R), np.zeros_like(R)
    for t in range(len(x)):
        for j in range(x.shape[1]):
            share = shares_alpha_beta(np.array([[x[t, j], u[t, j]]]))[0]
            skip[t, j], update[t, j] = R[t, j] * share
        skip[t], update[t] = rescale(R[t], skip[t], update[t], eps=E21)
    return tuple(part * np.abs(part).sum() / (np.abs(part).sum() + E21) for part in (skip, update))


def attention_alpha_beta(R, heads, mode):
    """R and the result per head: lists of [T, d] arrays."""
    back = []
    for R_k, head in zip(R, heads):
        z = []
        for x, J in zip(head.inputs, head.jacobians):
            constant = mode == "values" and x is not head.v
            z.append(0 * J if constant else J * x.ravel())
        flat = give_alpha_beta(R_k.ravel(), np.concatenate(z, axis=1))
        parts = np.split(flat, np.cumsum([x.size for x in head.inputs])[:-1])
        back.append([part.reshape(x.shape) for part, x in zip(parts, head.inputs)])
    whole = rescale(np.concatenate([r.ravel() for r in R]), *[p for parts in back for p in parts], eps=E21)
    return [whole[i : i + 3] for i in range(0, len(whole), 3)]


def close_block(R_out, R_query, R_memory):
    if R_memory is None:
        return R_query, None
    total = np.abs(R_query).sum() + np.abs(R_memory).sum()
    factor = np.abs(R_out).sum() / total if total else 0.0
    return R_query * factor, R_memory * factor


# -- z-plus -------------------------------------------------------------------------


def rescale_z_plus(R, *parts):
    total = sum(np.abs(part).sum() for part in parts)
    return [np.abs(part) * R.sum() / (total + E19) for part in parts]


def linear_z_plus(R, x, weight, bias):
    x = x + E19
    W = np.maximum(weight, E19)
    out = np.zeros_like(x)
    for t in range(len(x)):
        for j in range(len(W)):
            out[t] += x[t] * W[j] * R[t, j] / (x[t] * W[j]).sum()
    return rescale_z_plus(R, out)[0]


def add_z_plus(R, x, u):
    x, u = x + E19, u + E19
    return rescale_z_plus(R, x * R / (x + u), u * R / (x + u))


def attention_z_plus(R, heads, mode):
    back = []
    for R_k, head in zip(R, heads):
        q, k, v = (torch.from_numpy(x + E19).requires_grad_() for x in head.inputs)
        o = attend(q, k, v, head.mask)
        S = torch.from_numpy(R_k) / o.detach()
        grads = torch.autograd.grad((S * o).sum(), (q, k, v))
        parts = [(x * g).detach().numpy() for x, g in zip((q, k, v), grads)]
        if mode == "values":
            parts[0], parts[1] = 0 * parts[0], 0 * parts[1]
        back.append(parts)
    whole = rescale_z_plus(np.concatenate([r.ravel() for r in R]), *[p for parts in back for p in parts])
    return [whole[i : i + 3] for i in range(0, len(whole), 3)]


# -- epsilon ------------------------------------------------------------------------


def make_epsilon(eps):
    def stable(y):
        return y + (eps if y >= 0 else -eps)

    def linear(R, x, weight, bias):
        out = np.zeros_like(x)
        for t in range(len(x)):
            for j in range(len(weight)):
                y = weight[j] @ x[t] + (0 if bias is None else bias[j])
                out[t] += weight[j] * x[t] * R[t, j] / stable(y)
        return out

    def add(R, x, u):
        y = np.vectorize(stable)(x + u)
        return x * R / y, u * R / y

    def attention(R, heads, mode):
        back = []
        for R_k, head in zip(R, heads):
            q, k, v = head.inputs
            A = weights(torch.from_numpy(q), torch.from_numpy(k), head.mask).numpy()
            R_v = np.zeros_like(v)
            for i in range(len(q)):
                for c in range(v.shape[1]):
                    R_v[:, c] += A[i] * v[:, c] * R_k[i, c] / stable(A[i] @ v[:, c])
            back.append([0 * q, 0 * k, R_v])
        return back

    return dict(
        linear=linear,
        norm=lambda R, x, g, b, eps: R,
        add=add,
        attention=attention,
        constant=lambda R, x, u: add(R, x, u)[0],
        close=lambda R_out, R_query, R_memory: (R_query, R_memory),
    )


def make_appendix_a2(eps):
    """Definition 3, one product and one sum at a time; everything is a neuron but the weights."""
    bare = make_epsilon(eps)

    def stable(y):
        return y + (eps if y >= 0 else -eps)

    def of_product(r, u, other):
        return r * u / stable(u + other)

    def attention(R, heads, mode):
        if mode == "values":
            return bare["attention"](R, heads, mode)
        back = []
        for R_o, head in zip(R, heads):
            q, k, v = head.inputs
            A = weights(torch.from_numpy(q), torch.from_numpy(k), head.mask).numpy()
            R_q, R_k, R_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
            for i in range(len(q)):
                R_A = np.zeros(len(k))
                for c in range(v.shape[1]):
                    products = [A[i, j] * v[j, c] for j in range(len(k))]
                    for j, product in enumerate(products):
                        r = product * R_o[i, c] / stable(sum(products))
                        R_A[j] += of_product(r, A[i, j], v[j, c])
                        R_v[j, c] += of_product(r, v[j, c], A[i, j])
                for j, r_score in enumerate(R_A):  # softmax is ignored
                    products = q[i] * k[j]
                    for a, product in enumerate(products):
                        r = product * r_score / stable(products.sum())
                        R_q[i, a] += of_product(r, q[i, a], k[j, a])
                        R_k[j, a] += of_product(r, k[j, a], q[i, a])
            back.append([R_q, R_k, R_v])
        return back

    return {
        **bare,
        "linear": lambda R, x, weight, bias: bare["linear"](R, x, weight, None),
        "attention": attention,
        "constant": lambda R, x, u: R,
    }


ALPHA_BETA = dict(
    linear=linear_alpha_beta,
    norm=norm_alpha_beta,
    add=add_alpha_beta,
    attention=attention_alpha_beta,
    constant=lambda R, x, u: R,
    close=close_block,
)
Z_PLUS = dict(
    linear=linear_z_plus,
    norm=lambda R, x, g, b, eps: R,
    add=add_z_plus,
    attention=attention_z_plus,
    constant=lambda R, x, u: R,
    close=close_block,
)

# -- the network --------------------------------------------------------------------


def weights(q, k, mask):
    scores = q @ k.T / q.shape[1] ** 0.5
    return torch.softmax(scores.masked_fill(torch.from_numpy(mask), float("-inf")), dim=-1)


def attend(q, k, v, mask):
    """One head: [queries, d], [keys, d], [keys, d], true in ``mask`` where a key is hidden."""
    return weights(q, k, mask) @ v


def layer_norm(x, module):
    c = x - x.mean(-1, keepdims=True)
    v = (c**2).mean(-1, keepdims=True)
    return array(module.weight) * c / np.sqrt(v + module.eps) + array(module.bias)


@dataclass
class OneHead:
    """q [queries, d], k and v [keys, d], and what each query may not see [queries, keys]."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    mask: np.ndarray

    @property
    def inputs(self):
        return self.q, self.k, self.v

    @cached_property
    def jacobians(self):
        """d output / d (q, k, v), each [queries * d, size of the input]."""
        found = torch.autograd.functional.jacobian(
            lambda q, k, v: attend(q, k, v, self.mask).flatten(),
            tuple(map(torch.from_numpy, self.inputs)),
        )
        return [J.flatten(1).numpy() for J in found]


class Walk:
    """Forward through one sentence, remembering how to come back."""

    def __init__(self, model, src, prev):
        self.model, self.heads = model, {}
        encoder, decoder = model.encoder, model.decoder
        x = array(encoder.forward_embedding(src[None])[1])[0]
        if encoder.embed_positions is not None:
            x = x + array(encoder.embed_positions(src[None]))[0]
        self.encoder_steps = []
        self.memory = self.stack(self.encoder_steps, x, encoder, None)
        x = array(decoder.embed_tokens(prev[None]).double() * decoder.embed_scale)[0]
        if decoder.project_in_dim is not None:
            x = x @ array(decoder.project_in_dim.weight).T
        if decoder.embed_positions is not None:
            x = x + array(decoder.embed_positions(prev[None]))[0]
        self.decoder_steps = []
        x = self.stack(self.decoder_steps, x, decoder, self.memory)
        if decoder.project_out_dim is not None:
            weight = array(decoder.project_out_dim.weight)
            self.decoder_steps.append(("linear", x, weight, None))
            x = x @ weight.T
        self.features, self.output = x, array(decoder.output_projection.weight)
        self.bias = array(decoder.output_projection.bias)
        self.logits = x @ self.output.T + (0 if self.bias is None else self.bias)

    def stack(self, steps, x, stack, memory):
        def norm(x, module):
            if module is None:
                return x
            steps.append(("norm", x, array(module.weight), array(module.bias), module.eps))
            return layer_norm(x, module)

        x = norm(x, stack.layernorm_embedding)
        for number, layer in enumerate(stack.layers):
            key = "enc_self" if memory is None else "dec_self"
            x = self.block(steps, x, layer, layer.self_attn_layer_norm, key, number, None)
            if memory is not None:
                x = self.block(steps, x, layer, layer.encoder_attn_layer_norm, "dec_enc", number, memory)
            x = self.block(steps, x, layer, layer.final_layer_norm, None, number, None)
        return norm(x, stack.layer_norm)

    def block(self, steps, x, layer, norm, key, number, memory):
        pre = layer.normalize_before
        inner = layer_norm(x, norm) if pre else x
        if key is None:
            inside, u = self.feed_forward(inner, layer)
        elif hasattr(layer.self_attn, "forget") and key == "dec_self":
            inside, u = self.ssru(inner, layer.self_attn)
        else:
            module = layer.encoder_attn if key == "dec_enc" else layer.self_attn
            inside, u = self.attention(inner, module, key, number, memory)
        steps.append(("block", x, u, inside, norm, pre))
        return x + u if pre else layer_norm(x + u, norm)

    def feed_forward(self, x, layer):
        W1, b1, W2, b2 = map(array, (layer.fc1.weight, layer.fc1.bias, layer.fc2.weight, layer.fc2.bias))
        hidden = layer.activation_fn(torch.from_numpy(x @ W1.T + b1)).numpy()
        return ("ffn", x, hidden, W1, b1, W2, b2), hidden @ W2.T + b2

    def ssru(self, x, module):
        Wf, bf, W = map(array, (module.forget.weight, module.forget.bias, module.value.weight))
        c, kept, added = np.zeros(len(W)), [], []
        for t in range(len(x)):
            f = 1 / (1 + np.exp(-(Wf @ x[t] + bf)))
            kept.append(f * c)
            added.append((1 - f) * (W @ x[t]))
            c = kept[t] + added[t]
        u = np.maximum(np.stack(kept) + np.stack(added), 0)
        return ("ssru", x, kept, added, W), u

    def ssru_back(self, R, rule, inside):
        """c_t's relevance to f c_{t-1} and (1 - f) W x_t; what the latter get goes on to x."""
        _, x, kept, added, W = inside
        R_cell, R_added = R.copy(), np.zeros_like(R)
        for t in reversed(range(len(x))):
            if t == 0:
                R_added[t] = R_cell[t]
                continue
            back, own = rule["add"](R_cell[t : t + 1], kept[t][None], added[t][None])
            R_cell[t - 1] += back[0]
            R_added[t] = own[0]
        return rule["linear"](R_added, x, W, None)

    def attention(self, x, module, key, number, memory):
        p = projections(module)
        seen = x if memory is None else memory

        def project(x, weight, bias):
            return x @ array(weight).T + (0 if bias is None else array(bias))

        q = project(x, p.query_weight, p.query_bias)
        k = project(seen, p.key_weight, p.key_bias)
        v = project(seen, p.value_weight, p.value_bias)
        mask = np.zeros((len(x), len(seen)), dtype=bool)
        if key == "dec_self":
            mask = np.triu(np.ones_like(mask), 1)
        d = p.head_dim
        heads = [
            OneHead(*(y[:, i * d : (i + 1) * d].copy() for y in (q, k, v)), mask) for i in range(len(p.heads))
        ]
        parts = [attend(*map(torch.from_numpy, h.inputs), mask).numpy() for h in heads]
        concat = np.concatenate(parts, axis=1) if parts else np.zeros((len(x), 0))
        u = project(concat, p.out_weight, p.out_bias)
        return ("attention", x, memory, heads, concat, p, key, number), u

    def back(self, t, token, rule, mode):
        """Relevance of heads {(type, layer, head): value} and of source and target tokens."""
        self.found, self.R_memory = {}, 0 * self.memory
        R = np.zeros((len(self.features), len(self.output)))
        R[t, token] = 1.0
        R = rule["linear"](R, self.features, self.output, self.bias)
        target = self.down(R, self.decoder_steps, rule, mode)
        source = self.down(self.R_memory, self.encoder_steps, rule, mode)
        return self.found, source.sum(-1), target.sum(-1)

    def down(self, R, steps, rule, mode):
        for kind, *step in reversed(steps):
            if kind == "norm":
                R = rule["norm"](R, *step)
            elif kind == "linear":
                R = rule["linear"](R, *step)
            else:
                R = self.block_back(R, rule, mode, *step)
        return R

    def block_back(self, R, rule, mode, x, u, inside, norm, pre):
        def through_norm(R, x):
            return rule["norm"](R, x, array(norm.weight), array(norm.bias), norm.eps)

        arrived, R_memory = R, None
        if not pre:
            R = through_norm(R, x + u)
        if inside[0] == "attention" and not inside[3]:
            return rule["constant"](R, x, u)
        skip, R = rule["add"](R, x, u)
        if inside[0] == "ffn":
            _, inner, hidden, W1, b1, W2, b2 = inside
            R = rule["linear"](R, hidden, W2, b2)
            R = rule["linear"](R, inner, W1, b1)
        elif inside[0] == "ssru":
            R = self.ssru_back(R, rule, inside)
        else:
            R, R_memory = self.attention_back(R, rule, mode, inside)
        if pre:
            R = through_norm(R, x)
        R, R_memory = rule["close"](arrived, R + skip, R_memory)
        if R_memory is not None:
            self.R_memory = self.R_memory + R_memory
        return R

    def attention_back(self, R, rule, mode, inside):
        _, x, memory, heads, concat, p, key, number = inside
        R = rule["linear"](R, concat, array(p.out_weight), array(p.out_bias))
        R = np.split(R, len(heads), axis=1)
        for name, part in zip(p.heads, R):
            self.found[key, number, name] = part.sum()
        parts = rule["attention"](R, heads, mode)
        R_q, R_k, R_v = (np.concatenate([part[i] for part in parts], axis=1) for i in range(3))

        def through(R, x, names):
            W = np.concatenate([array(getattr(p, f"{name}_weight")) for name in names])
            biases = [getattr(p, f"{name}_bias") for name in names]
            b = None if biases[0] is None else np.concatenate([array(b) for b in biases])
            return rule["linear"](R, x, W, b)

        if memory is None:
            R = np.concatenate([R_q, R_k, R_v], axis=1)
            return through(R, x, ("query", "key", "value")), None
        R_memory = through(np.concatenate([R_k, R_v], axis=1), memory, ("key", "value"))
        return through(R_q, x, ("query",)), R_memory


@torch.no_grad()
def forward(model, src, prev):
    """Logits [steps, vocabulary] of one sentence without padding."""
    return Walk(model, src, prev).logits


def head_relevance(model, src, prev, tokens, rule, mode):
    """One sentence without padding; ``tokens[t]`` is the token explained at step t.

    Returns {(type, layer, head): [steps]}, source [steps, source], target [steps, steps].
    """
    with torch.no_grad():
        walk = Walk(model, src, prev)
    with torch.enable_grad():
        results = [walk.back(t, int(tokens[t]), rule, mode) for t in range(len(prev))]
    heads = {head: np.array([found.get(head, 0.0) for found, _, _ in results]) for head in results[0][0]}
    return heads, np.stack([s for _, s, _ in results]), np.stack([t for _, _, t in results])
