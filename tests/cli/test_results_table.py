"""scripts/results_table.py, and that the committed page shows what its JSON files say."""

import importlib.util
import json

import pytest

from tests.conftest import ROOT
from tests.unit.experiments.test_pages import point

spec = importlib.util.spec_from_file_location("results_table", ROOT / "scripts" / "results_table.py")
results_table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(results_table)


@pytest.mark.parametrize("page", ["README.md", "speed.md"])
def test_the_committed_page_is_up_to_date(page):
    results_table.main([str(ROOT / "analysis" / "results" / page), "--check"])


def test_a_page_is_made_anew_in_place(tmp_path, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "enc-l0.01.json").write_text(json.dumps(point("enc-l0.01", "l0", 30.5)))
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- table main runs -->\n<!-- end -->\n")
    with pytest.raises(SystemExit) as stopped:
        results_table.main([str(page), "--check"])
    assert stopped.value.code == 2 and "does not show" in capsys.readouterr().err
    results_table.main([str(page)])
    assert "| **enc-l0.01** |" in page.read_text() and page.read_text().startswith("# Page\n")
    results_table.main([str(page), "--check"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.md", "runs"]


def test_a_missing_page_is_named(capsys):
    with pytest.raises(SystemExit):
        results_table.main(["nowhere.md"])
    assert "cannot read the page nowhere.md" in capsys.readouterr().err
