"""``python -m analysis roles``: stream a dump once and write what every head does."""

import argparse
import datetime
import json
import platform
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import numpy as np
from tqdm import tqdm

import fairseq_headprune
from analysis import frequencies, roles_tables, roles, stream
from analysis.parses import ConlluFile, relation_name
from analysis.progress import Checkpoint, write_whole
from fairseq_headprune.dump import file_sha256, open_dump
from fairseq_headprune.errors import UserError
from fairseq_headprune.layout import flag, parse_types

ENOUGH = 200
"""Sentences after which an unfit file of parses or frequencies is refused without reading on."""
MAX_UNKNOWN = 0.1
"""Share of tokens that a frequency file may lack before it is another model's."""
LISTING = "unaligned.partial.jsonl"
"""Where unaligned sentences wait for the end of the pass."""
LISTED = 100
"""Unaligned sentences that heads.json lists; unaligned.tsv has them all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("dump", metavar="DUMP", help="directory of the dump")
    parser.add_argument("--out", metavar="DIR", required=True, help="directory for heads.json and its tables")
    trees = parser.add_mutually_exclusive_group()
    trees.add_argument("--conllu", metavar="FILE", help="dependency trees of the dump's source text, "
                       "CoNLL-U, plain or .gz, sentence i for sentence i (for syntactic heads)")  # fmt: skip
    trees.add_argument("--stanza", metavar="DIR", help="parse the dump's words with the Stanza models "
                       "in DIR, offline; the trees are kept as trees.conllu in the output directory")  # fmt: skip
    parser.add_argument("--stanza-lang", metavar="LANG", default="en", help="language of the models (default: en)")
    parser.add_argument("--frequencies", metavar="DICT", help="how often each source token occurs in "
                        "training, lines 'token count', e.g. the model's dict.en.txt (for rare-word heads)")  # fmt: skip
    parser.add_argument("--types", metavar="TYPES", help="attention types, e.g. enc-self,dec-enc (default: all "
                        "that the dump has)")  # fmt: skip
    parser.add_argument("--relations", metavar="NAMES", default="nsubj,obj,amod,advmod",
                        help="dependency relations (default: nsubj,obj,amod,advmod; dobj is obj)")  # fmt: skip
    parser.add_argument("--keep-subtypes", action="store_true", help="count nsubj:pass apart from nsubj, and so on")
    rules = parser.add_argument_group("when a head has a function (paper, section 5)")
    rules.add_argument("--positional-share", type=float, default=roles.POSITIONAL_SHARE, metavar="X",
                       help="positional: share of one relative position (default: 0.9)")  # fmt: skip
    rules.add_argument("--positional-over", choices=("all", "possible"), default="all",
                       help="... over all query tokens, or those for which that position exists (default: all)")  # fmt: skip
    rules.add_argument("--margin", type=float, default=roles.SYNTACTIC_MARGIN, metavar="X",
                       help="syntactic: how far above the positional baseline (default: 0.1)")  # fmt: skip
    rules.add_argument("--margin-kind", choices=("points", "relative"), default="points",
                       help="... in points of accuracy, or relative to the baseline (default: points)")  # fmt: skip
    rules.add_argument("--rare-top", type=int, default=roles.RARE_TOP, metavar="N",
                       help="rare words: leave out sentences whose rarest token is among the N most "
                       "frequent (default: 500)")  # fmt: skip
    rules.add_argument("--rare-share", type=float, default=roles.RARE_SHARE, metavar="X",
                       help="... how often on one of the two rarest tokens (default: 0.5, and 0.1 above chance)")  # fmt: skip
    numbers = parser.add_argument_group("intervals and checks")
    numbers.add_argument("--bootstrap", type=int, default=1000, metavar="N", help="resamples (default: 1000)")
    numbers.add_argument("--level", type=float, default=0.95, metavar="X", help="of the intervals (default: 0.95)")
    numbers.add_argument("--seed", type=int, default=1, metavar="N", help="of the resamples (default: 1)")
    numbers.add_argument("--max-unaligned", type=float, default=0.1, metavar="X",
                         help="share of sentences whose parse may have another text before the run is "
                         "refused (default: 0.1)")  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Run the command: 0 when heads.json is written, 130 when interrupted."""
    started = time.monotonic()
    limits = _limits(args)
    relations = _relations(args.relations, args.keep_subtypes)
    dump = open_dump(args.dump)
    if not len(dump):
        raise UserError(f"{args.dump} has no sentences yet: finish the dump first")
    types = _types(dump, args)
    out = Path(args.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the output directory {out}: {error.strerror}") from None
    trees, parses = _trees(dump, args, out)
    counted = frequencies.load(args.frequencies, args.rare_top) if args.frequencies else None
    analysis = stream.Analysis(dump, types, trees, relations, args.keep_subtypes, counted)
    provenance = _provenance(args, dump, types, relations, parses, counted, limits)
    checkpoint = Checkpoint(out / "roles.partial.npz", _identity(dump, provenance))
    try:
        unaligned = _stream(dump, analysis, checkpoint, out, args)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from where it was", file=sys.stderr)
        return 130
    except UserError:
        checkpoint.remove()
        (out / LISTING).unlink(missing_ok=True)
        raise
    provenance["counts"] = dict(analysis.counts)
    provenance["unaligned"] = unaligned[:LISTED]
    content = {"provenance": provenance}
    content.update(
        roles_tables.build(dump, analysis, limits, args.bootstrap, args.level, args.seed)
    )
    provenance["seconds"] = round(time.monotonic() - started, 2)
    files = {out / name: text for name, text in roles_tables.tables(content).items()}
    files[out / "unaligned.tsv"] = "".join(f"{u['id']}\t{u['reason']}\n" for u in unaligned)
    files[out / "heads.json"] = roles_tables.to_json(content)
    write_whole(files)
    checkpoint.remove()
    print(_summary(content, out))
    return 0


# -- options ----------------------------------------------------------------------------


def _limits(args) -> roles.Thresholds:
    for name in ("positional_share", "margin", "rare_share", "max_unaligned"):
        if not 0 <= getattr(args, name) <= 1:
            raise UserError(f"--{name.replace('_', '-')} {getattr(args, name)} must be between 0 and 1")
    if not 0 < args.level < 1:
        raise UserError(f"--level {args.level} must be between 0 and 1, e.g. 0.95")
    for name in ("bootstrap", "rare_top"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} must be 1 or more")
    return roles.Thresholds(
        positional_share=args.positional_share,
        positional_over=args.positional_over,
        margin=args.margin,
        margin_kind=args.margin_kind,
        rare_share=args.rare_share,
    )


def _relations(text: str, keep_subtypes: bool) -> Tuple[str, ...]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise UserError("--relations names no relation: write e.g. nsubj,obj")
    if not keep_subtypes and any(":" in name for name in names):
        raise UserError("--relations names a subtype: add --keep-subtypes to count subtypes apart")
    return tuple(dict.fromkeys(relation_name(name, keep_subtypes) for name in names))


def _types(dump, args) -> Tuple[str, ...]:
    has = dump.manifest["contents"]["attention"]
    types = parse_types(args.types) if args.types else tuple(has)
    missing = [flag(t) for t in types if t not in has]
    if missing:
        raise UserError(f"{args.dump} has no {', '.join(missing)} attention: dump it, or ask for "
                        f"{', '.join(map(flag, has)) or 'another dump'} with --types")  # fmt: skip
    if not types:
        raise UserError(f"{args.dump} has no attention at all: dump some, or name --types")
    for option in ("conllu", "stanza", "frequencies"):
        if getattr(args, option) and "enc_self" not in types:
            raise UserError(f"--{option} is about encoder self-attention, which "
                            f"{'--types leaves out' if args.types else 'the dump does not have'}")  # fmt: skip
    return types


def _trees(dump, args, out) -> Tuple[Optional[ConlluFile], Optional[Dict]]:
    if args.stanza:
        from analysis import stanza_parses  # stanza is heavy and optional

        file, parser = stanza_parses.parse_dump(
            dump, args.stanza, args.stanza_lang, out / "trees.conllu", quiet=args.quiet
        )
        trees = ConlluFile(file)
        return trees, {
            "kind": "stanza", "file": str(file), "sha256": file_sha256(file), "parser": parser
        }  # fmt: skip
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


def _stream(dump, analysis, checkpoint, out, args) -> List[Dict]:
    """Run the pass from the start or from where a killed run was; the unaligned sentences."""
    listing = out / LISTING
    state = checkpoint.load(analysis.tallies()) or {
        "shard": 0, "position": 0, "counts": {}, "listed": 0
    }  # fmt: skip
    analysis.counts.update(state["counts"])
    listing.touch()
    with open(listing, "r+", encoding="utf-8") as file:
        file.truncate(state["listed"])
        file.seek(0, 2)
        bar = tqdm(total=len(dump), initial=state["position"], unit=" sentences", mininterval=1,
                   desc="roles", disable=args.quiet)  # fmt: skip

        def after_shard(shard, position, unaligned):
            file.writelines(json.dumps(entry._asdict()) + "\n" for entry in unaligned)
            bar.update(position - bar.n)
            _check_fit(analysis, unaligned, args, last=position == len(dump))
            file.flush()
            checkpoint.save(
                analysis.tallies(),
                {"shard": shard, "position": position, "counts": analysis.counts, "listed": file.tell()},
            )

        with bar:
            stream.run(dump, analysis, state["shard"], state["position"], after_shard)
        file.seek(0)
        entries = [json.loads(line) for line in file]
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


# -- what is said about the run ----------------------------------------------------------


def _provenance(args, dump, types, relations, parses, counted, limits) -> Dict:
    manifest = dump.manifest
    options = {
        "types": list(types),
        "relations": list(relations),
        "keep_subtypes": args.keep_subtypes,
        **limits._asdict(),
        "rare_top": args.rare_top,
        "bootstrap": args.bootstrap,
        "level": args.level,
        "seed": args.seed,
        "max_unaligned": args.max_unaligned,
    }
    return {
        "program": "analysis roles",
        "arguments": sys.argv[1:],
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": None,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "fairseq_headprune": fairseq_headprune.__version__,
        },
        "model": manifest["model"],
        "dump": {
            "directory": str(args.dump),
            "sentences": len(dump),
            "complete": bool(manifest.get("complete")),
            "damaged_shards": dict(dump.damaged),
            "data": manifest["data"],
            "options": manifest["options"],
        },
        "layout": manifest["layout"],
        "parses": parses,
        "frequencies": counted
        and {
            "file": args.frequencies,
            "sha256": file_sha256(args.frequencies),
            "types": len(counted.counts),
            "tokens": sum(counted.counts.values()),
        },
        "options": options,
    }


def _identity(dump, provenance) -> Dict:
    """What must be equal for a saved state to be continued."""
    kept = ("versions", "model", "dump", "layout", "parses", "frequencies", "options")
    identity = {key: provenance[key] for key in kept}
    return {**identity, "shards": dump.shard_numbers, "counts": dump.counts}


def _summary(content, out) -> str:
    lines = []
    for record in content["heads"]:
        if record["functions"]:
            name = f"{flag(record['type'])}:{record['layer']}:{record['head']}"
            lines.append(f"  {name:<14} {'; '.join(record['functions'])}")
    counts = content["provenance"]["counts"]
    unfit = counts["unaligned_sentences"]
    return "\n".join(
        [
            f"{len(content['heads'])} heads, {counts['sentences']} sentences"
            + (f", {unfit} of them not aligned to their parse (unaligned.tsv)" if unfit else ""),
            *(lines or ["  no head passes a threshold"]),
            f"written: {out / 'heads.json'}",
        ]
    )
