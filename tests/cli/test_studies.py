"""`compare` and `rank`: several models on the same slices."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
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
    found = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in found["contenders"]}
    assert set(rows) == set(entrants)
    assert (found["loss"], found["n_slices"], found["warm_start"]) == ("poisson", 12, 4)
    assert all(len(row["curve"]) == 8 for row in rows.values())
    assert call(["compare", str(events), *TABLE, *MODEL, "--contender", "onlne_cp"]) == 2
    assert "online_cp" in capsys.readouterr().err


@pytest.mark.slow
def test_a_comparison_is_a_table_a_page_and_a_list_of_reasons(events, tmp_path, capsys):
    plot = tmp_path / "race.html"
    words = ["compare", str(events), *TABLE, *MODEL, "--slices", "12", "-o", str(plot), "-q"]
    words += ["--methods", "online_gcp,acp,rlst", "--contender", "rlst:state_limit=10"]
    assert call(words) is Exit.DONE
    shown = capsys.readouterr().out
    for name in ("online_gcp", "acp", "rlst", "prequential", "global", "ms per slice"):
        assert name in shown
    assert "rlst:state_limit=10: RLST may hold 10 bytes" in " ".join(shown.split())
    assert "predicts best" in plot.read_text()
    assert "RLST may hold 10 bytes" in plot.read_text()


@pytest.mark.slow
def test_a_rank_is_recommended_with_a_plot(events, tmp_path, capsys):
    plot = tmp_path / "rank.html"
    words = ["rank", str(events), *TABLE, "--max", "3", "--warm-start", "4", "--slices", "20"]
    assert call([*words, "-o", str(plot), "--json"]) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert found["ranks"] == [1, 2, 3]
    assert found["recommended"] == 3  # weekdays differ, each has its own row
    assert len(plot.read_text()) < 100_000
    assert "Use rank 3" in plot.read_text()
    assert call([*words, "-o", str(plot)]) is Exit.DONE
    assert "Use rank 3" in capsys.readouterr().out


@pytest.mark.slow
def test_a_table_of_several_units_is_compared_in_those_of_the_data(tmp_path, capsys):
    """The plan gives rows units of their own, by which no other method learns or is measured."""
    rng = np.random.default_rng(0)
    rows = [
        {"day": f"2024-01-{1 + t % 28:02}T{t // 28:02}:00:00", "room": room, "what": what}
        | {"value": size * (2.0 + k + rng.normal(0.0, 0.1))}
        for t in range(28 * 24)
        for k, room in enumerate("abc")
        for what, size in (("temp", 1.0), ("co2", 400.0))
    ]
    path = tmp_path / "rooms.csv"
    pl.DataFrame(rows).sort("day").write_csv(path)
    words = ["compare", str(path), "--rank", "2", "--json", "--contender", "online_gcp"]
    assert call([*words, "--contender", "gocpte"]) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    losses = {row["name"]: row["prequential"] for row in found["contenders"]}
    assert losses["online_gcp"] < 1.5 * losses["gocpte"]
    assert call([*words, "--contender", "online_gcp:scale=1"]) is Exit.DONE  # as asked for
