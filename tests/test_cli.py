"""Tests of the command line: what it says, what it returns, and that the README's commands work."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import onlinegcp
from onlinegcp import runlog
from onlinegcp.cli import COMMANDS, Exit, call

START = datetime.date(2018, 1, 1)
TAXI = Path(__file__).parents[2] / "shared/data/nyc_yellow_taxi_sample"
TABLE = ["--time", "when", "--every", "1d", "--modes", "pu,do,when:weekday", "--share", "pu=do"]
MODEL = ["--rank", "2", "--warm-start", "4"]
# The command as a shell finds it, beside the interpreter.
PROGRAM = str(Path(sys.executable).parent / "onlinegcp")


def event_lines(n_days=12, first=0, seed=0):
    """Events as JSON lines, a list per day; one day has far too many of one kind."""
    rng = np.random.default_rng(seed)
    days = []
    for day in range(n_days):
        date = START + datetime.timedelta(days=day)
        pairs = rng.integers(0, 4, (rng.poisson(50), 2)).tolist()
        if day == 25:
            pairs += [[3, 3]] * 500
        days.append(
            [
                json.dumps({"when": f"{date}T08:00:00", "pu": f"z{pu}", "do": f"z{do}"}) + "\n"
                for pu, do in pairs
            ]
        )
    return days[first:]


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    path.write_text("".join(line for day in event_lines(30) for line in day))
    return path


@pytest.fixture(scope="module")
def run(events, tmp_path_factory):
    """A finished run over 30 days."""
    path = tmp_path_factory.mktemp("runs") / "small.run"
    assert call(["fit", str(events), *TABLE, *MODEL, "-o", str(path), "--quiet"]) is Exit.DONE
    return path


def steps_of(path):
    steps = [json.loads(line) for line in (Path(path) / runlog.STEPS).read_text().splitlines()]
    return [{name: value for name, value in step.items() if name != "seconds"} for step in steps]


# ---- the frame


def test_help_lists_every_command_with_a_sentence(capsys):
    assert call(["--help"]) is Exit.DONE
    shown = " ".join(capsys.readouterr().out.replace("│", "").split())
    for name, summary in COMMANDS.items():
        assert f"{name} {summary[:30]}" in shown
    assert "130 interrupted" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_all_its_options(command, capsys):
    assert call([command, "--help"]) is Exit.DONE
    shown = capsys.readouterr().out
    assert f"Usage: onlinegcp {command}" in shown
    # A line of the box that holds an option must hold words as well.
    for line in shown.splitlines():
        text = line.strip("│╭╰─╮╯ *")
        if text.startswith("--") and command != "watch":
            assert len(text.split()) >= 2, line


def test_the_version_is_the_package_version(capsys):
    assert call(["--version"]) is Exit.DONE
    assert capsys.readouterr().out.strip() == onlinegcp.__version__


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from onlinegcp.cli import call; call(['--help']);"
        "heavy = {'numpy', 'numba', 'polars', 'sklearn', 'plotly', 'scipy'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    used = min(_processor_seconds([sys.executable, "-c", code]) for _ in range(2))
    assert used < 0.5


def _processor_seconds(command):
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["fti"], 2, ["fti", "fit"]),
        (["report"], 2, ["run", "requires an argument"]),
        (["fit", "x.csv", "--tme", "t"], 2, ["--tme", "--time"]),
        (["inspect", "/nowhere.run"], 3, ["/nowhere.run", "is no directory"]),
        (["components", "."], 3, ["has no run.json"]),
    ],
)
def test_mistakes_are_named_without_traceback(words, code, expected, capsys):
    assert call(words) == code
    shown = " ".join(capsys.readouterr().err.split())
    assert shown.startswith("Error: ")
    assert "Traceback" not in shown
    for text in expected:
        assert text in shown


def test_debug_shows_the_traceback():
    with pytest.raises(onlinegcp.StateError):
        call(["inspect", "/nowhere.run", "--debug"])


def test_the_unexpected_has_a_code_of_its_own(monkeypatch, capsys):
    def fail(path):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(runlog, "read_run", fail)
    assert call(["components", "."]) is Exit.UNEXPECTED
    assert "ZeroDivisionError: oops" in capsys.readouterr().err


# ---- fit and update


def test_fit_then_update_equals_one_fit(events, run, tmp_path, capsys):
    days = event_lines(30)
    early, late = tmp_path / "early.jsonl", tmp_path / "late.jsonl"
    early.write_text("".join(line for day in days[:20] for line in day))
    late.write_text("".join(line for day in days[18:] for line in day))
    parts = str(tmp_path / "parts.run")
    assert call(["fit", str(early), *TABLE, *MODEL, "-o", parts, "--json"]) is Exit.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["slices"] == 20
    assert told["last"] == "2018-01-20"
    assert call(["update", parts, str(late)]) is Exit.DONE
    assert "Learned 10 slices up to 2018-01-30" in capsys.readouterr().out
    assert steps_of(parts) == steps_of(run)
    assert call(["update", parts, str(events)]) is Exit.DONE
    assert "Nothing new" in capsys.readouterr().out


def test_settings_are_kept_for_update_and_for_the_reader(run):
    info = runlog.read_run_json(run)
    assert info["events"]["modes"] == ["pu", "do", "when:weekday"]
    assert info["events"]["share"] == [["pu", "do"]]
    assert info["anomaly"]["period"] == 7
    assert info["model"]["parameters"]["loss"] == "poisson"
    assert info["model"]["parameters"]["rank"] == 2
    assert info["modes"] == ["pu", "do", "when:weekday"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (["--time", "wen"], ["'wen'", "'when'"]),
        (["--modes", "puu"], ["'puu'", "'pu'"]),
        (["--modes", "when:hoor"], ["hour"]),
        (["--loss", "poison"], ["'poison'", "poisson"]),
        (["--method", "online_gpc"], ["online_gcp"]),
        (["--set", "forgett=3"], ["'forgett'", "'forget'"]),
        (["--set", "forget"], ["name=value"]),
        (["--agg", "cuont"], ["'cuont'", "'count'"]),
        (["--top", "many"], ["--top 50"]),
        (["--share", "pu"], ["pu=do"]),
        (["--rank", "0"], ["rank", ">= 1"]),
        (["--method", "cp_stream", "--loss", "poisson"], ["cp_stream", "'loss'"]),
    ],
)
def test_misspelt_settings_are_refused_with_a_suggestion(
    change, expected, events, tmp_path, capsys
):
    words = ["fit", str(events), *TABLE, *MODEL, "-o", str(tmp_path / "r")]
    for name, value in zip(change[::2], change[1::2], strict=True):
        if name in words and name != "--share":
            words[words.index(name) + 1] = value
        else:
            words += [name, value]
    assert call(words) is Exit.BAD_INPUT
    shown = " ".join(capsys.readouterr().err.split())
    for text in expected:
        assert text in shown
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("empty.csv", b"", "empty"),
        ("binary.csv", bytes(range(256)) * 20, "binary.csv"),
        ("times.csv", b"when,pu,do\nnoon,a,b\n", "noon"),
        ("gone.csv", None, "gone.csv"),
    ],
)
def test_bad_files_are_named_and_nothing_is_made(name, content, expected, tmp_path, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    words = ["fit", str(tmp_path / name), *TABLE, *MODEL, "-o", str(tmp_path / "r")]
    assert call(words) is Exit.BAD_INPUT
    assert expected in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "r").exists()


def test_an_existing_run_is_kept_unless_told_otherwise(events, run, tmp_path, capsys):
    words = ["fit", str(events), *TABLE, *MODEL, "-o", str(run), "-q"]
    before = (run / runlog.STEPS).read_bytes()
    assert call(words) is Exit.BAD_STATE
    assert "update" in capsys.readouterr().err
    assert (run / runlog.STEPS).read_bytes() == before


def test_a_run_being_written_is_refused(run, events, capsys):
    with runlog.Lock(run):
        assert call(["update", str(run), str(events)]) is Exit.BAD_STATE
    assert f"process {os.getpid()}" in capsys.readouterr().err


def test_no_source_and_too_many_are_refused(run, capsys):
    assert call(["update", str(run)]) is Exit.BAD_INPUT
    assert "At least one file" in capsys.readouterr().err
    assert call(["update", str(run), "-", "x.csv"]) is Exit.BAD_INPUT
    assert "only source" in " ".join(capsys.readouterr().err.split())


def test_a_warm_start_that_is_not_over_says_so(events, tmp_path, capsys):
    where = str(tmp_path / "r")
    assert call(["fit", str(events), *TABLE, "--warm-start", "40", "-o", where]) is Exit.DONE
    assert "30 of 40 slices" in " ".join(capsys.readouterr().out.split())
    assert call(["components", where]) is Exit.BAD_STATE
    assert "update" in capsys.readouterr().err
    assert call(["inspect", where]) is Exit.DONE


def test_the_loss_suits_the_table(events, tmp_path):
    for agg, loss in (("any", "bernoulli_odds"), ("count", "poisson")):
        where = tmp_path / agg
        words = ["fit", str(events), *TABLE, *MODEL, "--agg", agg, "--until", "2018-01-03"]
        assert call([*words, "-o", str(where), "-q"]) is Exit.DONE
        assert runlog.read_run_json(where)["model"]["parameters"]["loss"] == loss


# ---- reading a run


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
    assert "when:weekday" in capsys.readouterr().out


def test_the_odd_day_is_found_and_can_stop_a_script(run, capsys):
    assert call(["anomalies", str(run), "--json"]) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert found[0]["time"] == "2018-01-26"
    assert found[0]["flagged"]
    assert call(["anomalies", str(run), "--fail-on-alarm"]) is Exit.ALARM
    shown = capsys.readouterr().out
    assert "2018-01-26" in shown
    assert "z3, z3" in shown
    quiet = ["anomalies", str(run), "--until", "2018-01-10", "--fail-on-alarm"]
    assert call(quiet) is Exit.DONE
    assert call(["anomalies", str(run), "--all", "--by-time", "--json"]) is Exit.DONE
    assert len(json.loads(capsys.readouterr().out.split("flagged.", 1)[-1])) == 20


def test_flagged_slices_can_be_left_unlearned(events, tmp_path):
    words = ["fit", str(events), *TABLE, *MODEL, "--hold-flagged", "-o", str(tmp_path / "r"), "-q"]
    assert call([*words, "--fail-on-alarm"]) is Exit.ALARM
    held = [step["time"] for step in steps_of(tmp_path / "r") if step["held"]]
    assert "2018-01-26" in held
    flags = [
        s["time"] for s in steps_of(tmp_path / "r") if s["anomaly"] and s["anomaly"]["flagged"]
    ]
    assert held == flags


def test_inspect_says_what_is_there(run, capsys):
    assert call(["inspect", str(run), "--json"]) is Exit.DONE
    facts = json.loads(capsys.readouterr().out)
    assert (facts["slices"], facts["warm_start"], facts["rank"]) == (30, 4, 2)
    assert (facts["first"], facts["last"]) == ("2018-01-01", "2018-01-30")
    assert facts["modes"] == {"pu": 4, "do": 4, "when:weekday": 7}
    assert not facts["written_now"]
    assert call(["inspect", str(run)]) is Exit.DONE
    assert "OnlineGCP" in capsys.readouterr().out


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_tables_can_be_exported(run, tmp_path, ending):
    view = runlog.read_run(run)
    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}
    for what in ("factors", "activations", "anomalies", "cells"):
        target = tmp_path / (what + ending)
        assert call(["export", str(run), what, "-o", str(target)]) is Exit.DONE
        table = readers[ending](target)
        if what == "factors":
            assert table.height == 2 * (4 + 4 + 7)
            value = table.filter(mode="do", label="z2", component=2)["value"].item()
            assert value == view.factors[1][view.labels[1].index("z2"), 1]
        elif what == "activations":
            assert table.height == 60
            assert table["weight"].to_list()[:2] == view.steps[0]["weights"]
        elif what == "anomalies":
            assert table.height == 26
            assert table["flagged"].sum() >= 1
        else:
            assert {"pu", "do", "observed", "expected"} <= set(table.columns)


def test_arrays_and_ktensors_can_be_exported(run, tmp_path, capsys):
    view = runlog.read_run(run)
    for what in ("factors", "activations", "anomalies", "cells", "ktensor"):
        assert call(["export", str(run), what, "-o", str(tmp_path / f"{what}.npz")]) is Exit.DONE
    with np.load(tmp_path / "factors.npz") as stored:
        assert np.array_equal(stored["factor.0"], view.factors[0])
        assert tuple(stored["labels.0"]) == view.labels[0]
    with np.load(tmp_path / "activations.npz") as stored:
        assert stored["weights"].shape == (30, 2)
    model = onlinegcp.KTensor.load(tmp_path / "ktensor.npz")
    assert np.array_equal(model.weights, view.weights)
    assert model.labels[0] == view.labels[0]
    assert call(["export", str(run), "ktensor", "-o", "x.csv"]) is Exit.BAD_INPUT
    assert call(["export", str(run), "everything", "-o", "x.csv"]) is Exit.BAD_INPUT


def test_the_report_is_written_where_asked(run, tmp_path, capsys):
    assert call(["report", str(run), "-o", str(tmp_path / "page.html")]) is Exit.DONE
    told = capsys.readouterr()
    assert told.out.strip() == str(tmp_path / "page.html")
    for word in ("Mean loss per event", "prequential", "local", "global"):
        assert word in told.err
    assert "2018-01-26" in (tmp_path / "page.html").read_text()


def test_the_report_tells_its_numbers_to_scripts(run, tmp_path, capsys):
    words = ["report", str(run), "-o", str(tmp_path / "page.html"), "--json"]
    assert call(words) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert set(found["mean_loss"]) == {"per", "prequential", "local", "global"}
    assert found["mean_loss"]["local"] <= found["mean_loss"]["prequential"]
    assert found["no_global_loss"] is None
    assert call([*words, "--no-global"]) is Exit.DONE
    assert "global" not in json.loads(capsys.readouterr().out)["mean_loss"]
    assert call(["report", str(run), "-o", str(tmp_path / "page.html"), "-q"]) is Exit.DONE
    assert capsys.readouterr().err == ""


def test_the_report_says_why_a_curve_is_missing(events, tmp_path, capsys):
    copy = tmp_path / "events.jsonl"
    copy.write_bytes(events.read_bytes())
    where = str(tmp_path / "r")
    assert call(["fit", str(copy), *TABLE, *MODEL, "-o", where, "-q"]) is Exit.DONE
    copy.unlink()
    assert call(["report", where]) is Exit.DONE
    told = " ".join(capsys.readouterr().err.split())
    assert f"No global loss: {copy} is no longer there." in told


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


# ---- the real program


@pytest.mark.slow
def test_events_from_a_pipe_are_learned_as_they_come(tmp_path):
    where = tmp_path / "live.run"
    days = event_lines(9)
    first = "".join(line for day in days[:5] for line in day)
    started = subprocess.run(
        [PROGRAM, "fit", "-", *TABLE, *MODEL, "-o", str(where)],
        input=first.encode(),
        check=True,
        capture_output=True,
    )
    assert b"Learned 4 slices" in started.stdout
    process = subprocess.Popen(
        [PROGRAM, "update", str(where), "-"], stdin=subprocess.PIPE, bufsize=0
    )
    try:
        for number, day in enumerate(days[5:], 5):
            process.stdin.write("".join(day).encode())
            # The first event of a day closes the day before, while the pipe stays open.
            _wait_for(lambda number=number: len(steps_of(where)) == number)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == Exit.INTERRUPTED
    finally:
        process.kill()
        process.stdin.close()
        process.wait()
    times = [step["time"] for step in steps_of(where)]
    assert times == [str(START + datetime.timedelta(days=t)) for t in range(8)]
    assert [s["total"] for s in steps_of(where)] == [len(day) for day in days[:8]]


def _wait_for(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_an_interrupted_fit_says_how_to_go_on_and_does(events, run, tmp_path):
    where = tmp_path / "cut.run"
    process = subprocess.Popen(
        [PROGRAM, "fit", str(events), *TABLE, *MODEL, "-o", str(where)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for(lambda: (where / runlog.CHECKPOINT).exists())
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    if process.returncode == Exit.INTERRUPTED:  # it may have been done already
        command = told.strip().splitlines()[-1]
        assert command == f"onlinegcp update {where} {events}"
        subprocess.run([PROGRAM, *command.split()[1:]], check=True, stdout=subprocess.DEVNULL)
    assert steps_of(where) == steps_of(run)


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(run):
    command = f"{PROGRAM} inspect {run} | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True)
    assert done.returncode == 0
    assert done.stderr == b""


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
