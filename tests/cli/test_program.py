"""The program as a whole: the README's commands, the demo, and compiling ahead."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from cli_tools import PROGRAM
from onlinegcp import load_flights, runlog
from onlinegcp.cli import Exit, call
from onlinegcp.cli.demo import MODES
from onlinegcp.cli.flight_names import spoken

TAXI = Path(__file__).parents[3] / "shared/data/nyc_yellow_taxi_sample"


@pytest.mark.slow
@pytest.mark.skipif(not TAXI.exists(), reason="needs the taxi sample of ../shared")
def test_the_commands_of_the_readme_work_on_real_trips(tmp_path):
    table = pl.read_parquet(TAXI / "yellow_sample_2018_2020.parquet").rename(
        {"pickup_time": "pickup", "pu_zone": "pu", "do_zone": "do"}
    )
    days = table.filter(pl.col("pickup") < pl.datetime(2018, 1, 26)).with_columns(
        day=pl.col("pickup").dt.date()
    )
    (tmp_path / "trips").mkdir()
    for (day,), part in days.partition_by("day", as_dict=True, include_key=False).items():
        part.write_parquet(tmp_path / "trips" / f"{day}.parquet")
    (tmp_path / "trips/2018-01-25.parquet").rename(tmp_path / "tomorrow.parquet")
    script = f"""
        set -e
        export PATH={Path(PROGRAM).parent}:$PATH
        onlinegcp fit trips/*.parquet --time pickup --every 1d --modes pu,do,pickup:hour \
            --share pu=do --loss poisson --rank 20 -o taxi.run
        mv tomorrow.parquet trips/2018-01-25.parquet
        onlinegcp update taxi.run trips/2018-01-25.parquet
    """
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Learned 24 slices" in done.stdout
    assert "Learned 1 slice up to 2018-01-25" in done.stdout
    view = runlog.read_run(tmp_path / "taxi.run")
    assert view.times[-1] == "2018-01-25"
    assert len(view.steps) == 25
    assert sum(step["total"] for step in view.steps) == days.height
    assert view.labels[0] == view.labels[1]
    assert len(view.factors[2]) == 24


@pytest.mark.slow
def test_the_demo_tells_patterns_odd_days_and_the_report(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["onlinegcp", "demo"])
    for _ in range(2):  # an earlier demo may be replaced
        assert call(["demo", "--rank", "3"]) is Exit.DONE
        shown = " ".join(capsys.readouterr().out.split())
        assert "336,776 flights" in shown
        assert "1. " in shown
        assert "3. " in shown
        assert "28 November 2013" in shown  # Thanksgiving
        assert "flights.run/report.html" in shown
        assert Path("flights.run/report.html").stat().st_size > 100_000
    monkeypatch.setattr(sys, "argv", ["onlinegcp", "fit"])
    info = json.loads(Path("flights.run/run.json").read_text())
    Path("flights.run/run.json").write_text(json.dumps({**info, "command": ["onlinegcp", "fit"]}))
    assert call(["demo"]) is Exit.BAD_STATE  # but not a run of one's own


@pytest.mark.slow
def test_warmup_compiles_everything(capsys):
    assert call(["warmup"]) is Exit.DONE
    assert "compiled" in capsys.readouterr().out


def test_every_place_and_carrier_of_the_demo_has_a_name_of_its_own():
    flights = load_flights()
    for codes, names in zip(flights.labels[:2], spoken(flights.labels, MODES)[:2], strict=True):
        assert len(set(names)) == len(codes)
        assert not set(names) & set(codes)  # "ROC" beside "Houston" until all had one
