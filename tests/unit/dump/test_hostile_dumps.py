"""Dumps that somebody spoilt, in hundreds of ways: a shard that does not hold what it announces is named
and left out, a manifest of that kind is one sentence, and nothing ever ends in a traceback."""

import contextlib
import copy
import json
import logging
import os
import random
import shutil

import numpy as np
import pytest

from fairseq_headprune.analysis import relevance
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.commands import main
from fairseq_headprune.dump import DumpWriter, make_manifest, open_dump
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout

LAYOUT = HeadLayout(enc_self=((0, 2), (), (1,)), dec_self=((0, 1, 3), (3,)), dec_enc=((), (0, 3)))
LENGTHS = [(4, 3), (2, 5), (3, 3), (5, 2)]
WORDS = "the dog sees a cat".split()
ODD = [None, True, False, -1, 0, 1, 9, 10**12, 2.0, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "3"]
ODD += [[], {}, [None], [[0]], {"a": 1}, [True], ["enc_self"] * 2, "enc_self", [[[0]]], "é" * 300]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Four sentences in two shards, with relevance."""
    directory = tmp_path_factory.mktemp("good") / "dump"
    rng = np.random.default_rng(1)
    manifest = make_manifest(
        model={"file": "model.pt", "sha256": "ab" * 32},
        layout=LAYOUT,
        num_heads={"enc_self": 3, "dec_self": 4, "dec_enc": 4},
        relevance=ATTENTION_TYPES,
        data={"path": "data-bin", "subset": "test"},
        options={"beam": 5, "lenpen": 1.0, "relevance": {"rule": "z-plus"}},
    )
    counts = LAYOUT.counts()
    with DumpWriter(directory, manifest) as writer:
        for id, (S, T) in enumerate(LENGTHS):
            shapes = {"enc_self": (S, S), "dec_self": (T, T), "dec_enc": (T, S)}
            writer.add(
                id,
                [*WORDS[: S - 1], "</s>"],
                [*WORDS[: T - 1], "</s>"],
                {t: rng.dirichlet(np.ones(s[1]), (counts[t], s[0])) for t, s in shapes.items()},
                {t: rng.random((T, counts[t])) for t in ATTENTION_TYPES},
            )
            if id == 1:
                writer.flush()
    return directory


def read_all(directory) -> dict[str, str]:
    """Look at everything that can be read of a dump; its damaged shards."""
    dump = open_dump(directory)
    for record in dump:
        S, T = len(record.source), len(record.target)
        queries_keys = {"enc_self": (S, S), "dec_self": (T, T), "dec_enc": (T, S)}
        for type in record.attention:
            layers, heads = len(dump.layout[type]), dump.num_heads[type]
            assert record.attention[type].shape == (layers, heads, *queries_keys[type])
        for type in record.relevance:
            assert record.relevance[type].shape == (T, len(dump.layout[type]), dump.num_heads[type])
        record.intact()
        assert dump[record.id].id == record.id
    dump.verify()
    return dump.damaged


def survives(directory, out, capsys) -> str:
    """What becomes of a spoilt dump: "refused", "left out" or "read". A traceback fails the test."""
    try:
        damaged = read_all(directory)
        fate = "left out" if damaged else "read"
        assert all("\n" not in reason and reason for reason in damaged.values())
    except UserError as error:
        fate = "refused"
        assert "\n" not in str(error)
    if fate != "refused":
        with contextlib.suppress(UserError):
            relevance.split_half(open_dump(directory))
    for words in (
        ["roles", directory, "--out", out / "roles", "--quiet", "--bootstrap", 3],
        ["maps", directory, "--out", out / "maps.json"],
    ):
        capsys.readouterr()
        try:
            status = main(words)
        except SystemExit as stopped:
            status = stopped.code
        said = capsys.readouterr().err.strip().splitlines()
        assert status in ((0, 2) if fate != "refused" else (2,))
        if status == 2:
            assert said[-1].startswith("error: ")
    shutil.rmtree(out / "roles", ignore_errors=True)
    return fate


def places(value, path=()):
    """Every place in a JSON value, the whole first."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def spoil_json(value, rng):
    """One place gone, replaced, doubled or turned round."""
    value = copy.deepcopy(value)
    *outer, last = rng.choice(list(places(value))[1:])
    inside = value
    for key in outer:
        inside = inside[key]
    what = rng.randrange(4)
    if what == 0:
        del inside[last]
    elif what == 1 and isinstance(inside, list):
        inside.insert(last, inside[last])
    elif what == 2 and isinstance(inside[last], list):
        inside[last].reverse()
    else:
        inside[last] = rng.choice(ODD)
    return value


def spoil_manifest(directory, rng):
    path = directory / "manifest.json"
    path.write_text(json.dumps(spoil_json(json.loads(path.read_text()), rng)))


def spoil_a_line(directory, rng):
    path = directory / "shard-00001.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in spoil_json(lines, rng)))


def spoil_a_header(directory, rng):
    path = directory / "shard-00001.safetensors"
    header, data = split(path)
    name = rng.choice(sorted(header))
    if rng.random() < 0.5:
        header = spoil_json(header, rng)
    elif rng.random() < 0.5:
        header[name]["dtype"] = rng.choice(["BF16", "I16", "F16", "U8", "F8_E4M3", "F32"])
        if header[name]["dtype"] in ("U8", "F8_E4M3"):
            header[name]["shape"].append(2)
    else:
        shape = header[name]["shape"]
        rng.shuffle(shape)
        shape.insert(rng.randrange(len(shape)), 1)
    join(path, header, data)


def split(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:start]), data[start:]


def join(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def spoil_bytes(directory, rng):
    path = rng.choice(sorted(directory.iterdir()))
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 3, 30])):
        place = rng.randrange(min(len(data), rng.choice([20, len(data)])))
        kind = rng.randrange(3)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            data.insert(place, rng.randrange(256))
        else:
            del data[place : place + rng.choice([1, 9, 500])]
        data = data or bytearray(b"\0")
    path.write_bytes(bytes(data))


def spoil_the_folder(directory, rng):
    paths = sorted(directory.iterdir())
    path = rng.choice(paths)
    what = rng.randrange(8)
    if what == 0:
        for name in ("shard-00001", "shard-00000"):
            shutil.copy(directory / f"{name}.jsonl", directory / f"{rng.choice([name, 'shard-0'])}0.jsonl")
            shutil.copy(directory / f"{name}.safetensors", directory / f"{name}0.safetensors")
    elif what == 1:
        other = rng.choice([p for p in paths if p != path])
        shutil.copy(other, directory / "between")
        shutil.copy(path, other)
        os.replace(directory / "between", path)
    else:
        path.unlink()
    if what == 2:
        path.mkdir()
    elif what == 3:
        path.symlink_to("nowhere")
    elif what == 4:
        path.symlink_to(path.name)
    elif what == 5:
        os.mkfifo(path)
    elif what == 6:
        path.write_bytes(b"")


@pytest.mark.parametrize(
    "spoil, times, fates",
    [
        (spoil_manifest, 80, {"refused", "read"}),
        (spoil_a_line, 80, {"left out", "read"}),
        (spoil_a_header, 60, {"left out"}),
        (spoil_bytes, 80, {"refused", "left out", "read"}),
        (spoil_the_folder, 40, {"refused", "left out"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_no_dump_ends_in_a_traceback(good, tmp_path, capsys, caplog, spoil, times, fates):
    caplog.set_level(logging.ERROR)
    seen = set()
    for seed in range(times):
        directory = tmp_path / str(seed)
        shutil.copytree(good, directory)
        spoil(directory, random.Random(f"{spoil.__name__} {seed}"))
        try:
            seen.add(survives(directory, tmp_path, capsys))
        except Exception as error:
            raise AssertionError(f"{spoil.__name__}, seed {seed}: {error!r}") from error
        shutil.rmtree(directory)
    assert seen >= fates


def change_manifest(directory, change):
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "change, words",
    [
        (
            lambda m: m["layout"]["enc_self"][0].append(9),
            "layout names head 9 of enc-self layer 0, which has 3",
        ),
        (lambda m: m["num_heads"].update(enc_self=0), "num_heads.enc_self is 0"),
        (lambda m: m["num_heads"].update(enc_self=-4), "num_heads.enc_self is -4"),
        (lambda m: m["num_heads"].update(enc_self=True), "num_heads.enc_self is True"),
        (lambda m: m["num_heads"].update(enc_self=10**12), "num_heads.enc_self is 1000000000000"),
        (lambda m: m["layout"].update(enc_self=[[]] * 2000), "2000 layers of enc-self"),
        (lambda m: m.update(model="model.pt"), "model is no JSON object"),
        (lambda m: m["model"].update(sha256=7), "model.sha256 is no text"),
        (lambda m: m.update(data=[]), "data is no JSON object"),
        (lambda m: m.update(options=3), "options is no JSON object"),
        (lambda m: m.update(complete="yes"), "complete is neither"),
        (lambda m: m["contents"].update(attention="enc_self"), "contents.attention"),
        (lambda m: m["contents"].update(attention=["enc_self"] * 2), "contents.attention"),
        (lambda m: m["options"].update(lenpen=float("nan")), "no JSON"),
        (lambda m: m["model"].update(file="\ud800"), "no JSON"),
    ],
)
def test_a_damaged_manifest_is_one_sentence(good, tmp_path, capsys, change, words):
    shutil.copytree(good, tmp_path / "dump")
    change_manifest(tmp_path / "dump", change)
    with pytest.raises(UserError, match=words):
        open_dump(tmp_path / "dump")
    assert survives(tmp_path / "dump", tmp_path, capsys) == "refused"


def test_a_model_without_a_type_of_attention_has_no_heads_of_it(good, tmp_path):
    change = {"layout": {**LAYOUT.to_dict(), "dec_self": []}}
    shutil.copytree(good, tmp_path / "dump")
    change_manifest(tmp_path / "dump", lambda m: (m.update(change), m["num_heads"].update(dec_self=0)))
    assert open_dump(tmp_path / "dump").num_heads["dec_self"] == 0


def change_line(directory, change):
    path = directory / "shard-00001.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines[0])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda line: line.update(source=line["source"] * 3), "2.attention.enc_self has the shape"),
        (lambda line: line.update(target=line["target"] * 3), "2.attention.dec_self has the shape"),
        (lambda line: line.update(source=[]), "source is no list of tokens"),
        (lambda line: line.update(source="the dog"), "source is no list of tokens"),
        (lambda line: line.update(target=[1, 2, 3]), "target is no list of tokens"),
        (lambda line: line.update(target=["\ud800"] * 3), "surrogate"),
        (lambda line: line.pop("crc32"), "crc32 is None"),
        (lambda line: line.update(id=True), "id is True"),
        (lambda line: line.update(id=7), "7.attention.enc_self is missing, or sentence 7 is there twice"),
    ],
)
def test_a_line_that_does_not_fit_its_arrays_is_named(good, tmp_path, change, words):
    shutil.copytree(good, tmp_path / "dump")
    change_line(tmp_path / "dump", change)
    dump = open_dump(tmp_path / "dump")
    assert (
        dump.ids == [0, 1] and list(dump.damaged) == ["shard-00001"] and words in dump.damaged["shard-00001"]
    )


def bfloat16(header):
    header["2.attention.enc_self"]["dtype"] = "BF16"


def other_axes(header):
    header["3.attention.dec_enc"]["shape"] = [2, 5, 2]


def a_head_less(header):
    header["2.attention.enc_self"]["shape"] = [1, 3, 9]


@pytest.mark.parametrize(
    "change, words",
    [
        (bfloat16, "2.attention.enc_self is BF16, and a dump has F16 there"),
        (
            other_axes,
            "3.attention.dec_enc has the shape [2, 5, 2], and its heads and tokens ask for [2, 2, 5]",
        ),
        (a_head_less, "2.attention.enc_self has the shape [1, 3, 9]"),
    ],
)
def test_an_array_that_does_not_fit_its_line_is_named(good, tmp_path, change, words):
    shutil.copytree(good, tmp_path / "dump")
    path = tmp_path / "dump" / "shard-00001.safetensors"
    header, data = split(path)
    change(header)
    join(path, header, data)
    dump = open_dump(tmp_path / "dump")
    assert dump.ids == [0, 1] and words in dump.damaged["shard-00001"]


@pytest.mark.parametrize("ending", ["jsonl", "safetensors"])
def test_a_link_to_nowhere_is_a_missing_file(good, tmp_path, ending):
    shutil.copytree(good, tmp_path / "dump")
    path = tmp_path / "dump" / f"shard-00001.{ending}"
    path.unlink()
    path.symlink_to("nowhere")
    assert open_dump(tmp_path / "dump").damaged == {"shard-00001": f"{path.name} is missing"}


def test_a_sentence_of_two_shards_is_read_once(good, tmp_path):
    shutil.copytree(good, tmp_path / "dump")
    for ending in ("jsonl", "safetensors"):
        shutil.copy(tmp_path / "dump" / f"shard-00001.{ending}", tmp_path / "dump" / f"shard-00002.{ending}")
    dump = open_dump(tmp_path / "dump")
    assert dump.ids == [0, 1, 2, 3] and "earlier shard" in dump.damaged["shard-00002"]
