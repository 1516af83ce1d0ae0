"""heads.json as tables, and that the synthetic one of the tests has the same keys as a real one."""

import csv
import io

import numpy as np

from fairseq_headprune.analysis.frequencies import Frequencies
from fairseq_headprune.analysis.parses import ConlluFile
from fairseq_headprune.analysis.roles import stream
from fairseq_headprune.analysis.roles import tables as roles_tables
from fairseq_headprune.analysis.roles.heads import Thresholds
from fairseq_headprune.dump import open_dump
from tests.helpers.dumps import conllu_text, random_attention, write_dump
from tests.helpers.heads_json import heads_json


def keys(value):
    """Nested keys, without values; relation, direction and position names are data."""
    if isinstance(value, dict):
        return {k: keys(v) for k, v in value.items() if k != "histogram"}
    return None


def test_synthetic_heads_json_has_the_keys_of_a_real_one(tmp_path):
    rng = np.random.default_rng(1)
    sentence = {
        "source": ["a", "b", "c"],
        "attention": {"enc_self": random_attention(rng, 1, 1, 4, 4)},
    }
    tree = [("a", 2, "nsubj"), ("b", 0, "root"), ("c", 2, "obj")]
    (tmp_path / "t").write_text(conllu_text([tree] * 3))
    dump = open_dump(write_dump(tmp_path / "dump", [sentence] * 3))
    relations = ("nsubj", "obj", "amod", "advmod")
    frequencies = Frequencies({"a": 3, "b": 2, "c": 1}, 1)
    analysis = stream.Analysis(dump, ("enc_self",), ConlluFile(tmp_path / "t"), relations, False, frequencies)
    stream.run(dump, analysis, 0, 0, lambda *_: None)
    real = roles_tables.build(dump, analysis, Thresholds(), 50, 0.95, 1)
    made = heads_json(layers=1, heads=1)
    assert keys(made["heads"][0]) == keys(real["heads"][0])
    assert keys(made["relations"]) == keys(real["relations"])
    assert list(made["provenance"]["counts"]) == list(stream.COUNTS)


def test_tables():
    content = heads_json(layers=2, heads=2, types=("enc_self", "dec_enc"))
    tables = roles_tables.tables(content)
    rows = list(csv.DictReader(io.StringIO(tables["heads.csv"])))
    assert len(rows) == len(content["heads"]) == 8
    first, record = rows[0], content["heads"][0]
    assert list(first)[:3] == ["type", "layer", "head"] and list(first)[-1] == "functions"
    assert float(first["relevance"]) == record["relevance"]
    assert float(first["syntactic_nsubj_h->d_accuracy"]) == record["syntactic"]["nsubj"]["h->d"]["accuracy"]
    assert float(first["positional_share"]) == record["positional"]["share"]
    assert first["functions"] == "; ".join(record["functions"])
    assert rows[-1]["rare_rarest"] == ""
    scores = list(csv.DictReader(io.StringIO(tables["syntactic.csv"])))
    assert len(scores) == 4 * 4 * 2
    positions = list(csv.DictReader(io.StringIO(tables["relations.csv"])))
    nsubj = [r for r in positions if (r["relation"], r["direction"]) == ("nsubj", "h->d")]
    assert abs(sum(float(r["share"]) for r in nsubj) - 1) < 1e-4
    assert set(roles_tables.tables(dict(content, relations=None))) == {"heads.csv"}
