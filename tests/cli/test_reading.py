"""`components`, `anomalies` and `inspect`: what a run holds, for people and scripts."""

from __future__ import annotations

import csv
import json
import subprocess

import polars as pl
import pytest

from cli_tools import PROGRAM, TABLE
from onlinegcp.cli import Exit, call


def test_components_come_with_labels(run, capsys):
    assert call(["components", str(run), "--json", "--top", "2"]) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 2
    assert sum(pattern["share"] for pattern in found) == pytest.approx(1)
    assert found[0]["share"] >= found[1]["share"]
    for pattern in found:
        assert set(pattern["modes"]) == {"pu", "do", "when:weekday"}
        assert all(1 <= len(labels) <= 2 for labels in pattern["modes"].values())
        assert pattern["modes"]["pu"][0]["label"].startswith("z")
    assert call(["components", str(run)]) is Exit.DONE
    shown = capsys.readouterr().out
    assert "weekday" in shown
    assert "when:weekday" not in shown


def test_the_odd_day_is_found_and_can_stop_a_script(run, capsys):
    assert call(["anomalies", str(run), "--json"]) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert found[0]["time"] == "2018-01-26"
    assert found[0]["flagged"]
    assert call(["anomalies", str(run), "--fail-on-alarm"]) is Exit.ALARM
    shown = capsys.readouterr().out
    assert "26 January 2018" in shown
    assert "z3 x" in shown
    assert found[0]["sentence"].startswith("26 January 2018: ")
    assert found[0]["score"] > 2.0
    quiet = ["anomalies", str(run), "--until", "2018-01-10", "--fail-on-alarm"]
    assert call(quiet) is Exit.DONE
    assert call(["anomalies", str(run), "--all", "--by-time", "--json"]) is Exit.DONE
    assert len(json.loads(capsys.readouterr().out.split("flagged.", 1)[-1])) == 20


def test_inspect_says_what_is_there(run, capsys):
    assert call(["inspect", str(run), "--json"]) is Exit.DONE
    facts = json.loads(capsys.readouterr().out)
    assert (facts["slices"], facts["warm_start"], facts["rank"]) == (30, 4, 2)
    assert (facts["first"], facts["last"]) == ("2018-01-01", "2018-01-30")
    assert facts["modes"] == {"pu": 4, "do": 4, "when:weekday": 7}
    assert not facts["written_now"]
    assert facts["rank_chosen"] == "as given"
    assert call(["inspect", str(run)]) is Exit.DONE
    assert "OnlineGCP" in capsys.readouterr().out


def test_inspect_says_how_many_patterns_there_are_now_and_that_nobody_chose(
    events, tmp_path, capsys
):
    run, asked = tmp_path / "auto.run", [*TABLE, "--rank", "auto", "--quiet", "-o"]
    assert call(["fit", str(events), *asked, str(run)]) is Exit.DONE
    capsys.readouterr()
    assert call(["components", str(run), "--json"]) is Exit.DONE
    patterns = json.loads(capsys.readouterr().out)
    assert call(["inspect", str(run), "--json"]) is Exit.DONE
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rank"], facts["rank_chosen"]) == (len(patterns), "automatically")


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(run):
    command = f"{PROGRAM} inspect {run} | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True)
    assert done.returncode == 0
    assert done.stderr == b""


def test_a_scored_table_goes_to_csv_whatever_its_columns_hold(run, events, tmp_path, capsys):
    table = pl.read_ndjson(events).with_columns(
        tags=pl.lit(["x", "y"], dtype=pl.List(pl.String)),
        raw=pl.lit(b"\x01\xff"),
        took=pl.lit(90_500, dtype=pl.Duration("ms")),
    )
    table.write_parquet(tmp_path / "odd.parquet")
    scored = tmp_path / "scored.csv"
    assert call(["score", str(run), str(tmp_path / "odd.parquet"), "-o", str(scored)]) is Exit.DONE
    assert f"{table.height:,} events scored" in capsys.readouterr().out
    first = next(csv.DictReader(scored.read_text().splitlines()))
    assert (json.loads(first["tags"]), first["raw"]) == (["x", "y"], "01ff")
    assert float(first["took"]) == 90.5


def test_who_cannot_be_judged_yet_is_not_called_usual(tmp_path, capsys):
    """Thirty hours of a log: no season has come again, and the flood in the last is not judged."""
    rows = [{"at": f"2024-03-0{1 + h // 24}T{h % 24:02}:10:00", "path": "/"} for h in range(31)]
    path, folder = tmp_path / "log.csv", tmp_path / "log.run"
    pl.DataFrame([row for row in rows for _ in range(60)]).write_csv(path)
    options = ["--time", "at", "--every", "1h", "--modes", "path", "--rank", "1", "--quiet"]
    assert call(["fit", str(path), *options, "--warm-start", "5", "-o", str(folder)]) is Exit.DONE
    capsys.readouterr()
    assert call(["anomalies", str(folder)]) is Exit.DONE
    shown = capsys.readouterr().out
    assert "scored slices were flagged: ten slices, or two seasons, show what is usual." in shown
    assert call(["report", str(folder), "-o", str(tmp_path / "page.html")]) is Exit.DONE
    page = (tmp_path / "page.html").read_text()
    assert "was flagged yet: ten slices, or two seasons, show what is usual." in page
    # One pattern is not called by what it holds most of.
    capsys.readouterr()
    assert call(["components", str(folder), "--json"]) is Exit.DONE
    assert json.loads(capsys.readouterr().out)[0]["headline"] == "Everything"


def test_a_run_alone_is_told_how_it_can_be_compared_with_itself(run, tmp_path, capsys):
    assert call(["diff", str(run)]) is Exit.BAD_INPUT
    told = " ".join(capsys.readouterr().err.split())
    assert f"{run.name} --before 2018-01-" in told
    before = told.split("--before ")[-1].removesuffix(".")
    assert call(["diff", str(run), "--before", before]) is Exit.DONE
    assert call(["diff", str(tmp_path / "none.run")]) is Exit.BAD_INPUT
    assert "RUN --before 2018-06-01" in " ".join(capsys.readouterr().err.split())
