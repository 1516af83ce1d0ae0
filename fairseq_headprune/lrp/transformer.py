"""The way back: relevance from the chosen logits down through a traced Transformer."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_headprune.lrp.forward import Block, FeedForward, Heads, Recurrent, Stack, Trace
from fairseq_headprune.lrp.rules import Rule


@dataclass
class WayBack:
    """What one way back found. ``heads[type]`` is ``[B, S, layers, heads]``."""

    heads: dict[str, Tensor]
    source: Tensor | None = None  # [B, S, source tokens], at the encoder's input
    target: Tensor | None = None  # [B, S, steps], at the decoder's input


def way_back(
    trace: Trace,
    rule: Rule,
    mode: str,
    tokens: Tensor,
    starts: slice,
    valid: Tensor,
    to_inputs: bool,
) -> WayBack:
    """Relevance of every head for generation steps ``starts`` of every sentence in ``trace``.

    Start s is 1 at the logit of ``tokens[:, s]`` at decoder position s, and nothing where ``valid``
    (``[B, steps]``) is false. With ``to_inputs`` the recursion goes on to the embeddings; otherwise
    it ends at the heads of the lowest layers.
    """
    R = _start(trace, rule, tokens, starts, valid)
    sizes = trace.network.head_sizes.items()
    result = WayBack({key: R.new_zeros(R.shape[0], R.shape[2], *size) for key, size in sizes})
    if trace.network.project_out is not None:
        project = trace.network.project_out
        R = rule.linear(R, trace.decoder.output, project.weight, project.bias)
    R, R_memory = _stack_back(R, trace.decoder, rule, mode, result, to_inputs)
    if R is not None:
        result.target = R.sum(-1).transpose(1, 2)
    if R_memory is not None:  # else no decoder-encoder head is left: nothing reaches the source
        R, _ = _stack_back(R_memory, trace.encoder, rule, mode, result, to_inputs)
        if R is not None:
            result.source = R.sum(-1).transpose(1, 2)
    return result


def _start(trace: Trace, rule: Rule, tokens: Tensor, starts: slice, valid: Tensor) -> Tensor:
    """R at the decoder's features ``[B, steps, S, n]``: each start lives at its own position."""
    B, steps, n = trace.features.shape
    S = starts.stop - starts.start
    x = trace.features[:, starts].reshape(B * S, 1, n)
    # one row of the output projection per start: the other logits have no relevance to hand on
    weight = trace.network.output.weight[tokens[:, starts].reshape(-1)].view(B * S, 1, 1, n)
    bias = trace.network.output.bias
    if bias is not None:
        bias = bias[tokens[:, starts].reshape(-1)].view(B * S, 1, 1)
    one = valid[:, starts].reshape(B * S, 1, 1, 1).to(x.dtype)
    R = trace.features.new_zeros(B, steps, S, n)
    where = torch.arange(S, device=R.device)
    R[:, where + starts.start, where] = rule.linear(one, x, weight, bias).view(B, S, n)
    return R


def _stack_back(
    R: Tensor, stack: Stack, rule: Rule, mode: str, result: WayBack, to_inputs: bool
) -> tuple[Tensor | None, Tensor | None]:
    """From R at the output of a stack to R at its embeddings and at the memory it attends to."""
    R_memory = None
    if stack.final_norm is not None:
        R = rule.norm(R, stack.top, stack.final_norm)
    for depth, block in reversed(list(enumerate(stack.blocks))):
        R, extra = _block_back(R, block, rule, mode, result, to_inputs or depth > 0)
        if extra is not None:
            R_memory = extra if R_memory is None else R_memory.add_(extra)
    if R is not None and stack.embedding_norm is not None:
        R = rule.norm(R, stack.embedded, stack.embedding_norm)
    return R, R_memory


def _block_back(
    R: Tensor, block: Block, rule: Rule, mode: str, result: WayBack, go_on: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Through one residual block: R at its input and at the memory (None outside dec_enc).

    Without ``go_on`` only its heads are wanted.
    """
    arrived = R
    if not block.pre_norm:
        R = rule.norm(R, block.input + block.update, block.norm)
    if block.inner is None:
        return rule.add_constant(R, block.input, block.update), None
    R_skip, R = rule.add(R, block.input, block.update)
    R_memory = None
    if isinstance(block.inner, FeedForward):
        R = _feed_forward_back(R, block.inner, rule)
    elif isinstance(block.inner, Recurrent):
        if not go_on:
            return None, None
        R = _recurrent_back(R, block.inner, rule)
    else:
        R = _heads_back(R, block.inner, rule, result)
        if not go_on:
            return None, None
        R, R_memory = _attention_back(R, block.inner, rule, mode)
    if block.pre_norm and R is not None:
        R = rule.norm(R, block.input, block.norm)
    R = R_skip if R is None else R_skip.add_(R)
    if R_memory is not None:
        R, R_memory = rule.balance(arrived, R, R_memory)
    return R, R_memory


def _feed_forward_back(R: Tensor, inner: FeedForward, rule: Rule) -> Tensor:
    fc1, fc2 = inner.part.fc1, inner.part.fc2
    R = rule.linear(R, inner.hidden, fc2.weight, fc2.bias)
    # the activation function between the two is ignored (A.2)
    return rule.linear(R, inner.input, fc1.weight, fc1.bias)


def _recurrent_back(R: Tensor, inner: Recurrent, rule: Rule) -> Tensor:
    """From R at relu(c_t) to R at the SSRU's input, last step first.

    c_t is the sum of f_t c_{t-1} and (1 - f_t) W x_t, and shares its relevance as the rule has it for
    sums. The gates are weights and get none (Arras et al. 2017, "Explaining Recurrent Neural Network
    Predictions in Sentiment Analysis", section 3.2: what is gated gets all, the gate nothing).
    """
    R_added = torch.empty_like(R)
    carried = torch.zeros_like(R[:, :1])
    for t in range(R.shape[1] - 1, 0, -1):
        step = slice(t, t + 1)
        carried, R_added[:, step] = rule.add(R[:, step] + carried, inner.kept[:, step], inner.added[:, step])
    R_added[:, :1] = R[:, :1] + carried  # nothing came before the first step
    return rule.linear(R_added, inner.input, inner.part.value.weight, None)


def _heads_back(R: Tensor, inner: Heads, rule: Rule, result: WayBack) -> Tensor:
    """R at the context of each head ``[B, K, queries, S, d]``; its sum is the head's relevance."""
    part = inner.part
    R = rule.linear(R, inner.concat, part.out.weight, part.out.bias)
    R = R.unflatten(-1, (len(part.heads), part.head_dim)).permute(0, 3, 1, 2, 4).contiguous()
    relevance = R.sum(-1).sum(2).transpose(1, 2)  # [B, S, K]
    result.heads[part.key][:, :, part.layer].index_copy_(2, part.heads, relevance)
    return R


def _attention_back(R: Tensor, inner: Heads, rule: Rule, mode: str) -> tuple[Tensor | None, Tensor | None]:
    """R at the query input (None when nothing goes there) and at the memory."""
    part, x = inner.part, inner.query_input
    R_q, R_k, R_v = rule.attention(R, inner.attention, mode)
    if inner.memory is None:
        linear = part.value if R_q is None else part.together
        joined = _join(R_v) if R_q is None else _join(R_q, R_k, R_v)
        return rule.linear(joined, x, linear.weight, linear.bias), None
    R_query = None
    linear = part.value if R_q is None else part.key_value
    joined = _join(R_v) if R_q is None else _join(R_k, R_v)
    R_memory = rule.linear(joined, inner.memory, linear.weight, linear.bias)
    if R_q is not None:
        R_query = rule.linear(_join(R_q), x, part.query.weight, part.query.bias)
    return R_query, R_memory


def _join(*parts: Tensor) -> Tensor:
    """Heads and parts side by side again: n of ``[B, K, T, S, d]`` -> ``[B, T, S, n*K*d]``."""
    B, K, T, S, d = parts[0].shape
    joined = parts[0].new_empty(B, T, S, len(parts), K, d)
    for number, part in enumerate(parts):
        joined[:, :, :, number] = part.permute(0, 2, 3, 1, 4)
    return joined.flatten(3)
