"""`compare` and `rank`: several models on the same slices."""

from __future__ import annotations

import json

import pytest

from cli_tools import MODEL, TABLE, write_events
from onlinegcp.cli import Exit, call


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    return write_events(tmp_path_factory.mktemp("events") / "events.jsonl")


@pytest.mark.slow
def test_methods_are_compared_on_the_same_slices(events, capsys):
    words = ["compare", str(events), *TABLE, *MODEL, "--slices", "12", "--json"]
    entrants = ["online_gcp", "online_gcp:forget=1.0", "online_sgd", "cp_stream", "online_cp"]
    for name in entrants:
        words += ["--contender", name]
    assert call(words) is Exit.DONE
    rows = {row["contender"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(entrants)
    assert {row["slices"] for row in rows.values()} == {8}
    assert rows["online_gcp"]["loss"] == "poisson"
    assert rows["cp_stream"]["loss"] == "gaussian"
    assert all(0 < row["squared_error"] < 2 for row in rows.values())
    assert call(["compare", str(events), *TABLE, *MODEL, "--contender", "onlne_cp"]) == 2
    assert "online_cp" in capsys.readouterr().err


@pytest.mark.slow
def test_a_rank_is_recommended_with_a_plot(events, tmp_path, capsys):
    plot = tmp_path / "rank.html"
    words = ["rank", str(events), *TABLE, "--max", "3", "--warm-start", "4", "--slices", "20"]
    assert call([*words, "-o", str(plot), "--json"]) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert found["ranks"] == [1, 2, 3]
    assert found["recommended"] == 1  # all places are alike in these data
    assert "plotly" in plot.read_text().lower()
    assert call([*words, "-o", str(plot)]) is Exit.DONE
    assert "Use rank 1" in capsys.readouterr().out
