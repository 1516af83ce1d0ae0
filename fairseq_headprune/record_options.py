"""What ``--task translation_headprune`` is asked to record: its options, checked before any work."""

from dataclasses import dataclass
from typing import Mapping, Optional, Tuple

from fairseq_headprune.errors import UserError
from fairseq_headprune.layout import parse_types
from fairseq_headprune.lrp import ATTENTION_MODES, RULES

STARTS = ("top1", "emitted")


@dataclass(frozen=True)
class RecordOptions:
    """What to record. ``rules``: rule, start and attention as `generator.head_relevance` takes them,
    or nothing."""

    rules: Mapping[str, str]
    table: Optional[str]
    dump: Optional[str]
    attention_types: Tuple[str, ...]

    @property
    def active(self) -> bool:
        """Whether anything is to be recorded."""
        return bool(self.rules or self.dump)

    @classmethod
    def of(cls, cfg) -> "RecordOptions":
        """From the task's options; UserError names the one that is wrong."""
        choices = (
            ("--head-relevance", cfg.head_relevance, RULES),
            ("--relevance-start", cfg.relevance_start, STARTS),
            ("--relevance-attention", cfg.relevance_attention, ATTENTION_MODES),
        )
        for option, value, allowed in choices:
            if value is not None and value not in allowed:
                raise UserError(f"{option} is '{value}': use one of {', '.join(allowed)}")
        rules = {}
        if cfg.head_relevance is not None:
            modes = RULES[cfg.head_relevance].attention_modes
            attention = cfg.relevance_attention or modes[0]
            if attention not in modes:
                raise UserError(
                    f"--relevance-attention {attention} is not defined for --head-relevance "
                    f"{cfg.head_relevance}: use {' or '.join(modes)}"
                )
            rules = {
                "rule": cfg.head_relevance,
                "start": cfg.relevance_start,
                "attention": attention,
            }
        if cfg.relevance_table and not rules:
            raise UserError("--relevance-table needs --head-relevance and a rule")
        try:
            types = parse_types(cfg.dump_types) if cfg.dump_attention else ()
        except UserError as error:
            raise UserError(f"--dump-types: {error}, all or none") from None
        if cfg.dump_attention and not types and not rules:
            raise UserError("--dump-types none leaves nothing to dump: add --head-relevance")
        return cls(rules, cfg.relevance_table, cfg.dump_attention, types)
