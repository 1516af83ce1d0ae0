"""Label-smoothed cross-entropy plus the L0 penalty of head gates (section 6.1).

L = L_xent + lambda * sum of P(open), with L_xent the mean per target token in nats. fairseq sums
losses and divides gradients by a sample size at the end, so the penalty is multiplied by the number
of target tokens here: workers, accumulation and batch size then drop out. (With --sentence-avg
everything, penalty included, is divided by sentences instead of tokens: the same objective, scaled.)

The cross-entropy of plain transformers is fused with the output matrix. The stock criterion's path
stays for adaptive softmax, autocast (--amp), wrapped (data-parallel) or other models, other output
layers, and losses per token (reduce=False).
"""

import logging
from dataclasses import dataclass, field

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.logging import metrics
from fairseq.models.transformer import TransformerDecoderBase, TransformerModelBase

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.models.gated_transformer import HeadDecoder
from fairseq_headprune.nn.fused_cross_entropy import fused_cross_entropy
from fairseq_headprune.nn.gate_report import all_log_a, count_layers, expected_open, head_gates
from fairseq_headprune.units import target as head_target
from fairseq_headprune.units.layout import ATTENTION_TYPES

logger = logging.getLogger(__name__)


@dataclass
class LabelSmoothedCrossEntropyL0Config(LabelSmoothedCrossEntropyCriterionConfig):
    """Options of the criterion on the command line."""

    l0_lambda: float = field(
        default=0.0,
        metadata={
            "help": "weight of the penalty, in nats per target token for one head surely open "
            "(try 0.003 to 0.03)"
        },
    )
    l0_warmup_updates: int = field(
        default=0,
        metadata={"help": "raise the weight from 0 over so many updates (default: at once)"},
    )
    l0_target_heads: str = field(
        default="",
        metadata={
            "help": "prune to so many heads, in all (20) or per type (enc-self=10,dec-self=20), "
            "by a learned weight instead of --l0-lambda"
        },
    )


@register_criterion("label_smoothed_cross_entropy_l0", dataclass=LabelSmoothedCrossEntropyL0Config)
class LabelSmoothedCrossEntropyL0Criterion(LabelSmoothedCrossEntropyCriterion):
    """Logs ``loss`` without the penalty, so that it compares with the stock criterion's, and
    ``objective`` with it."""

    def __init__(
        self,
        task,
        sentence_avg,
        label_smoothing,
        ignore_prefix_size=0,
        report_accuracy=False,
        l0_lambda=0.0,
        l0_warmup_updates=0,
        l0_target_heads="",
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        if not 0 <= l0_lambda < float("inf"):
            raise UserError(f"--l0-lambda must be a number of at least 0, not {l0_lambda}")
        if l0_warmup_updates < 0:
            raise UserError(f"--l0-warmup-updates must be at least 0, not {l0_warmup_updates}")
        if l0_target_heads and l0_lambda:
            raise UserError("give --l0-lambda or --l0-target-heads, not both")
        self.l0_lambda = l0_lambda
        self.warmup = l0_warmup_updates
        self.target = {}
        if l0_target_heads:
            self.target = head_target.parse_target(l0_target_heads, "--l0-target-heads")
        self.checked = False

    def forward(self, model, sample, reduce=True):
        if reduce and can_fuse(model):
            loss, sample_size, logging_output = self.fused_forward(model, sample)
        else:
            loss, sample_size, logging_output = super().forward(model, sample, reduce)
        gates = head_gates(model)
        if not self.checked:
            self.check(gates, model.training)
            self.checked = True
        if not gates:
            return loss, sample_size, logging_output

        log_a = {t: all_log_a(layers) for t, layers in gates.items()}
        expected = {t: expected_open(layers, log_a[t]) for t, layers in gates.items()}
        if self.target:
            update = getattr(model, "num_updates", 0)
            penalty = model.learned_target.penalty(self.target, gates, log_a, update, self.ramp(model))
        else:
            penalty = self.ramp(model) * self.l0_lambda * sum(expected.values())
        counts = {t: count_layers(layers, log_a[t]) for t, layers in gates.items()}
        tokens = sample["ntokens"]
        if model.training:
            if reduce:
                loss = loss + penalty * tokens
            else:
                loss = loss + penalty * tokens / loss.numel()
        # everything is weighted by tokens, so that sums over workers and batches can be divided
        logging_output["l0_penalty"] = penalty.detach() * tokens
        for key in gates:
            logging_output[f"{key}_expected"] = expected[key].detach() * tokens
            for name in ("open", "closed", "undecided"):
                logging_output[f"{key}_{name}"] = getattr(counts[key], name) * tokens
        return loss, sample_size, logging_output

    def fused_forward(self, model, sample):
        """As the stock criterion's forward, without storing the logits."""
        features, _ = model(**sample["net_input"], features_only=True)
        target = model.get_targets(sample, None)
        skip = self.ignore_prefix_size
        features, target = features[:, skip:].flatten(0, 1), target[:, skip:].flatten()
        output = model.decoder.output_projection
        loss, nll, correct = fused_cross_entropy(
            features, output.weight, output.bias, target, self.eps, self.padding_idx
        )
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": loss.data,
            "nll_loss": nll.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        if self.report_accuracy:
            logging_output["n_correct"] = correct.item()
            logging_output["total"] = target.ne(self.padding_idx).sum().item()
        return loss, sample_size, logging_output

    def check(self, gates, training: bool = True) -> None:
        """What only the model can tell: whether there are gates, and enough of them."""
        available = {t: sum(len(g.scaled_log_a) for g in layers) for t, layers in gates.items()}
        if self.target:
            head_target.check_target(self.target, available, "--l0-target-heads")
            head_target.check_translates(self.target, "--l0-target-heads")
        elif gates and self.l0_lambda == 0 and training:
            logger.warning(
                "neither --l0-lambda nor --l0-target-heads is given: no head costs anything and nothing will "
                "be pruned"
            )
        elif self.l0_lambda > 0 and not gates:
            logger.warning(
                "--l0-lambda is %g but the model has no gates: nothing will be pruned "
                "(use --arch gated_transformer with --gate-types)",
                self.l0_lambda,
            )

    def ramp(self, model) -> float:
        """Share of the full weight at this update."""
        if self.warmup == 0:
            return 1.0
        return min(1.0, getattr(model, "num_updates", 0) / self.warmup)

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """As the stock criterion, then penalty and gates."""
        super().reduce_metrics(logging_outputs)
        tokens = sum(log.get("ntokens", 0) for log in logging_outputs)
        if not any("l0_penalty" in log for log in logging_outputs) or not tokens:
            return

        def mean(key):
            return sum(log.get(key, 0) for log in logging_outputs) / tokens

        metrics.log_scalar("l0_penalty", mean("l0_penalty"), tokens, round=4)
        present = [t for t in ATTENTION_TYPES if any(f"{t}_expected" in log for log in logging_outputs)]
        total = sum(mean(f"{t}_expected") for t in present)
        metrics.log_scalar("expected_heads", total, tokens, round=2)
        for key in present:
            metrics.log_scalar(f"{key}_expected", mean(f"{key}_expected"), tokens, round=2)
            for name in ("open", "closed", "undecided"):
                metrics.log_scalar(f"{key}_{name}", mean(f"{key}_{name}"), tokens, round=1)
        metrics.log_derived("objective", objective)


def can_fuse(model) -> bool:
    """Whether the logits are one plain linear layer of the features, with nothing in between."""
    if not isinstance(model, TransformerModelBase):
        return False
    decoder = model.decoder
    output = getattr(decoder, "output_projection", None)
    # our decoder stores the matrix by columns for generation, which is no part of the loss
    return (
        type(output) is torch.nn.Linear
        and getattr(decoder, "output_weight", None) is None
        and not torch.is_autocast_enabled(output.weight.device.type)
        and not output._forward_hooks
        and not output._forward_pre_hooks
        and decoder.adaptive_softmax is None
        and type(decoder).output_layer in (TransformerDecoderBase.output_layer, HeadDecoder.output_layer)
        and type(model).get_normalized_probs is TransformerModelBase.get_normalized_probs
    )


def objective(meters) -> float:
    """Loss per token with the penalty, in bits like fairseq's other losses."""
    nats_to_bits = 1.4426950408889634
    return round(float(meters["loss"].avg) + float(meters["l0_penalty"].avg) * nats_to_bits, 3)
