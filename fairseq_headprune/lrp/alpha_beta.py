"""``alpha-beta``: the rules of the authors' code of June 2021, each sentence by itself.

A layer is described by contributions z_ji of input i to output j: Jacobian times input, plus the
output at the all-zero input spread evenly over the n inputs. Positive and negative contributions
share half of the relevance each (e = 1e-5):

    share_ji = 1/2 z+_ji / (sum_i z+_ji + e)  +  1/2 z-_ji / (sum_i z-_ji - e)

and after every layer a factor restores the total, first within each token (head, for attention),
then within the sentence. Shares are positive, so relevance is, and absolute values can be left out.
"""

from typing import Iterator, Optional, Tuple

import torch
from torch import Tensor

from fairseq_headprune.lrp.forward import Attention
from fairseq_headprune.lrp.network import Norm
from fairseq_headprune.lrp.rules import Rule, ratio

E = 1e-5


class AlphaBeta(Rule):
    """alpha = beta = 1/2 over Jacobian-times-input contributions."""

    name = "alpha-beta"

    def linear(self, R: Tensor, x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        # z_ji = W_ji x_i + b_j / n: the bias is inside the positive and negative parts
        n = x.shape[-1]
        flat = x.flatten(0, 1)
        if weight.dim() > 2:
            weight = weight.flatten(0, 1)
            y = (weight @ flat.unsqueeze(-1)).squeeze(-1)
        else:
            y = flat @ weight.T
        spread = None if bias is None else (bias / n).unsqueeze(-1)

        def contributions(tokens: slice, rows: slice, out: Tensor) -> Tensor:
            w = weight[rows] if weight.dim() == 2 else weight[tokens, rows]
            mine = flat[tokens].unsqueeze(1)
            if spread is None:
                return torch.mul(w, mine, out=out)
            return torch.addcmul(spread[rows], w, mine, out=out)

        def signed(R: Tensor) -> Tensor:
            raw = (R @ weight).mul_(flat.unsqueeze(1))
            return raw if spread is None else raw.add_(R @ spread)

        y = y if bias is None else y + bias
        return _restore(R, self._redistribute(R, y, n, contributions, signed))

    def norm(self, R: Tensor, x: Tensor, norm: Norm) -> Tensor:
        # J_ji = g_j (A_ji - mean_i A_ji), A_ji = delta_ij v^-1/2 - c_j c_i (v + eps)^-3/2 / h:
        # z_ji = J_ji x_i + b_j / h is a sum of three outer products and a diagonal.
        # v^-1/2 lacks eps, as in the authors' code.
        h = x.shape[-1]
        flat = x.flatten(0, 1)
        c = flat - flat.mean(-1, keepdim=True)
        v = c.square().mean(-1, keepdim=True)
        r = torch.where(v > 0, v, norm.eps).rsqrt()
        slope = (v + norm.eps).pow(-1.5) / h
        g = norm.weight
        left = torch.stack([g * c, g.expand_as(c), (norm.bias / h).expand_as(c)], dim=-1)
        right = torch.stack([-slope * c * flat, -r * flat / h, torch.ones_like(c)], dim=-2)
        diagonal = g * r * flat
        y = (left @ right.sum(-1, keepdim=True)).squeeze(-1) + diagonal

        def contributions(tokens: slice, rows: slice, out: Tensor) -> Tensor:
            torch.bmm(left[tokens, rows], right[tokens], out=out)
            out.diagonal(rows.start, 1, 2).add_(diagonal[tokens, rows])
            return out

        def signed(R: Tensor) -> Tensor:
            return ((R @ left) @ right).addcmul_(R, diagonal.unsqueeze(1))

        return _restore(R, self._redistribute(R, y, h, contributions, signed))

    def add(self, R: Tensor, x: Tensor, u: Tensor) -> Tuple[Tensor, Tensor]:
        positive = x.clamp_min(0) + u.clamp_min(0) + E
        negative = x.clamp_max(0) + u.clamp_max(0) - E

        def part(y):
            return R * (0.5 * y / torch.where(y > 0, positive, negative)).unsqueeze(2)

        skip, update = part(x), part(u)
        m_skip, m_update = skip.sum(-1), update.sum(-1)
        factor = R.sum(-1) / (m_skip + m_update + E)
        return _leak(skip, m_skip, factor), _leak(update, m_update, factor)

    def add_constant(self, R: Tensor, x: Tensor, constant: Optional[Tensor]) -> Tensor:
        # a constant is no input: what it would get goes with the skip connection
        return R

    def attention(self, R: Tensor, a: Attention, mode: str):
        A, v, o = a.weights, a.v, a.context
        v_pos, v_neg = v.clamp_min(0), v.clamp_max(0)
        positive, negative = A @ v_pos, A @ v_neg  # over keys, then over keys and queries
        if mode == "full":
            keys, queries = _Keys(a), _Queries(a)
            positive = positive + keys.positive + queries.positive
            negative = negative + keys.negative + queries.negative
        to_positive = (0.5 / (positive + E)).unsqueeze(-1)  # [B, K, queries, d, 1]
        to_negative = (0.5 / (negative - E)).unsqueeze(-1)
        # as one matrix a head: rows are queries, columns starts and channels
        At = A.transpose(-1, -2)
        R_v = (At @ (R * to_positive.mT).flatten(3)).view(*v.shape[:3], *R.shape[3:])
        R_v.mul_(v_pos.unsqueeze(3))
        R_v_neg = (At @ (R * to_negative.mT).flatten(3)).view_as(R_v)
        R_v.addcmul_(R_v_neg, v_neg.unsqueeze(3))
        if mode == "values":
            return _restore_heads(R, None, None, R_v)
        shares = torch.cat(
            [queries.shares(to_positive, to_negative), *keys.shares(to_positive, to_negative)], -1
        )
        given = R @ shares  # [B, K, queries, S, d + 2 keys]
        d = R.shape[-1]
        return _restore_heads(R, given[..., :d], keys.collect(given[..., d:]), R_v)

    def balance(self, R: Tensor, R_query: Tensor, R_memory: Tensor) -> Tuple[Tensor, Tensor]:
        total = R_query.sum((1, 3)) + R_memory.sum((1, 3))
        factor = ratio(R.sum((1, 3)), total)[:, None, :, None]
        return R_query * factor, R_memory * factor

    def _redistribute(self, R: Tensor, y: Tensor, n: int, contributions, signed) -> Tensor:
        """sum_j R_j share_ji before any factor, for all tokens of all sentences.

        y: the layer's outputs ``[B*T, out]``, the sums of their contributions z_ji over i.
        contributions(tokens, rows, out): z_ji of some tokens and outputs j, ``[tokens, rows, n]``.
        signed(R): sum_j R_j z_ji, which factorises: no z_ji has to be formed for it.

        With share_ji = a_j z+_ji + b_j z-_ji = (a_j - b_j) z+_ji + b_j z_ji only z+ has to be formed,
        once for all starts, in blocks that stay in the cache.
        """
        B, T, S, out = R.shape
        flat = R.reshape(B * T, S, out)
        result = R.new_empty(B * T, S, n)
        b_of = torch.empty_like(y)
        scratch = R.new_empty(0)
        for tokens, rows in _blocks(B * T, out, n, self.block_size):
            size = (tokens.stop - tokens.start, rows.stop - rows.start, n)
            if scratch.shape != size:
                scratch = R.new_empty(size)
            z = contributions(tokens, rows, scratch).clamp_min_(0)
            positive = z.sum(-1)
            a, b = _halves(positive, y[tokens, rows])
            b_of[tokens, rows] = b
            mine = flat[tokens, :, rows] * (a - b).unsqueeze(1)
            if rows.start == 0:
                torch.bmm(mine, z, out=result[tokens])
            else:
                result[tokens].baddbmm_(mine, z)
        result += signed(flat * b_of.unsqueeze(1))
        return result.view(B, T, S, n)


def _halves(positive: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    """a = 1/2 / (sum z+ + e) and b = 1/2 / (sum z- - e); b = 0 where there is no z-.

    sum z- is y - sum z+, which rounding keeps from being 0 exactly.
    """
    negative = y - positive
    none = negative >= -16 * torch.finfo(y.dtype).eps * positive
    return 0.5 / (positive + E), (0.5 / (negative - E)).masked_fill_(none, 0)


class _Queries:
    """Contributions of queries: z = s q_ia sum_j G_icj k_ja, of query i alone to its channels c."""

    def __init__(self, a: Attention):
        G = _score_jacobian(a)
        z = (G.flatten(2, 3) @ a.k).view(*G.shape[:-1], -1)
        z = z.mul_((a.q * a.scaling).unsqueeze(-2))  # [B, K, queries, c, a]
        self.z_pos, self.z_neg = z.clamp_min(0), z.clamp_max(0)
        self.positive, self.negative = self.z_pos.sum(-1), self.z_neg.sum(-1)

    def shares(self, to_positive: Tensor, to_negative: Tensor) -> Tensor:
        """[B, K, queries, c, a]."""
        return self.z_pos * to_positive + self.z_neg * to_negative


class _Keys:
    """Contributions of keys: z = s G_icj q_ia k_ja. Its sign is that of G times that of q k, so sums
    over a factorise and no [queries, c, keys, a] array is needed:

        z+ = G+ (q k)+ + G- (q k)-,     z- = G+ (q k)- + G- (q k)+
    """

    def __init__(self, a: Attention):
        G = _score_jacobian(a)
        self.G_pos, self.G_neg = G.clamp_min(0), G.clamp_max(0)  # [B, K, queries, c, keys]
        q = a.q * a.scaling
        self.q_pos, self.q_neg = q.clamp_min(0), q.clamp_max(0)
        self.k_pos, self.k_neg = a.k.clamp_min(0), a.k.clamp_max(0)
        qk_pos = self.q_pos @ self.k_pos.mT + self.q_neg @ self.k_neg.mT
        qk_neg = self.q_pos @ self.k_neg.mT + self.q_neg @ self.k_pos.mT
        qk_pos, qk_neg = qk_pos.unsqueeze(3), qk_neg.unsqueeze(3)
        self.positive = (self.G_pos * qk_pos).addcmul_(self.G_neg, qk_neg).sum(-1)
        self.negative = (self.G_pos * qk_neg).addcmul_(self.G_neg, qk_pos).sum(-1)

    def shares(self, to_positive: Tensor, to_negative: Tensor) -> Tuple[Tensor, Tensor]:
        """What multiplies (q k)+ and (q k)-, each [B, K, queries, c, keys]."""
        return (
            (self.G_pos * to_positive).addcmul_(self.G_neg, to_negative),
            (self.G_neg * to_positive).addcmul_(self.G_pos, to_negative),
        )

    def collect(self, given: Tensor) -> Tensor:
        """From what each query gives, [B, K, queries, S, (with (q k)+, with (q k)-) x keys], to R at
        the keys [B, K, keys, S, a]."""
        B, K, Tq, S, _ = given.shape
        q = torch.cat([self.q_pos, self.q_neg], dim=-1)
        by_sign = (q.mT @ given.reshape(B, K, Tq, -1)).view(B, K, 2, -1, S, 2, self.k_pos.shape[2])
        with_pos = by_sign[:, :, 0, :, :, 0] + by_sign[:, :, 1, :, :, 1]
        with_neg = by_sign[:, :, 1, :, :, 0] + by_sign[:, :, 0, :, :, 1]
        with_pos.mul_(self.k_pos.mT.unsqueeze(3)).addcmul_(with_neg, self.k_neg.mT.unsqueeze(3))
        return with_pos.permute(0, 1, 4, 3, 2)


def _score_jacobian(a: Attention) -> Tensor:
    """G_icj = d o_ic / d score_ij = A_ij (v_jc - o_ic), ``[B, K, queries, channels, keys]``."""
    return (a.v.mT.unsqueeze(2) - a.context.unsqueeze(-1)).mul_(a.weights.unsqueeze(3))


def _blocks(tokens: int, rows: int, n: int, size: int) -> Iterator[Tuple[slice, slice]]:
    """Cut ``tokens x rows x n`` contributions into blocks of at most ``size`` (and one row)."""
    step = max(1, size // max(1, n))
    if step < rows:
        for t in range(tokens):
            for r in range(0, rows, step):
                yield slice(t, t + 1), slice(r, min(r + step, rows))
        return
    step = max(1, size // max(1, rows * n))
    for t in range(0, tokens, step):
        yield slice(t, min(t + step, tokens)), slice(0, rows)


def _restore(R: Tensor, raw: Tensor) -> Tensor:
    """Give ``raw`` the total that R has, within each token and then within each sentence."""
    had, has = R.sum(-1), raw.sum(-1)
    factor = had / (has + E)
    total = had.sum(1) / ((has * factor).sum(1) + E)
    return raw.mul_((factor * total.unsqueeze(1)).unsqueeze(-1))


def _leak(branch: Tensor, mass: Tensor, factor: Tensor) -> Tensor:
    """Apply a factor per token, and the authors' second rescale S / (S + e) of each branch."""
    total = (mass * factor).sum(1, keepdim=True)
    return branch.mul_((factor * (total / (total + E))).unsqueeze(-1))


def _restore_heads(R: Tensor, R_q: Optional[Tensor], R_k: Optional[Tensor], R_v: Tensor):
    """One factor per head for q, k and v together, then one per sentence."""
    had = R.sum(-1).sum(2)  # [B, K, S]
    has = sum(part.sum((2, 4)) for part in (R_q, R_k, R_v) if part is not None)
    factor = had / (has + E)
    total = had.sum(1) / ((has * factor).sum(1) + E)
    factor = (factor * total.unsqueeze(1))[:, :, None, :, None]
    return tuple(None if part is None else part.mul_(factor) for part in (R_q, R_k, R_v))
