"""``pruned_transformer``: what a checkpoint loads as after its heads were removed."""

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model

from fairseq_headprune.models.config import PrunedTransformerConfig
from fairseq_headprune.models.gated_transformer import GatedTransformerModel


@register_model("pruned_transformer", dataclass=PrunedTransformerConfig)
class PrunedTransformerModel(GatedTransformerModel):
    """A Transformer with the heads that its checkpoint names. It has gates only when asked for."""

    @classmethod
    def add_args(cls, parser):
        """As gated_transformer, with no gates by default."""
        gen_parser_from_dataclass(parser, PrunedTransformerConfig(), delete_default=True)
