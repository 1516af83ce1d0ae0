"""What ``--task translation_headprune`` is asked to record: its options, checked before any work."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.lrp import ATTENTION_MODES, RULES, check_stabiliser
from fairseq_headprune.units.layout import parse_types

STARTS = ("top1", "emitted")


@dataclass(frozen=True)
class RecordOptions:
    """What to record. ``rules``: rule, start, attention and (if given) stabiliser as
    `generator.head_relevance` takes them, or nothing."""

    rules: Mapping[str, str | float]
    table: str | None
    dump: str | None
    attention_types: tuple[str, ...]
    relevance_max_tokens: int | None = None
    """Sentences with more source tokens or steps than that, EOS counted, get no relevance."""

    def described(self) -> dict[str, Any]:
        """What relevance was asked for, as manifests and tables say it."""
        limit = self.relevance_max_tokens
        return {**self.rules, **({} if limit is None else {"max_tokens": limit})}

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
        _check_paths(cfg.relevance_table, cfg.dump_attention)
        _check_company(cfg)
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
            if cfg.relevance_stabiliser is not None:
                check_stabiliser(cfg.head_relevance, cfg.relevance_stabiliser, "--relevance-stabiliser")
                rules["stabiliser"] = cfg.relevance_stabiliser
        try:
            types = parse_types(cfg.dump_types) if cfg.dump_attention else ()
        except UserError as error:
            raise UserError(f"--dump-types: {error}, all or none") from None
        if cfg.dump_attention and not types and not rules:
            raise UserError("--dump-types none leaves nothing to dump: add --head-relevance")
        if cfg.relevance_max_tokens is not None and cfg.relevance_max_tokens < 1:
            raise UserError(f"--relevance-max-tokens {cfg.relevance_max_tokens} must be at least 1")
        return cls(rules, cfg.relevance_table, cfg.dump_attention, types, cfg.relevance_max_tokens)


def _check_paths(table: str | None, dump: str | None) -> None:
    # an empty name is what an unset variable of the shell leaves: hardly a wish to record nothing
    for option, path, what in (
        ("--relevance-table", table, "file"),
        ("--dump-attention", dump, "directory"),
    ):
        if path is not None and not path.strip():
            raise UserError(f"{option} is empty: name a {what} or leave it out")
    if table and dump and Path(table).resolve() == Path(dump).resolve():
        raise UserError(f"--relevance-table and --dump-attention are both {table}: name a file for the table")


def _check_company(cfg) -> None:
    """UserError for an option that would do nothing for want of the one it belongs to."""
    for option, given in (
        ("--relevance-table", cfg.relevance_table is not None),
        ("--relevance-attention", cfg.relevance_attention is not None),
        ("--relevance-start", cfg.relevance_start != "top1"),
        ("--relevance-max-tokens", cfg.relevance_max_tokens is not None),
        ("--relevance-stabiliser", cfg.relevance_stabiliser is not None),
    ):
        if given and cfg.head_relevance is None:
            raise UserError(f"{option} needs --head-relevance and a rule")
    if cfg.dump_types != "all" and cfg.dump_attention is None:
        raise UserError("--dump-types needs --dump-attention and a directory")
