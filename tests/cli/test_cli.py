"""The frame of the command line: help, mistakes, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

import onlinegcp
from onlinegcp.cli import COMMANDS, Exit, call


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
    used = min(_processor_seconds([sys.executable, "-c", code]) for _ in range(5))
    assert used < 0.5


def _processor_seconds(command):
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def test_a_warning_is_told_in_the_words_of_the_command_line(monkeypatch, capsys):
    def warned(words):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            shown = [
                warnings.formatwarning(UserWarning("Pass scale=1."), UserWarning, "model.py", 7),
                warnings.formatwarning("old", DeprecationWarning, "model.py", 7, ""),
            ]
        print(shown)
        return Exit.DONE

    before = warnings.formatwarning
    monkeypatch.setattr("onlinegcp.cli._run", warned)
    assert call(["fit"]) is Exit.DONE
    plain, as_ever = eval(capsys.readouterr().out)
    assert plain == "Warning: Pass --set scale=1.\n"
    assert as_ever.startswith("model.py:7: DeprecationWarning: old")
    assert warnings.formatwarning is before


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
    def fail(path, **_):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("onlinegcp.digest.read_digest", fail)
    assert call(["components", "."]) is Exit.UNEXPECTED
    assert "ZeroDivisionError: oops" in capsys.readouterr().err
