"""What relevance of heads costs: on the sentence that the authors' code was timed on, and on real
batches beside forward and backward of the same batch."""

from argparse import Namespace
from collections.abc import Callable, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture

import fairseq_headprune
from fairseq_headprune.base.timing import in_turns, ratios, spread
from fairseq_headprune.lrp import head_relevance

fairseq_headprune.register()

AUTHORS_SECONDS = 18.0
"""CPU time of the authors' 2021 code (TensorFlow 1.15) for all steps of the sentence below."""

LIMITS = {"alpha-beta": 0.18, "z-plus": 0.06, "epsilon": 0.06}
"""CPU seconds that each rule may take for that sentence on one core: 1/100 and 1/300 of theirs."""


def dtype_name(dtype: torch.dtype | None) -> str:
    return "default" if dtype is None else str(dtype).split(".")[-1]


def reference_model(seed: int = 1) -> torch.nn.Module:
    """6+6 layers, 8 heads, width and feed-forward width 128, 1,000 symbols, LayerNorm first: the sizes
    that the authors' code was timed at. Weights are random, so biases are not all zero."""
    symbols = Dictionary()
    for number in range(1000 - len(symbols)):
        symbols.add_symbol(f"w{number}")
    args = Namespace(encoder_normalize_before=True, decoder_normalize_before=True, dropout=0.0)
    for stack in ("encoder", "decoder"):
        for name, value in (
            ("embed_dim", 128),
            ("ffn_embed_dim", 128),
            ("attention_heads", 8),
            ("layers", 6),
        ):
            setattr(args, f"{stack}_{name}", value)
    base_architecture(args)
    torch.manual_seed(seed)
    task = Namespace(source_dictionary=symbols, target_dictionary=symbols)
    model = TransformerModel.build_model(args, task).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.1)
    return model


def reference_sentence(seed: int = 1) -> dict[str, torch.Tensor]:
    """One pair of 16 and 16 tokens, end of sentence included."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, 1000, (2, 1, 16), generator=generator)
    eos = Dictionary().eos()
    src, prev = tokens
    src[:, -1], prev[:, 0] = eos, eos
    return {
        "src_tokens": src,
        "src_lengths": torch.tensor([16]),
        "prev_output_tokens": prev,
    }


def time_sentence(repeats: int, rules: Sequence[str], dtypes: Sequence[torch.dtype | None]) -> list[dict]:
    """CPU seconds per rule and precision for all 16 steps of the reference sentence."""
    model, sentence = reference_model(), reference_sentence()
    sides = {
        (rule, dtype): (
            lambda rule=rule, dtype=dtype: head_relevance(model, **sentence, rule=rule, dtype=dtype)
        )
        for rule in rules
        for dtype in dtypes
    }
    times = in_turns(sides, repeats, warmup=2)
    return [
        {
            "rule": rule,
            "dtype": dtype_name(dtype),
            "cpu_seconds": spread(taken.cpu),
            "limit_seconds": LIMITS[rule],
            "authors_seconds_over_ours": AUTHORS_SECONDS / spread(taken.cpu)["median"],
        }
        for (rule, dtype), taken in times.items()
    ]


def forward_backward(model, sample: dict) -> Callable[[], None]:
    """One update's worth of work on a batch, without the optimizer; gradients are thrown away."""
    net_input, target = sample["net_input"], sample["target"]

    def run():
        with torch.enable_grad():
            logits = model(**net_input)[0]
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), target.flatten(), ignore_index=1, reduction="sum"
            )
            loss.backward()
        model.zero_grad(set_to_none=True)

    return run


def time_batch(
    model,
    sample: dict,
    repeats: int,
    rules: Sequence[str],
    dtypes: Sequence[torch.dtype | None],
    synchronize: Callable[[], None] | None = None,
) -> dict:
    """Relevance of every step of a batch as a multiple of forward plus backward of the same batch."""
    net_input = {
        name: sample["net_input"][name] for name in ("src_tokens", "src_lengths", "prev_output_tokens")
    }
    sides = {"forward+backward": forward_backward(model, sample)}
    for rule in rules:
        for dtype in dtypes:
            sides[rule, dtype] = lambda rule=rule, dtype=dtype: head_relevance(
                model, **net_input, rule=rule, dtype=dtype
            )
    times = in_turns(sides, repeats, synchronize=synchronize)
    one = times.pop("forward+backward")
    kind = "wall" if synchronize else "cpu"
    base = getattr(one, kind)
    steps = sample["target"].ne(1).sum(1).double()
    rows = []
    for (rule, dtype), taken in times.items():
        multiple = ratios(getattr(taken, kind), base)
        rows.append(
            {
                "rule": rule,
                "dtype": dtype_name(dtype),
                "seconds": spread(getattr(taken, kind)),
                "multiple": multiple,
                # what back-propagating every step by itself would cost is 1 a step
                "multiple_per_step": multiple["median"] / float(steps.mean()),
            }
        )
    return {
        "sentences": len(steps),
        "mean_steps": float(steps.mean()),
        "source_tokens": int(sample["net_input"]["src_tokens"].ne(1).sum()),
        "time": kind,
        "forward_backward_seconds": spread(base),
        "rows": rows,
    }


def batches_of(checkpoint: str, data: str, subset: str, sentences: int, offset: int = 0):
    """A model in eval mode and one batch of consecutive pairs of ``subset``."""
    from fairseq_headprune.checkpoints.reading import load_model

    model, _, task = load_model(checkpoint, data)
    task.load_dataset(subset)
    dataset = task.dataset(subset)
    last = min(offset + sentences, len(dataset))
    return model, dataset.collater([dataset[i] for i in range(offset, last)])


def run(
    repeats: int,
    checkpoint: str | None = None,
    data: str | None = None,
    subset: str = "valid",
    sentences: int = 32,
    rules: Sequence[str] = tuple(LIMITS),
    dtypes: Sequence[torch.dtype | None] = (None, torch.float64, torch.float32),
) -> list[dict]:
    """Both measurements; the second only with a checkpoint."""
    result: dict = {"sentence": time_sentence(repeats, rules, dtypes)}
    if checkpoint:
        model, sample = batches_of(checkpoint, data, subset, sentences)
        result["batch"] = time_batch(model, sample, max(3, repeats // 3), rules, dtypes)
    return [result]
