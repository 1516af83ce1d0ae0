"""``alpha-beta``: the rules of the authors' code of June 2021, each sentence by itself.

A layer is described by contributions z_ji of input i to output j: Jacobian times input, plus the
output at the all-zero input spread evenly over the n inputs. Positive and negative contributions
share half of the relevance each (e = 1e-5):

    share_ji = 1/2 z+_ji / (sum_i z+_ji + e)  +  1/2 z-_ji / (sum_i z-_ji - e)

and after every layer a factor restores the total, first within each token (head, for attention),
then within the sentence. Shares are positive, so relevance is, and absolute values can be left out.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fairseq_headprune.lrp.forward import Attention
from fairseq_headprune.lrp.network import Norm
from fairseq_headprune.lrp.rules import Rule, ratio

E = 1e-5


class AlphaBeta(Rule):
    """alpha = beta = 1/2 over Jacobian-times-input contributions."""

    name = "alpha-beta"

    def linear(self, R: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # z_ji = W_ji x_i + b_j / n: the bias is inside the positive and negative parts, so z has to be
        # formed for every token (all starts share it)
        n = x.shape[-1]
        x = x.flatten(0, 1).unsqueeze(1).to(self.share_dtype)
        weight = weight.to(self.share_dtype)
        spread = None if bias is None else (bias / n).unsqueeze(-1).to(self.share_dtype)

        def blocks(rows: slice, step: int, scratch: Tensor) -> Iterator[Tensor]:
            if weight.dim() > 2:
                own = weight.flatten(0, 1)[:, rows]
                more = torch.zeros_like(own[..., :1]) if spread is None else spread.flatten(0, 1)[:, rows]
                for w, b, mine in zip(own.split(step), more.split(step), x.split(step)):
                    yield torch.addcmul(b, w, mine)
                return
            w, b = weight[rows], None if spread is None else spread[rows]
            for mine in x.split(step):
                out = scratch[: len(mine)]
                yield torch.mul(w, mine, out=out) if b is None else torch.addcmul(b, w, mine, out=out)

        return self._redistribute(R, n, blocks)

    def norm(self, R: Tensor, x: Tensor, norm: Norm) -> Tensor:
        # J_ji = g_j (A_ji - mean_i A_ji), A_ji = delta_ij v^-1/2 - c_j c_i (v + eps)^-3/2 / h:
        # z_ji = J_ji x_i + b_j / h is a sum of three outer products and a diagonal.
        # v^-1/2 lacks eps, as in the authors' code.
        h = x.shape[-1]
        x = x.flatten(0, 1)
        c = x - x.mean(-1, keepdim=True)
        v = c.square().mean(-1, keepdim=True)
        r = torch.where(v > 0, v, norm.eps).rsqrt()
        slope = (v + norm.eps).pow(-1.5) / h
        g = norm.weight
        left = torch.stack([g * c, g.expand_as(c), (norm.bias / h).expand_as(c)], dim=-1)
        right = torch.stack([-slope * c * x, -r * x / h, torch.ones_like(c)], dim=-2)
        left, right, diagonal = (part.to(self.share_dtype) for part in (left, right, g * r * x))

        def blocks(rows: slice, step: int, scratch: Tensor) -> Iterator[Tensor]:
            for of_output, of_input, own in zip(
                left[:, rows].split(step), right.split(step), diagonal[:, rows].split(step)
            ):
                z = torch.bmm(of_output, of_input, out=scratch[: len(own)])
                z.diagonal(rows.start, 1, 2).add_(own)
                yield z

        return self._redistribute(R, h, blocks)

    def add(self, R: Tensor, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.stack([x, u])
        positive = z.clamp_min(0).sum(0) + E
        negative = z.clamp_max(0).sum(0) - E
        share = torch.where(z > 0, z / positive, z / negative).mul_(0.5)
        raw = R * share.unsqueeze(3)  # [2, B, T, S, n]
        has = raw.sum(-1)
        factor = R.sum(-1) / (has.sum(0) + E)
        # the authors' helper rescales each branch once more, which only leaks
        total = (has * factor).sum(2, keepdim=True)
        skip, update = raw.mul_((factor * (total / (total + E))).unsqueeze(-1))
        return skip, update

    def add_constant(self, R: Tensor, x: Tensor, constant: Tensor | None) -> Tensor:
        # a constant is no input: what it would get goes with the skip connection
        return R

    def attention(self, R: Tensor, a: Attention, mode: str):
        queries, keys = a.weights.shape[2:]
        step = max(1, self.chunk_size // (a.context[:, :, 0].numel() * keys))
        parts = [
            _attention(R[:, :, rows], a.of_queries(rows), mode)
            for rows in (slice(first, first + step) for first in range(0, queries, step))
        ]
        R_q, R_k, R_v = zip(*parts)
        if mode == "values":
            return _restore_heads(R, [_sum(R_v)])
        return _restore_heads(R, [torch.cat(R_q, dim=2), _sum(R_k), _sum(R_v)])

    def balance(self, R: Tensor, R_query: Tensor, R_memory: Tensor) -> tuple[Tensor, Tensor]:
        total = R_query.sum((1, 3)) + R_memory.sum((1, 3))
        factor = ratio(R.sum((1, 3)), total)[:, None, :, None]
        return R_query * factor, R_memory * factor

    def _redistribute(self, R: Tensor, n: int, blocks) -> Tensor:
        """Relevance of the n inputs of every token, from R ``[B, T, S, out]``.

        blocks(rows, step, scratch) gives z_ji of the outputs j in ``rows``, ``step`` tokens at a time:
        each ``[step, rows, n]``, free to be overwritten, perhaps in ``scratch``, room for one. They are
        small enough to stay in the cache while they are worked on.
        """
        B, T, S, out = R.shape
        flat = R.reshape(B * T, S, out).to(self.share_dtype)
        raw = flat.new_empty(B * T, S, n)
        block = min(self.block_size, self.chunk_size // 2)  # there are two of them
        height = min(out, max(1, block // n))
        step = min(B * T, max(1, block // (height * n)))
        scratch, other = flat.new_empty(2, step, height, n)
        for first in range(0, out, height):
            rows = slice(first, min(first + height, out))
            room = scratch[:, : rows.stop - first]
            parts = zip(flat[:, :, rows].split(step), raw.split(step))
            for z, (mine, given) in zip(blocks(rows, step, room), parts):
                divisor, z = _shares(z, other[: len(z), : z.shape[1]])
                mine = mine / divisor.mT
                if first:
                    given.baddbmm_(mine, z)
                else:
                    torch.bmm(mine, z, out=given)
        return _restore(R, raw.view(B, T, S, n))


def _shares(z: Tensor, scratch: Tensor) -> tuple[Tensor, Tensor]:
    """(divisor_j, numerator_ji) of twice share_ji, from contributions z_ji over the last axis.

    The numerator is z_ji where that is positive, and else z_ji times a negative number; so it is the
    greater of the two everywhere. Both arguments are overwritten.
    """
    total = z.sum(-1, keepdim=True)
    divisor = torch.clamp_min(z, 0, out=scratch).sum(-1, keepdim=True).add_(E)  # sum z+ + e
    negative = total.sub_(divisor).clamp_max_(-E)  # sum z- - e; rounding must not make it more
    ratio = divisor / negative
    return divisor, torch.maximum(z, torch.mul(z, ratio, out=scratch), out=z)


def _attention(R: Tensor, a: Attention, mode: str):
    """R at (q, k, v) before any factor; None for q and k in mode "values"."""
    # o_ic = sum_j A_ij v_jc. Contributions to it, with s = 1/sqrt(d):
    #   values   A_ij v_jc
    #   keys     s G_icj q_ia k_ja        G_icj = d o_ic / d score_ij = A_ij (v_jc - o_ic)
    #   queries  q_ia M_ica               M_ica = s sum_j G_icj k_ja
    A, q, k, v = a.weights, a.q * a.scaling, a.k, a.v
    G = M = None
    positive, negative = A @ v.clamp_min(0), A @ v.clamp_max(0)  # [B, K, queries, c]
    if mode == "full":
        G = (v.mT.unsqueeze(2) - a.context.unsqueeze(-1)).mul_(A.unsqueeze(3))
        M = (G.flatten(2, 3) @ k).view(*G.shape[:-1], -1).mul_(q.unsqueeze(-2))
        by_keys = _key_sums(G, q, k)
        positive = positive + M.clamp_min(0).sum(-1) + by_keys[0]
        negative = negative + M.clamp_max(0).sum(-1) + by_keys[1]
    # share = a z+ + b z- = (a + b)/2 z + (a - b)/2 |z|, and |z| factorises as z does
    to_positive = (0.5 / (positive + E)).masked_fill_(positive == 0, 0)
    to_negative = (0.5 / (negative - E)).masked_fill_(negative == 0, 0)
    signed = R * (0.5 * (to_positive + to_negative)).unsqueeze(3)
    absolute = R * (0.5 * (to_positive - to_negative)).unsqueeze(3)
    parts = _give(signed, A, G, M, q, k, v)
    more = _give(absolute, A, *(None if x is None else x.abs() for x in (G, M, q, k, v)))
    return tuple(None if x is None else x.add_(y) for x, y in zip(parts, more))


def _sum(parts) -> Tensor:
    """Sum of tensors, of which the first is overwritten."""
    for part in parts[1:]:
        parts[0].add_(part)
    return parts[0]


def _key_sums(G: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over keys j and channels a of the positive and of the negative G_icj q_ia k_ja.

    The sign of the product is that of G times that of q k, so the sum over a comes first.
    """
    q_pos, q_neg, k_pos, k_neg = q.clamp_min(0), q.clamp_max(0), k.clamp_min(0), k.clamp_max(0)
    qk_pos = (q_pos @ k_pos.mT).add_(q_neg @ k_neg.mT).unsqueeze(3)
    qk_neg = (q_pos @ k_neg.mT).add_(q_neg @ k_pos.mT).unsqueeze(3)
    G_pos, G_neg = G.clamp_min(0), G.clamp_max(0)
    return (
        (G_pos * qk_pos).addcmul_(G_neg, qk_neg).sum(-1),
        (G_pos * qk_neg).addcmul_(G_neg, qk_pos).sum(-1),
    )


def _give(R, A, G, M, q, k, v):
    """What queries, keys and values get (values alone without G): sums over outputs of R times
    contribution.

    R is ``[B, K, queries, S, c]``; the parts are ``[B, K, tokens, S, d]``.
    """
    B, K, _, S, _ = R.shape
    # one matrix a head: rows are queries, columns starts and channels
    R_v = (A.mT @ R.flatten(3)).view(B, K, -1, S, v.shape[-1]).mul_(v.unsqueeze(3))
    if G is None:
        return None, None, R_v
    to_keys = (q.mT @ (R @ G).flatten(3)).view(B, K, -1, S, k.shape[2])  # [B, K, a, S, keys]
    R_k = to_keys.mul_(k.mT.unsqueeze(3)).permute(0, 1, 4, 3, 2)
    return R @ M, R_k, R_v


def _restore(R: Tensor, raw: Tensor) -> Tensor:
    """Half of ``raw``, with the total that R has, within each token and then within each sentence."""
    had, has = R.sum(-1), raw.sum(-1, dtype=R.dtype).mul_(0.5)
    factor = had / (has + E)
    total = had.sum(1, keepdim=True) / (has.mul_(factor).sum(1, keepdim=True) + E)
    factor = factor.mul_(total).mul_(0.5).unsqueeze(-1)
    return raw.mul_(factor) if raw.dtype == R.dtype else raw * factor


def _restore_heads(R: Tensor, parts: list[Tensor]):
    """(R_q, R_k, R_v) with one factor per head for all of them together, then one per sentence."""
    had = R.sum(-1).sum(2)  # [B, K, S]
    has = sum(part.sum(-1).sum(2) for part in parts)
    factor = had / (has + E)
    total = had.sum(1, keepdim=True) / ((has * factor).sum(1, keepdim=True) + E)
    factor = (factor * total)[:, :, None, :, None]
    parts = [part.mul_(factor) for part in parts]
    return tuple([None] * (3 - len(parts)) + parts)
