"""fit --by and what the other commands make of many streams."""

from __future__ import annotations

import json

import polars as pl
import pytest

from many_tools import customers, days, fit, names_of, told
from onlinegcp.cli import Exit, call
from onlinegcp.runlog import read_run

OPTIONS = ["--time", "when", "--every", "1d", "--modes", "a,b", "--rank", "1", "--warm-start", "3"]


@pytest.fixture(scope="module")
def table():
    """Three customers, of whom one falls silent."""
    found = customers(n=3, n_days=12, per_day=12)
    silent = (pl.col("customer") == "c1") & (pl.col("when").dt.day() >= 11)
    return found.filter(~silent)


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "shops.run"
    fit(path, table)
    return path


def test_fit_and_update_are_one_command_each(tmp_path, table, run, capsys):
    days(table, 0, 9).write_csv(tmp_path / "a.csv")
    days(table, 9, 12).write_parquet(tmp_path / "b.parquet")
    path = tmp_path / "shops.run"
    words = ["fit", str(tmp_path / "a.csv"), "--by", "customer", *OPTIONS, "-o", str(path)]
    assert call([*words, "--jobs", "1", "--season", "1"]) is Exit.DONE
    assert "27 slices of 3 streams" in capsys.readouterr().out
    words = ["update", str(path), str(tmp_path / "b.parquet"), "--jobs", "1", "--json"]
    assert call(words) is Exit.DONE
    outcome = json.loads(capsys.readouterr().out)
    assert (outcome["slices"], outcome["streams"]) == (9, 3)
    assert [found["stream"] for found in outcome["newest"]] == ["c1"]
    for name in names_of(run):
        assert [step["weights"] for step in told(path, name)] == [
            step["weights"] for step in told(run, name)
        ]


def test_alarms_of_all_are_listed_together(run, capsys):
    assert call(["anomalies", str(run), "--fail-on-alarm"]) is Exit.ALARM
    out = capsys.readouterr().out
    assert "c1" in out
    assert "ordinary ones" in out
    assert call(["anomalies", str(run), "--json", "--all", "--top", "3"]) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert found[0]["stream"] == "c1"
    assert call(["anomalies", str(run), "--since", "2018-01-12", "--json"]) is Exit.DONE
    assert all(row["time"] >= "2018-01-12" for row in json.loads(capsys.readouterr().out))


def test_inspect_shows_the_streams(run, capsys):
    assert call(["inspect", str(run)]) is Exit.DONE
    out = capsys.readouterr().out
    assert "c1" in out
    assert "customer" in out
    assert call(["inspect", str(run), "--json"]) is Exit.DONE
    facts = json.loads(capsys.readouterr().out)
    assert (facts["streams"], facts["slices"], facts["by"]) == (3, 36, "customer")
    assert call(["inspect", str(run), "--verify"]) is Exit.DONE


@pytest.mark.parametrize("what", ["streams", "anomalies", "activations", "factors"])
def test_tables_name_the_stream(tmp_path, run, what):
    file = tmp_path / "all.parquet"
    assert call(["export", str(run), what, "-o", str(file)]) is Exit.DONE
    found = pl.read_parquet(file)
    assert found["stream"].unique().len() == 3
    if what in ("anomalies", "factors"):
        one = tmp_path / "one.parquet"
        assert call(["export", str(run), what, "--stream", "c2", "-o", str(one)]) is Exit.DONE
        ours = found.filter(pl.col("stream") == "c2").drop("stream")
        # Patterns of one run are named by what tells them apart.
        alone = pl.read_parquet(one).drop("name", strict=False)
        assert ours.to_dicts() == alone.to_dicts()


def test_a_stream_becomes_a_run(tmp_path, run, capsys):
    path = tmp_path / "c1.run"
    assert call(["export", str(run), "run", "--stream", "c1", "-o", str(path)]) is Exit.DONE
    assert len(read_run(path).steps) == 12
    assert call(["components", str(path)]) is Exit.DONE
    capsys.readouterr()
    # What takes one stream says how to have one.
    assert call(["components", str(run)]) is Exit.BAD_STATE
    assert "--stream NAME" in capsys.readouterr().err
    assert call(["export", str(run), "run", "-o", str(tmp_path / "x")]) is Exit.BAD_INPUT
    assert call(["export", str(path), "streams", "-o", str(tmp_path / "x.csv")]) is Exit.BAD_INPUT
    assert call(["report", str(path), "--stream", "c1"]) is Exit.BAD_INPUT
    inside = ["export", str(run), "streams", "-o", str(run / "shards" / "00000.csv")]
    assert call(inside) is Exit.BAD_INPUT


def test_the_report_is_an_overview_or_one_stream(tmp_path, run, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(["report", str(run), "-o", "all.html"]) is Exit.DONE
    page = (tmp_path / "all.html").read_text()
    assert "c1" in page
    assert "<script" not in page
    assert call(["report", str(run), "--stream", "c1"]) is Exit.DONE
    assert (tmp_path / "c1.html").exists()


def test_a_plan_looks_at_the_busiest_stream(tmp_path, table, capsys):
    table.write_csv(tmp_path / "shops.csv")
    words = ["fit", str(tmp_path / "shops.csv"), "--by", "customer", "--plan"]
    assert call(words) is Exit.DONE
    out = capsys.readouterr().out
    assert "--by customer" in out
    assert "shops.run" in out
    assert "--modes a,b" in out
    words[3] = "nobody"
    assert call(words) is Exit.BAD_INPUT


def test_nothing_but_the_file_and_the_column_is_needed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    customers(n=2, n_days=25, per_day=30).write_csv("shops.csv")
    assert call(["fit", "shops.csv", "--by", "customer", "--every", "1d"]) is Exit.DONE
    assert "--rank auto" in capsys.readouterr().out
    assert call(["export", "shops.run", "activations", "-o", "w.csv"]) is Exit.DONE
    weights = pl.read_csv("w.csv")
    assert weights["stream"].unique().sort().to_list() == ["c0", "c1"]
    assert weights.group_by("stream").agg(pl.col("time").n_unique())["time"].to_list() == [25, 25]


def test_update_needs_no_cluster(tmp_path, table, run, capsys):
    table.write_csv(tmp_path / "a.csv")
    words = ["update", str(run), str(tmp_path / "a.csv"), "--cluster", "local:2"]
    assert call(words) is Exit.BAD_INPUT
    assert "Leave it out" in capsys.readouterr().err


def test_a_stream_that_stops_is_told(tmp_path, capsys):
    table = customers(n=2, n_days=6).with_columns(v=pl.lit(1.0))
    bad = table.with_columns(
        v=pl.when((pl.col("customer") == "c1") & (pl.col("when").dt.day() == 6))
        .then(1e200)
        .otherwise("v")
    )
    bad.write_csv(tmp_path / "bad.csv")
    path = str(tmp_path / "bad.run")
    words = ["fit", str(tmp_path / "bad.csv"), "--by", "customer", *OPTIONS, "-o", path]
    assert call([*words, "--value", "v", "--loss", "poisson", "--jobs", "1"]) is Exit.BAD_INPUT
    assert "customer c1 stopped" in capsys.readouterr().err
    assert call(["inspect", path]) is Exit.DONE
    assert "STOPPED" in capsys.readouterr().out
