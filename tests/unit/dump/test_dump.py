"""The dump: what is written comes back; kills, damage and foreign directories lose nothing."""

import gc
import json
import logging
import multiprocessing
import os
import signal
import time
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.dump import DumpWriter, estimate_bytes, human_size, make_manifest, open_dump
from fairseq_headprune.dump import format as dump_format
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout

LAYOUT = HeadLayout(enc_self=((0, 2), (), (1,)), dec_self=((0, 1, 2, 3), (3,)), dec_enc=((), (0, 3)))
NUM_HEADS = {"enc_self": 3, "dec_self": 4, "dec_enc": 4}


def manifest(layout=LAYOUT, num_heads=NUM_HEADS, relevance=ATTENTION_TYPES, **changes):
    settings = dict(
        model={"file": "model.pt", "sha256": "ab" * 32},
        data={"path": "data-bin", "subset": "test"},
        options={"beam": 5, "lenpen": 1.0},
    )
    settings.update(changes)
    return make_manifest(layout=layout, num_heads=num_heads, relevance=relevance, **settings)


def sentence(id, source_length, target_length, layout=LAYOUT, seed=0):
    """Arguments of `DumpWriter.add`, stored form, made from the id alone."""
    rng = np.random.default_rng([seed, id])
    counts = layout.counts()
    S, T = source_length, target_length
    shape = {"enc_self": (S, S), "dec_self": (T, T), "dec_enc": (T, S)}
    return dict(
        id=id,
        source=[f"s{id}_{n}" for n in range(S - 1)] + ["</s>"],
        target=[f"ä\u2028{id} {n}" for n in range(T - 1)] + ["</s>"],
        attention={t: rng.random((counts[t],) + shape[t]) for t in ATTENTION_TYPES},
        relevance={t: rng.normal(size=(T, counts[t])) for t in ATTENTION_TYPES},
    )


def write(directory, sentences, shard_bytes=1 << 20, complete=True, **changes):
    writer = DumpWriter(directory, manifest(**changes), shard_bytes=shard_bytes)
    for one in sentences:
        if one["id"] not in writer.done_ids:
            writer.add(**one)
    writer.close(complete)
    return writer


def spread_slowly(stored, layout, num_heads, type, heads_axis):
    """The full grid, filled head by head."""
    shape = list(stored.shape)
    shape[heads_axis : heads_axis + 1] = [len(layout[type]), num_heads[type]]
    full = np.zeros(shape, stored.dtype)
    number = 0
    for layer, heads in enumerate(layout[type]):
        for head in heads:
            where = [slice(None)] * heads_axis
            full[tuple(where + [layer, head])] = stored[tuple(where + [number])]
            number += 1
    return full


def check(record, expected, layout=LAYOUT, num_heads=NUM_HEADS):
    assert (record.id, record.source, record.target) == tuple(
        expected[key] for key in ("id", "source", "target")
    )
    for type in ATTENTION_TYPES:
        attention = expected["attention"][type].astype(np.float16)
        relevance = expected["relevance"][type].astype(np.float32)
        assert record.heads_attention(type).dtype == np.float16
        np.testing.assert_array_equal(record.heads_attention(type), attention)
        np.testing.assert_array_equal(record.heads_relevance(type), relevance)
        np.testing.assert_array_equal(
            record.attention[type], spread_slowly(attention, layout, num_heads, type, 0)
        )
        np.testing.assert_array_equal(
            record.relevance[type], spread_slowly(relevance, layout, num_heads, type, 1)
        )


@st.composite
def layouts(draw):
    """A layout with its head counts; some layers empty, some types without a head."""
    num_heads = {t: draw(st.integers(1, 4)) for t in ATTENTION_TYPES}
    encoder, decoder = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    depth = {"enc_self": encoder, "dec_self": decoder, "dec_enc": decoder}
    layers = {
        t: tuple(tuple(sorted(draw(st.sets(st.integers(0, num_heads[t] - 1))))) for _ in range(depth[t]))
        for t in ATTENTION_TYPES
    }
    return HeadLayout(**layers), num_heads


@settings(max_examples=40, deadline=None)
@given(
    layouts(),
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=8),
    st.permutations(range(8)),
    st.integers(1, 4000),
)
def test_round_trip(tmp_path_factory, model, lengths, order, shard_bytes):
    layout, num_heads = model
    directory = tmp_path_factory.mktemp("dump")
    sentences = [sentence(order[n], S, T, layout) for n, (S, T) in enumerate(lengths)]
    write(directory, sentences, shard_bytes, layout=layout, num_heads=num_heads)
    dump = open_dump(directory)
    assert dump.layout == layout and dump.manifest["complete"] and not dump.damaged
    assert dump.ids == [one["id"] for one in sentences] and len(dump) == len(sentences)
    for record, expected in zip(dump, sentences):
        check(record, expected, layout, num_heads)
    for expected in reversed(sentences):
        check(dump[expected["id"]], expected, layout, num_heads)
    assert dump.verify() == {} and dump.counts == dump.manifest["counts"]
    assert dump.counts["source_tokens"] == sum(S for S, _ in lengths)


def test_full_grids_may_be_added_and_come_back(tmp_path):
    one = sentence(3, 4, 2)
    write(tmp_path / "a", [one])
    record = open_dump(tmp_path / "a")[3]
    full = dict(one, attention=dict(record.attention), relevance=dict(record.relevance))
    write(tmp_path / "b", [full])
    for type in ATTENTION_TYPES:
        expected = record.heads_attention(type)
        np.testing.assert_array_equal(open_dump(tmp_path / "b")[3].heads_attention(type), expected)


def test_whole_models_are_read_without_a_copy(tmp_path):
    layout, heads = HeadLayout.full(2, 3, 2, 3), dict.fromkeys(ATTENTION_TYPES, 3)
    one = sentence(0, 4, 2, layout)
    write(tmp_path / "d", [one], layout=layout, num_heads=heads)
    record = open_dump(tmp_path / "d")[0]
    grid = record.attention["enc_self"]
    assert grid.shape == (2, 3, 4, 4) and not grid.flags.owndata
    assert np.shares_memory(grid, record.heads_attention("enc_self"))


def test_the_files_can_be_read_without_this_package(tmp_path):
    sentences = [sentence(n, 3 + n, 4) for n in range(3)]
    write(tmp_path, sentences)
    with open(tmp_path / "shard-00000.jsonl", encoding="utf-8", newline="\n") as file:
        lines = [json.loads(line) for line in file.read().split("\n")[:-1]]
    arrays = load_file(tmp_path / "shard-00000.safetensors")
    assert [line["id"] for line in lines] == [0, 1, 2] and len(arrays) == 3 * 6
    assert arrays["2.attention.dec_enc"].shape == (2, 4, 5)
    assert arrays["2.attention.dec_enc"].dtype == np.float16
    assert arrays["1.relevance.dec_self"].shape == (4, 5)
    assert arrays["1.relevance.dec_self"].dtype == np.float32
    layout = json.loads((tmp_path / "manifest.json").read_text())["layout"]
    index = [(layer, head) for layer, heads in enumerate(layout["enc_self"]) for head in heads]
    assert index == open_dump(tmp_path).head_index["enc_self"] == [(0, 0), (0, 2), (2, 1)]


def test_shards_are_cut_by_size_and_by_time(tmp_path):
    writer = DumpWriter(tmp_path / "size", manifest(), shard_bytes=1, shard_seconds=1e9)
    for n in range(3):
        writer.add(**sentence(n, 2, 2))
        assert len(open_dump(tmp_path / "size")) == n + 1
    writer.close()
    writer = DumpWriter(tmp_path / "time", manifest(), shard_bytes=1 << 30, shard_seconds=0)
    for n in range(3):
        writer.add(**sentence(n, 2, 2))
    assert [len(shard) for shard in open_dump(tmp_path / "time").iter_shards()] == [1, 1, 1]
    writer.close()


def test_a_type_that_was_not_dumped_is_named(tmp_path):
    with DumpWriter(tmp_path, manifest(attention=["enc_self"], relevance=())) as writer:
        one = sentence(0, 3, 3)
        writer.add(0, one["source"], one["target"], {"enc_self": one["attention"]["enc_self"]})
    record = open_dump(tmp_path)[0]
    assert list(record.attention) == ["enc_self"] and list(record.relevance) == []
    assert "dec_self" not in record.attention and "enc_self" not in record.relevance
    with pytest.raises(UserError, match="no dec-self attention"):
        record.attention["dec_self"]
    with pytest.raises(KeyError):
        open_dump(tmp_path)[7]


def test_memory_is_given_back_shard_by_shard(tmp_path):
    write(tmp_path, [sentence(n, 4, 4) for n in range(6)], shard_bytes=1)
    gc.disable()  # without a cycle nothing waits for the collector
    try:
        for shard in open_dump(tmp_path).iter_shards():
            store = weakref.ref(shard.records[0]._store)
            kept = shard.records[0].attention["enc_self"]
            del shard
        assert np.isfinite(kept).all()
        assert store() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one["attention"].pop("enc_self"),
        lambda one: one["source"].append("more"),
        lambda one: one["relevance"].update(dec_enc=np.zeros((1, 1))),
    ],
)
def test_arrays_that_do_not_fit_the_sentence_are_refused(tmp_path, change):
    one = sentence(0, 3, 3)
    change(one)
    writer = DumpWriter(tmp_path, manifest())
    with pytest.raises(ValueError):
        writer.add(**one)
    writer.add(**sentence(0, 3, 3))  # the refusal left no trace
    writer.close()
    assert len(open_dump(tmp_path)) == 1 and open_dump(tmp_path).verify() == {}


# -- interruptions ----------------------------------------------------------------------


def write_and_be_killed(directory, kill_at):
    """In a child process: write 12 sentences; the kill comes just before the n-th rename, when
    files are written and not yet in place."""
    child = os.fork()
    if not child:
        replace, renames = os.replace, []

        def counted(old, new):
            renames.append(new)
            if len(renames) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(old, new)

        os.replace = counted
        try:
            write(directory, [sentence(n, 3 + n % 3, 4) for n in range(12)], shard_bytes=2000)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kill_at", [1, 2, 3, 4, 5, 8])
def test_a_killed_run_is_readable_and_goes_on(tmp_path, kill_at):
    assert write_and_be_killed(tmp_path / "d", kill_at) == -signal.SIGKILL
    sentences = [sentence(n, 3 + n % 3, 4) for n in range(12)]

    done = []
    if kill_at > 1:  # else not even the manifest is in place
        before = open_dump(tmp_path / "d")
        done = before.ids
        assert not before.damaged and not before.manifest["complete"] and len(before) < 12
        for record in before:
            check(record, sentences[record.id])

    write(tmp_path / "d", sentences, shard_bytes=2000)
    after = open_dump(tmp_path / "d")
    assert sorted(after.ids) == list(range(12)) and after.manifest["complete"]
    assert after.ids[: len(done)] == done
    assert sum(len(shard) for shard in after.iter_shards()) == 12  # none twice
    for record in after:
        check(record, sentences[record.id])
    assert after.counts == after.manifest["counts"] and after.verify() == {}
    assert not [name for name in os.listdir(tmp_path / "d") if name.endswith((".tmp", ".lock"))]


def three_shards(directory):
    sentences = [sentence(n, 4, 4) for n in range(6)]
    for first in (0, 2, 4):
        write(directory, sentences[: first + 2])
    assert open_dump(directory).shard_numbers == [0, 1, 2]
    return sentences


def truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


def scribble(path):
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def drop_a_line(path):
    path.with_suffix(".jsonl").write_text(path.with_suffix(".jsonl").read_text().split("\n")[0])


def spoil_a_line(path):
    path.with_suffix(".jsonl").write_text("{not json\n")


def lose_the_lines(path):
    path.with_suffix(".jsonl").unlink()


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, scribble, drop_a_line, spoil_a_line, lose_the_lines, empty])
def test_a_damaged_shard_is_named_and_the_rest_is_read(tmp_path, damage, caplog):
    sentences = three_shards(tmp_path)
    damage(tmp_path / "shard-00001.safetensors")
    with caplog.at_level(logging.WARNING):
        dump = open_dump(tmp_path)
    assert "shard-00001" in caplog.text and list(dump.damaged) == ["shard-00001"]
    assert dump.ids == [0, 1, 4, 5]
    for record in dump:
        check(record, sentences[record.id])

    write(tmp_path, sentences)  # its sentences, and only those, are made again
    again = open_dump(tmp_path)
    assert not again.damaged and again.ids == [0, 1, 4, 5, 2, 3] and again.verify() == {}
    assert again.counts == again.manifest["counts"]


def test_changed_bytes_are_found_by_verify(tmp_path):
    three_shards(tmp_path)
    path = tmp_path / "shard-00002.safetensors"
    data = bytearray(path.read_bytes())
    data[-7] ^= 1
    path.write_bytes(bytes(data))
    dump = open_dump(tmp_path)
    assert not dump.damaged and list(dump.verify()) == ["shard-00002"]


# -- directories that are refused ---------------------------------------------------------


@pytest.mark.parametrize(
    "changes, words",
    [
        (dict(model={"file": "other.pt", "sha256": "cd" * 32}), "model.sha256"),
        (dict(options={"beam": 4, "lenpen": 1.0}), "options.beam is 5 there and 4 here"),
        (dict(options={"beam": 5}), "options.lenpen"),
        (dict(data={"path": "data-bin", "subset": "valid"}), "data.subset"),
        (dict(layout=LAYOUT.without(list(LAYOUT)[:1])), "layout"),
        (dict(relevance=()), "contents.relevance"),
    ],
)
def test_a_dump_of_something_else_is_refused(tmp_path, changes, words):
    write(tmp_path, [sentence(0, 3, 3)])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=words):
        DumpWriter(tmp_path, manifest(**changes))
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after == before


def test_a_moved_model_file_is_the_same_model(tmp_path):
    write(tmp_path, [sentence(0, 3, 3)])
    moved = manifest(model={"file": "elsewhere/model.pt", "sha256": "ab" * 32})
    writer = DumpWriter(tmp_path, moved)
    assert writer.done_ids == {0}
    writer.close()


def test_foreign_directories_are_refused(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not empty and is not a dump"):
        DumpWriter(tmp_path / "full", manifest())
    assert sorted(os.listdir(tmp_path / "full")) == ["thesis.tex"]
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "manifest.json").write_text('{"name": "an app"}')
    with pytest.raises(UserError, match="another program"):
        DumpWriter(tmp_path / "web", manifest())
    (tmp_path / "web" / "manifest.json").write_text('{"name": ')
    with pytest.raises(UserError, match="manifest.json is no JSON .* name or make another"):
        DumpWriter(tmp_path / "web", manifest())
    assert os.listdir(tmp_path / "web") == ["manifest.json"]
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file is no directory: give a new or empty one"):
        DumpWriter(tmp_path / "file", manifest())
    with pytest.raises(UserError, match="cannot write"):
        DumpWriter("/proc/nowhere", manifest())
    with pytest.raises(UserError, match="no manifest.json"):
        open_dump(tmp_path / "full")


def test_another_version_is_refused(tmp_path):
    write(tmp_path, [sentence(0, 3, 3)])
    data = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps(dict(data, format_version=99)))
    with pytest.raises(UserError, match="format version 99"):
        open_dump(tmp_path)
    del data["layout"]
    (tmp_path / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match="damaged"):
        open_dump(tmp_path)


def test_two_runs_do_not_write_to_one_dump(tmp_path):
    first = DumpWriter(tmp_path, manifest())
    with pytest.raises(UserError, match="another run"):
        DumpWriter(tmp_path, manifest())
    first.add(**sentence(0, 3, 3))
    first.close()
    write(tmp_path, [sentence(0, 3, 3), sentence(1, 3, 3)])
    assert open_dump(tmp_path).ids == [0, 1]


def test_a_worker_that_outlives_a_killed_run_does_not_hold_its_dump(tmp_path):
    writer = DumpWriter(tmp_path, manifest())
    fork = multiprocessing.get_context("fork")
    begun = fork.Event()
    worker = fork.Process(target=lambda: (begun.set(), time.sleep(30)))
    worker.start()
    try:
        assert begun.wait(30)
        writer._lock.close()  # what the kernel does when a run is killed
        DumpWriter(tmp_path, manifest()).close()
    finally:
        worker.terminate()
        worker.join()


def test_a_sentence_is_not_added_twice(tmp_path):
    with DumpWriter(tmp_path, manifest()) as writer:
        writer.add(**sentence(0, 3, 3))
        with pytest.raises(ValueError, match="already"):
            writer.add(**sentence(0, 3, 3))


def test_a_full_disk_is_a_sentence(tmp_path, monkeypatch):
    writer = DumpWriter(tmp_path, manifest())
    writer.add(**sentence(0, 3, 3))
    writer.flush()
    writer.add(**sentence(1, 3, 3))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairseq_headprune.dump.writer.save_file", full)
    with pytest.raises(UserError, match="No space left.*same command goes on"):
        writer.flush()
    assert open_dump(tmp_path).ids == [0]


# -- sizes --------------------------------------------------------------------------------


def test_estimate_is_the_size_of_the_arrays(tmp_path):
    lengths = [(5, 7), (1, 1), (12, 3)]
    write(tmp_path, [sentence(n, S, T) for n, (S, T) in enumerate(lengths)])
    arrays = load_file(tmp_path / "shard-00000.safetensors")
    estimate = estimate_bytes(LAYOUT, *zip(*lengths), relevance=ATTENTION_TYPES)
    assert estimate == sum(array.nbytes for array in arrays.values())


@pytest.mark.parametrize(
    "size, text", [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KB"), (3 << 40, "3.0 TB")]
)
def test_human_size(size, text):
    assert human_size(size) == text


def test_difference_walks_into_mappings():
    old, new = manifest(), manifest(options={"beam": 5, "lenpen": 2.0})
    assert dump_format.difference(old, manifest()) is None
    assert dump_format.difference(old, new) == "options.lenpen is 1.0 there and 2.0 here"
