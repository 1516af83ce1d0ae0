"""``--task translation_headprune``: translation whose generation also records attention and relevance.

fairseq-generate and fairseq-interactive print results themselves and tell a task little. What is
needed from them is taken at the places they call: ``prepare_for_inference_`` of the model has the
whole configuration, ``get_batch_iterator`` and ``filter_indices_by_size`` the data set, ``build_generator``
and ``inference_step`` the rest; and the run is over when they let go of the generator.
"""

import weakref
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

import numpy as np
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints.configuration import plain
from fairseq_headprune.checkpoints.support import unsupported
from fairseq_headprune.fairseq_adapter.interactive_lines import FollowedByLines, NumberedLines
from fairseq_headprune.lrp import ATTENTION_MODES, RULES
from fairseq_headprune.recording.generator import RecordingGenerator
from fairseq_headprune.recording.options import STARTS, RecordOptions
from fairseq_headprune.recording.run import RunRecord, model_identity, say


@dataclass
class TranslationHeadpruneConfig(TranslationConfig):
    """Options of the task on the command line."""

    head_relevance: Optional[str] = field(
        default=None,
        metadata={
            "help": "relevance of every head for each generated token, by layer-wise relevance "
            f"propagation with this rule: {', '.join(RULES)}; fairseq-interactive prints R- lines, "
            "fairseq-generate a table of averages"
        },
    )
    relevance_start: str = field(
        default="top1",
        metadata={
            "help": "whose logit is explained: the model's first choice at each step as in the "
            f"paper, or the token that was emitted ({', '.join(STARTS)})"
        },
    )
    relevance_attention: Optional[str] = field(
        default=None,
        metadata={
            "help": "let relevance through queries, keys and values, or through values alone with "
            f"attention weights as constants ({', '.join(ATTENTION_MODES)}); by default the first "
            "that the rule is defined for"
        },
    )
    relevance_stabiliser: Optional[float] = field(
        default=None,
        metadata={
            "help": "what keeps denominators off 0 in the rules epsilon (default: 0.01) and appendix-a2 "
            "(default: 1e-6)"
        },
    )
    relevance_max_tokens: Optional[int] = field(
        default=None,
        metadata={
            "help": "no relevance for sentences with more source or target tokens, end of sentence counted: "
            "its cost grows with the third power of the length"
        },
    )
    relevance_table: Optional[str] = field(
        default=None,
        metadata={"help": "write the averaged head relevance to this JSON file"},
    )
    dump_attention: Optional[str] = field(
        default=None,
        metadata={
            "help": "write the attention of every head, and relevance with --head-relevance, to "
            "this directory; the same command continues it after an interruption"
        },
    )
    dump_types: str = field(
        default="all",
        metadata={
            "help": "whose attention to dump: enc-self, dec-self, dec-enc, comma-separated, all, "
            "or none for relevance alone"
        },
    )


@register_task("translation_headprune", dataclass=TranslationHeadpruneConfig)
class TranslationHeadpruneTask(TranslationTask):
    """Translation; with ``--head-relevance`` or ``--dump-attention`` the best hypothesis of each
    sentence (the reference with ``--score-reference``) is recorded after fairseq has found it.

    Training and validation are those of ``translation``.
    """

    def __init__(self, cfg, src_dict, tgt_dict):
        super().__init__(cfg, src_dict, tgt_dict)
        self.record_options = RecordOptions.of(cfg)
        self.record: Optional[RunRecord] = None
        self._run = None  # configuration of fairseq-generate or fairseq-interactive
        self._models: List[Any] = []
        self._lines = 0
        self._numbers: deque = deque()

    # -- data --------------------------------------------------------------------------

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        """As fairseq; UserError when the folder of data is not what fairseq-preprocess wrote."""
        try:
            return super().setup_task(cfg, **kwargs)
        except Exception as error:  # fairseq says it with a bare Exception
            if not isinstance(error, OSError) and "infer language pair" not in str(error):
                raise
            raise UserError(
                f"{cfg.data} holds no binarised data: name the folder that fairseq-preprocess wrote"
            ) from None

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        """As fairseq; UserError when the data has no such part."""
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        except FileNotFoundError:
            raise UserError(
                f"{self.cfg.data} has no subset '{split}': choose a part that was binarised there"
            ) from None

    # -- before generation ------------------------------------------------------------

    def build_model(self, cfg, from_checkpoint=False):
        option = self.record_options.active and unsupported(plain(cfg))
        if option:
            raise UserError(f"heads cannot be told apart in a model with {option}: record one without it")
        model = super().build_model(cfg, from_checkpoint)
        if from_checkpoint and self.record_options.active:
            self._notice_inference(model)
        return model

    def _notice_inference(self, model):
        original = model.prepare_for_inference_

        def prepare_for_inference_(cfg):
            del model.prepare_for_inference_
            original(cfg)
            self._run = cfg
            self._models.append(model)
            if len(self._models) > 1:
                raise UserError(
                    "--path names several models: relevance and attention are of one model, so "
                    "give one checkpoint"
                )
            if cfg.generation.retain_dropout:
                raise UserError(
                    "--retain-dropout makes every pass another model: relevance and attention "
                    "need generation without it"
                )

        model.prepare_for_inference_ = prepare_for_inference_

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        """As fairseq; of fairseq-interactive's lines those that the dump has are left out, and overlong ones
        are skipped and counted instead of ending the program."""
        if not isinstance(dataset, NumberedLines):
            return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)
        kept = super().filter_indices_by_size(indices, dataset, max_positions, True)
        if len(kept) < len(indices):
            lost = sorted(dataset.first + int(i) for i in set(np.asarray(indices)) - set(np.asarray(kept)))
            say(f"skipped, longer than the model takes: lines {', '.join(map(str, lost))}")
            if self.record:
                self.record.overlong += lost
        if self._run is None:
            return kept
        record = self._open_record()
        missing = [i for i in kept if not record.done(dataset.first + int(i), dataset.src[i])]
        return np.array(missing, dtype=np.int64)

    def get_batch_iterator(self, dataset, *args, **more):
        """As fairseq; sentences that the dump has are left out of this shard's batches. (Left out before the
        batches are dealt to the shards, they would bring this one other shards' sentences.)"""
        whole = super().get_batch_iterator(dataset, *args, **more)
        if self._run is None or isinstance(dataset, NumberedLines):
            return whole
        record = self._open_record()
        batches = whole.frozen_batches[whole.shard_id :: whole.num_shards]
        record.expect(*_lengths(dataset, [i for batch in batches for i in batch]))
        batches = [[i for i in batch if not record.done(int(i), dataset.src[i])] for batch in batches]
        if not any(batches):
            record.close(show_table=True)
            say(f"{self.record_options.dump} is complete: nothing is left to do")
            raise SystemExit(0)
        return EpochBatchIterator(
            dataset,
            dataset.collater,
            [batch for batch in batches if batch],
            num_workers=more.get("num_workers", 0),
            buffer_size=more.get("data_buffer_size", 0),
        )

    def build_dataset_for_inference(self, src_tokens, src_lengths, constraints=None):
        first, self._lines = self._lines, self._lines + len(src_lengths)
        return NumberedLines(
            src_tokens,
            src_lengths,
            self.source_dictionary,
            tgt_dict=self.target_dictionary,
            constraints=constraints,
            first=first,
            numbers=self._numbers,
        )

    def build_generator(self, models, args, *rest, **more):
        generator = super().build_generator(models, args, *rest, **more)
        if self._run is None:
            return generator
        record = self._open_record()
        if self._interactive:
            record.expect_lines()
        generator = RecordingGenerator(generator, models[0], record, self.tgt_dict.pad(), self.tgt_dict.eos())
        # Neither program says when it is done, but both let go of the generator (often not before
        # the interpreter ends, since frames survive in the tracebacks of caught exceptions).
        weakref.finalize(generator, record.close, show_table=not self._interactive)
        return generator

    # -- generation ---------------------------------------------------------------------

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        recording = isinstance(generator, RecordingGenerator)
        interactive = recording and "id" not in sample
        if interactive:
            sample = dict(sample, id=self._numbers.popleft())
        hypotheses = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if interactive and self.record_options.rules:
            return [
                self._followed(id, candidates) for id, candidates in zip(sample["id"].tolist(), hypotheses)
            ]
        return hypotheses

    def _followed(self, id, candidates):
        if "head_relevance" not in candidates[0]:
            return candidates
        lines = self.record.relevance_lines(id, candidates[0]["head_relevance"])
        return FollowedByLines(candidates, lines)

    # -- what the run is ----------------------------------------------------------------

    @property
    def _interactive(self) -> bool:
        # no data set was loaded: sentences come from the input
        return not self.datasets

    def _open_record(self) -> RunRecord:
        if self.record is None:
            subset = self._run.dataset.gen_subset
            dataset = None if self._interactive else self.dataset(subset)
            self.record = RunRecord(
                self.record_options,
                self._models[0],
                (self.source_dictionary, self.target_dictionary),
                model_identity(self._run.common_eval.path),
                self._describe_data(dataset),
                self._describe_options(),
            )
        return self.record

    def _describe_data(self, dataset) -> Dict[str, Any]:
        data = {"source_lang": self.cfg.source_lang, "target_lang": self.cfg.target_lang}
        if self._interactive:
            return {**data, "input": self._run.interactive.input}
        sizes = np.ascontiguousarray(dataset.sizes, dtype=np.int64)
        shards = self._run.distributed_training
        if shards.distributed_world_size > 1:
            data["shard"] = f"{shards.distributed_rank} of {shards.distributed_world_size}"
        return {
            **data,
            "path": self.cfg.data,
            "subset": self._run.dataset.gen_subset,
            "sentences": len(sizes),
            # data that was binarised anew under the old name is another corpus
            "lengths_crc32": zlib.crc32(sizes.tobytes()),
        }

    def _describe_options(self) -> Dict[str, Any]:
        run = self._run
        options = {
            "generation": plain(run.generation),
            "model_overrides": run.common_eval.model_overrides,
            "fp16": bool(run.common.fp16),
        }
        if run.generation.sampling:
            options["seed"] = run.common.seed
        if self._interactive:
            options.update(tokenizer=plain(run.tokenizer), bpe=plain(run.bpe))
        return options


def _lengths(dataset, indices):
    """(source, target) lengths of these sentences, EOS counted."""
    source = np.asarray(dataset.src_sizes)[indices]
    if dataset.tgt_sizes is None:
        # before translating, a translation is taken to be as long as its source
        return source, source
    return source, np.asarray(dataset.tgt_sizes)[indices]
