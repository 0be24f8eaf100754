"""Words, labels and files that somebody chose to do harm: refused in words, shown harmlessly."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import date, timedelta

import polars as pl
import pytest

from cli_tools import MODEL, PROGRAM, TABLE, event_lines
from onlinegcp.cli import Exit, call
from onlinegcp.cli.terminal import say, say_table
from onlinegcp.storage.printable import printable, short
from run_tools import files_of


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    file = tmp_path_factory.mktemp("events") / "e.jsonl"
    file.write_text("".join(line for day in event_lines(8) for line in day))
    return file


@pytest.fixture(scope="module")
def fitted(events):
    run = events.parent / "r"
    assert call(["fit", str(events), *TABLE, *MODEL, "-o", str(run), "-q"]) is Exit.DONE
    return run


@pytest.mark.parametrize(
    "words",
    [
        ["--rank", "2.5"], ["--rank", "1000000"], ["--rank", "nan"], ["--rank", "1e3"],
        ["--warm-start", "9.9"], ["--seed", "1.7"], ["--jobs", "1.5"], ["--season", "7.5"],
        ["--level", "nan"], ["--level", "inf"], ["--level", "5"], ["--level", "0"],
        ["--max-gap", "0.5"],
    ],
)  # fmt: skip
def test_numbers_are_what_is_written_or_refused(events, tmp_path, words, capsys):
    given = ["fit", str(events), *TABLE, "-o", str(tmp_path / "r"), *words]
    assert call(given) is Exit.BAD_INPUT
    assert words[0].strip("-") in capsys.readouterr().err.replace("_", "-")
    assert not (tmp_path / "r").exists()


def test_a_bad_option_leaves_the_run_it_would_replace(fitted, events):
    before = files_of(fitted)
    words = ["fit", str(events), *TABLE, *MODEL, "-o", str(fitted), "--overwrite", "--level", "5"]
    assert call(words) is Exit.BAD_INPUT
    assert files_of(fitted) == before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["export", "{run}", "activations", "-o"], "steps.jsonl"),
        (["export", "{run}", "anomalies", "-o"], "other.jsonl"),
        (["export", "{run}", "ktensor", "-o"], "checkpoint.npz"),
        (["report", "{run}", "--no-global", "-o"], "run.json"),
    ],
)
def test_no_output_lands_in_a_run(fitted, command, name, tmp_path, capsys):
    before = files_of(fitted)
    link = tmp_path / "link"
    link.symlink_to(fitted)
    for folder in (fitted, link):
        words = [word.format(run=fitted) for word in command]
        assert call([*words, str(folder / name)]) is Exit.BAD_INPUT
        assert "outside the directories of runs" in " ".join(capsys.readouterr().err.split())
    assert files_of(fitted) == before


def test_a_nul_in_a_path_is_refused(tmp_path, capsys):
    assert call(["inspect", f"{tmp_path}\0"]) is Exit.BAD_INPUT
    assert "value 0" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "code", "told"),
    [
        ("{program} fit <(cat {events}) {options}", 0, "Learned"),
        ("{program} fit - {options} <&-", 2, "closed"),
        ("{program} inspect {run} > /dev/full", 3, "No space"),
        ("{program} inspect {run} --json > /dev/full", 3, "No space"),
    ],
)
def test_shells_do_odd_things(events, fitted, tmp_path, script, code, told):
    options = " ".join([*TABLE, *MODEL, "-o", str(tmp_path / "r")])
    line = script.format(program=PROGRAM, events=events, options=options, run=fitted)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


# ---- labels


EVIL = "a\x1b[2J\x9b31m\u202ecba\ud800\r\0"


def test_controls_are_written_out():
    shown = printable(EVIL)
    assert shown == "a\\x1b[2J\\x9b31m\\u202ecba\\ud800\\x0d\\x00"
    assert printable("Zürich\t北京\n😀") == "Zürich\t北京\n😀"
    assert len(short("x" * 10**6)) == 200


def test_neither_escapes_nor_markup_reach_the_terminal(capsys):
    say_table(["[/x]", EVIL], [["[bold]", EVIL], ["[/]", "x" * 5000]])
    say(EVIL.replace("[", "\\["))
    shown = capsys.readouterr().out
    assert "[/x]" in shown
    assert "[bold]" in shown
    assert not set(shown) & set("\x1b\x9b\u202e\r\0")
    assert "x" * 300 not in "".join(shown.split())


FIRST = date(2024, 1, 1)


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A run whose labels and modes were chosen to do harm."""
    folder = tmp_path_factory.mktemp("evil")
    long = "L" * 300_000
    records = [
        {"when": str(FIRST + timedelta(day)), "[/x]": label, "time": other, "observed": "q"}
        for day in range(80)
        for label, other in ((EVIL.replace("\ud800", ""), long), ("b", "c"), (long, "c"))
    ]
    # One day is odd, so that cells are named.
    records += [
        {"when": str(FIRST + timedelta(79)), "[/x]": "b", "time": "c", "observed": "o"}
    ] * 300
    (folder / "e.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    table = ["--time", "when", "--every", "1d", "--modes", "[/x],time,observed"]
    words = ["fit", str(folder / "e.jsonl"), *table, *MODEL, "-o", str(folder / "r"), "-q"]
    assert call(words) is Exit.DONE
    return folder / "r"


@pytest.mark.parametrize("command", ["components", "anomalies", "inspect"])
def test_commands_show_such_a_run(evil, command, capsys):
    words = [command, str(evil), *(["--all"] if command == "anomalies" else [])]
    assert call(words) is Exit.DONE
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert len(shown) < 50_000


def test_its_report_is_of_ordinary_size(evil):
    assert call(["report", str(evil), "--no-global", "-q"]) is Exit.DONE
    assert (evil / "report.html").stat().st_size < 1_000_000


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_columns_of_modes_and_ours_never_clash(evil, ending, tmp_path):
    target = tmp_path / f"cells.{ending}"
    assert call(["export", str(evil), "cells", "-o", str(target)]) is Exit.DONE
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}[ending]
    table = read(target)
    ours = ["slice", "time", "observed", "expected", "low", "high", "p"]
    assert set(table.columns) == {*ours, "[/x]", "mode time", "mode observed"}
    assert table["time"].cast(pl.String).str.starts_with("2024-").all()
    assert set(table["mode observed"].fill_null("")) - {""} == {"o"}  # a row may be of other modes


def test_memory_that_is_not_there_is_no_bug(monkeypatch, capsys):
    def greedy(*_, **__):
        raise MemoryError("Unable to allocate 8 TiB")

    monkeypatch.setattr("onlinegcp.digest.read_digest", greedy)
    assert call(["components", os.devnull]) is Exit.BAD_INPUT
    assert "more memory than there is" in " ".join(capsys.readouterr().err.split())


def test_hooks_reach_neither_the_run_nor_the_terminal(events, tmp_path, capsys, monkeypatch):
    run = tmp_path / "r"
    hooks = ["--webhook", "http://localhost:9/geheim", "--on-alarm", "true --key geheim"]
    fit = ["fit", str(events), *TABLE, *MODEL, "-o", str(run), *hooks]
    monkeypatch.setattr("sys.argv", ["onlinegcp", *fit])
    assert call(fit) is Exit.DONE
    update = ["update", str(run), str(events), *hooks]
    monkeypatch.setattr("sys.argv", ["onlinegcp", *update])
    assert call(update) is Exit.DONE
    assert call(["inspect", str(run)]) is Exit.DONE
    assert call(["report", str(run), "--no-global"]) is Exit.DONE
    told = "".join(capsys.readouterr())
    assert "http://localhost:9/***" in told
    assert "geheim" not in told
    assert all(b"geheim" not in content for content in files_of(run).values())


@pytest.mark.parametrize(
    "hook",
    [
        ["--webhook", "htps://example.com/geheim"],
        ["--on-alarm", "no-such-program geheim"],
        ["--on-alarm", "true 'geheim"],
    ],
)
def test_errors_about_hooks_do_not_tell_them(events, tmp_path, capsys, hook):
    assert call(["fit", str(events), *TABLE, *MODEL, "-o", str(tmp_path), *hook]) is Exit.BAD_INPUT
    assert "geheim" not in capsys.readouterr().err
