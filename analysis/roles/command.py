"""``headprune roles``: stream a dump once and write what every head does."""

import argparse
import json
import os
import time
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from fairseq_headprune.analysis import frequencies
from fairseq_headprune.analysis.parses import ConlluFile
from fairseq_headprune.analysis.roles import options as roles_options
from fairseq_headprune.analysis.roles import stream
from fairseq_headprune.analysis.roles import tables as roles_tables
from fairseq_headprune.analysis.roles.provenance import identity, provenance, summary
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import CannotWrite, UserError, goes_on
from fairseq_headprune.base.locking import FolderLock
from fairseq_headprune.base.progress import Checkpoint, write_whole
from fairseq_headprune.dump import file_sha256, open_dump

add_arguments = roles_options.add_arguments

ENOUGH = 200
"""Sentences after which an unfit file of parses or frequencies is refused without reading on."""
MAX_UNKNOWN = 0.1
"""Share of tokens that a frequency file may lack before it is another model's."""
LISTING = "unaligned.partial.jsonl"
"""Where unaligned sentences wait for the end of the pass."""
LISTED = 100
"""Unaligned sentences that heads.json lists; unaligned.tsv has them all."""


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    started = time.monotonic()
    limits = roles_options.thresholds(args)
    relations = roles_options.relations(args.relations, args.keep_subtypes)
    dump = open_dump(args.dump)
    if dump.damaged and not len(dump):
        name, reason = next(iter(dump.damaged.items()))
        raise UserError(f"{args.dump} is damaged, every shard of it ({name}: {reason}): dump it again")
    if not len(dump):
        raise UserError(f"{args.dump} has no sentences yet: finish the dump first")
    types = roles_options.types(dump, args)
    with _folder(Path(args.out)) as out:
        _write(args, dump, types, relations, limits, out, started)
    if args.figures:
        from fairseq_headprune.analysis.figures import command as figures  # loads matplotlib and fairseq

        figures.draw_heads(Path(args.out) / "heads.json", args.figures)


@contextmanager
def _folder(out: Path):
    """The output directory, for this run alone; if it is new, a run that is refused does not leave it
    behind empty."""
    new = not os.path.lexists(out)
    try:
        with FolderLock(out), goes_on("the same command goes on from where it was"):
            yield out
    except UserError:
        if new and not any(out.iterdir()):
            out.rmdir()
        raise


def _write(args, dump, types, relations, limits, out: Path, started: float) -> None:
    trees, parses = _trees(dump, args, out)
    counted = frequencies.load(args.frequencies, args.rare_top) if args.frequencies else None
    analysis = stream.Analysis(dump, types, trees, relations, args.keep_subtypes, counted)
    about = provenance(args, dump, types, relations, parses, counted, limits)
    checkpoint = Checkpoint(out / "roles.partial.npz", identity(dump, about))
    try:
        unaligned = _stream(dump, analysis, checkpoint, out, args)
    except CannotWrite:
        raise
    except UserError:
        checkpoint.remove()
        (out / LISTING).unlink(missing_ok=True)
        raise
    about["counts"] = dict(analysis.counts)
    about["unaligned"] = unaligned[:LISTED]
    content = {"provenance": about}
    content.update(roles_tables.build(dump, analysis, limits, args.bootstrap, args.level, args.seed))
    about["seconds"] = round(time.monotonic() - started, 2)
    texts = {out / name: text for name, text in roles_tables.tables(content).items()}
    texts[out / "unaligned.tsv"] = "".join(f"{u['id']}\t{u['reason']}\n" for u in unaligned)
    texts[out / "heads.json"] = roles_tables.to_json(content)
    write_whole(texts)
    checkpoint.remove()
    print(summary(content, out))


def _trees(dump, args, out) -> tuple[ConlluFile | None, dict | None]:
    if args.stanza:
        from fairseq_headprune.analysis import stanza_parses  # stanza is heavy and optional

        file, parser = stanza_parses.parse_dump(
            dump, args.stanza, args.stanza_lang, out / "trees.conllu", quiet=args.quiet
        )
        trees = ConlluFile(file)
        return trees, {
            "kind": "stanza",
            "file": str(file),
            "sha256": file_sha256(file),
            "parser": parser,
        }
    if not args.conllu:
        return None, None
    trees = ConlluFile(args.conllu)
    wanted = max(dump.ids) + 1
    if len(trees) < wanted or (len(trees) > wanted and dump.manifest.get("complete")):
        raise UserError(
            f"{args.conllu} has {len(trees)} sentences and the dump's text {wanted}: give the "
            "parses of that text, sentence by sentence in its order"
        )
    digest = file_sha256(args.conllu)
    return trees, {"kind": "conllu", "file": args.conllu, "sha256": digest, "parser": None}


# -- the pass ---------------------------------------------------------------------------


def _stream(dump, analysis, checkpoint, out, args) -> list[dict]:
    """Run the pass from the start or from where a killed run was; the unaligned sentences."""
    listing = out / LISTING
    state = checkpoint.load(analysis.tallies()) or {
        "shard": 0,
        "position": 0,
        "counts": {},
        "listed": 0,
    }
    analysis.counts.update(state["counts"])
    with open(listing, "a+b", buffering=0) as file:
        file.truncate(state["listed"])
        file.seek(0, 2)
        bar = tqdm(
            total=len(dump),
            initial=state["position"],
            unit=" sentences",
            mininterval=1,
            desc="roles",
            disable=args.quiet,
        )

        def after_shard(shard, position, unaligned):
            files.append(file, "".join(json.dumps(entry._asdict()) + "\n" for entry in unaligned))
            bar.update(position - bar.n)
            _check_fit(analysis, unaligned, args, last=position == len(dump))
            checkpoint.save(
                analysis.tallies(),
                {
                    "shard": shard,
                    "position": position,
                    "counts": analysis.counts,
                    "listed": file.tell(),
                },
            )

        with bar:
            stream.run(dump, analysis, state["shard"], state["position"], after_shard)
        file.seek(0)
        entries = [json.loads(line) for line in file.read().splitlines()]
    listing.unlink()
    return sorted(entries, key=lambda entry: entry["id"])


def _check_fit(analysis, unaligned, args, last: bool):
    """UserError when parses or frequencies are plainly those of another text or model."""
    counts = analysis.counts
    bad, good = counts["unaligned_sentences"], counts["parsed_sentences"]
    if (last or bad + good >= ENOUGH) and bad > args.max_unaligned * (bad + good):
        example = f" (sentence {unaligned[0].id}: {unaligned[0].reason})" if unaligned else ""
        raise UserError(
            f"{bad} of {bad + good} sentences have another text than their parse in "
            f"{args.conllu or args.stanza}{example}: give the parses of the dump's text, in its order"
        )
    tokens = counts["source_tokens"] - counts["sentences"]
    if analysis.rare and (last or counts["sentences"] >= ENOUGH):
        unknown = counts["unknown_to_frequencies"]
        if unknown > MAX_UNKNOWN * tokens:
            raise UserError(
                f"{args.frequencies} lacks {unknown} of the first {tokens} source tokens: give the "
                "dictionary of the model's source language"
            )
