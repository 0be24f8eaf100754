"""Small files of events and the command line, for tests of commands."""

from __future__ import annotations

import datetime
import json
import sys
import time
from pathlib import Path

import numpy as np

from onlinegcp.cli import Exit, call

START = datetime.date(2018, 1, 1)
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


def write_events(path):
    """Thirty days of them, of which the 26th is odd."""
    path.write_text("".join(line for day in event_lines(30) for line in day))
    return path


def fit(events, path):
    """A finished run over all days."""
    assert call(["fit", str(events), *TABLE, *MODEL, "-o", str(path), "--quiet"]) is Exit.DONE
    return path


def wait_for(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)
