"""`fit` and `update`: what they learn, refuse, and do when interrupted."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

from cli_tools import MODEL, PROGRAM, START, TABLE, event_lines, wait_for
from onlinegcp import runlog
from onlinegcp.cli import Exit, call
from run_tools import steps_of


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
    assert info["anomaly"]["longer"]  # nobody said that it is all
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
        (["--set", "factor_rate=0.1"], ["'factor_rate'", "add --set solver=sgd"]),
        (["--agg", "cuont"], ["'cuont'", "'count'"]),
        (["--top", "many"], ["--top 50"]),
        (["--share", "pu"], ["pu=do"]),
        (["--rank", "0"], ["rank", "from 1 to"]),
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


def test_odd_rows_of_flagged_slices_can_be_held(events, tmp_path):
    words = ["fit", str(events), *TABLE, *MODEL, "--hold-flagged", "-o", str(tmp_path / "r"), "-q"]
    assert call([*words, "--fail-on-alarm"]) is Exit.ALARM
    steps = steps_of(tmp_path / "r")
    assert [step["time"] for step in steps if step["held"]] == ["2018-01-26"]
    odd = next(step for step in steps if step["held"])
    assert odd["anomaly"]["flagged"]
    assert sum(odd["weights"]) < 0.5 * odd["total"]  # the burst is not in the model


def test_an_alarm_is_told_at_once_and_sent(events, tmp_path, capsys):
    target = tmp_path / "sent.jsonl"
    script = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"
    command = shlex.join([sys.executable, "-c", script, str(target)])
    words = ["fit", str(events), *TABLE, *MODEL, "-o", str(tmp_path / "r")]
    assert call([*words, "--on-alarm", command]) is Exit.DONE
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ALARM")]
    assert len(said) == 1
    assert "26 January 2018" in said[0]
    assert "z3" in said[0]
    sent = [json.loads(line) for line in target.read_text().splitlines()]
    assert [message["event"] for message in sent] == ["begins", "ends"]
    assert sent[0]["sentence"] in said[0]


def test_a_command_for_alarms_that_is_not_there_is_refused_before_anything_is_learned(
    events, tmp_path
):
    words = ["fit", str(events), *TABLE, *MODEL, "-o", str(tmp_path / "r")]
    assert call([*words, "--on-alarm", "no-such-program"]) is Exit.BAD_INPUT
    assert not (tmp_path / "r").exists()


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
            wait_for(lambda number=number: len(steps_of(where)) == number)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == Exit.INTERRUPTED
    finally:
        process.kill()
        process.stdin.close()
        process.wait()
    times = [step["time"] for step in steps_of(where)]
    assert times == [str(START + datetime.timedelta(days=t)) for t in range(8)]
    assert [s["total"] for s in steps_of(where)] == [len(day) for day in days[:8]]


@pytest.mark.slow
def test_an_interrupted_fit_says_how_to_go_on_and_does(events, run, tmp_path):
    where = tmp_path / "cut.run"
    process = subprocess.Popen(
        [PROGRAM, "fit", str(events), *TABLE, *MODEL, "-o", str(where)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: (where / runlog.CHECKPOINT).exists())
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    if process.returncode == Exit.INTERRUPTED:  # it may have been done already
        command = told.strip().splitlines()[-1]
        assert command == f"onlinegcp update {where} {events}"
        subprocess.run([PROGRAM, *command.split()[1:]], check=True, stdout=subprocess.DEVNULL)
    assert steps_of(where) == steps_of(run)


def test_the_rest_of_a_day_is_counted_and_told(tmp_path, capsys):
    """A file that ends at noon, then one with the afternoon: nothing vanishes without a word."""
    days = [line for day in event_lines(12) for line in day]
    cut = len(days) - 30
    (tmp_path / "a.jsonl").write_text("".join(days[:cut]))
    (tmp_path / "b.jsonl").write_text("".join(days[cut:]))
    run = str(tmp_path / "r")
    options = [*TABLE, *MODEL, "--on-late", "error", "-o", run]
    assert call(["fit", str(tmp_path / "a.jsonl"), *options]) is Exit.DONE
    capsys.readouterr()
    assert call(["update", run, str(tmp_path / "b.jsonl")]) is Exit.BAD_INPUT
    assert "was closed before" in " ".join(capsys.readouterr().err.split())
    options[options.index("error")] = "drop"
    assert call(["fit", str(tmp_path / "a.jsonl"), *options, "--overwrite"]) is Exit.DONE
    capsys.readouterr()
    assert call(["update", run, str(tmp_path / "b.jsonl"), "--json"]) is Exit.DONE
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert (rows["read"], rows["late"], rows["learned"], rows["again"]) == (30, 30, 0, 0)
    both = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    assert call(["update", run, *both]) is Exit.DONE
    told = " ".join(capsys.readouterr().err.split())
    assert "30 came after theirs was closed and were dropped" in told
    assert f"{cut:,} had been read before" in told


@pytest.mark.slow
def test_settings_of_the_papers_solver_are_set_by_name(events, tmp_path):
    own = ["solver=sgd", "factor_rate=0.01", "history=last", "weight_epochs=1", "factor_epochs=1"]
    words = ["fit", str(events), *TABLE, *MODEL, "-o", str(tmp_path / "r"), "-q"]
    assert call([*words, *(word for setting in own for word in ("--set", setting))]) is Exit.DONE
    info = json.loads((tmp_path / "r" / "run.json").read_text())
    solver = info["model"]["parameters"]["solver"]["sgd"]
    assert (solver["factor_rate"], solver["history"], solver["history_size"]) == (0.01, "last", 50)
