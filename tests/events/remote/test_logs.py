"""Logs: the position that is stored is exactly that of what was learned, wherever it is cut."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

import run_tools
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.remote.logs import EventLog, LogBatch
from onlinegcp.run import Run
from onlinegcp.run.checkpoint import write_checkpoint

SETTINGS = {"time": "when", "every": "1d", "modes": ["pu", "do"]}


class ListLog:
    """A log in memory, as a user would write one for another server; positions are numbers."""

    name = "a list"

    def __init__(self, rows, batch=7):
        self.rows, self.batch = rows, batch
        self.acknowledged = []
        self.asked = []

    def read_after(self, position):
        self.asked.append(position)
        start = 0 if position is None else position
        for first in range(start, len(self.rows), self.batch):
            some = self.rows[first : min(first + self.batch, len(self.rows))]
            names = dict.fromkeys(name for row in some for name in row)
            table = {name: [row.get(name) for row in some] for name in names}
            yield LogBatch(table, lambda n, first=first: first + n)

    def acknowledge(self, position):
        assert not self.acknowledged or position >= self.acknowledged[-1]
        self.acknowledged.append(position)


def rows_of_days(n_days=9, seed=0):
    """Rows with some late, some without a time or a key, and a day without any."""
    rng = np.random.default_rng(seed)
    rows = []
    for day in range(n_days):
        for _ in range(0 if day == 4 else rng.integers(3, 15)):
            late = rng.random() < 0.1 and day
            date = run_tools.START + datetime.timedelta(days=int(day - late))
            row = {
                "when": f"{date}T08:00",
                "pu": f"z{rng.integers(4)}",
                "do": f"z{rng.integers(4)}",
            }
            if rng.random() < 0.1:
                row["when" if rng.random() < 0.5 else "do"] = None
            rows.append(row)
    return rows


def counters(stream):
    state = stream.state()
    return {name: state[name] for name in ("n_slices", "n_events", "n_late", "n_null", "closed")}


def open_cells(stream):
    kept = stream.state()["open"]
    cells = zip(*kept["cells"]["labels"], kept["cells"]["total"], strict=True)
    return {**kept, "cells": sorted(cells)}


def content(slices):
    return [(x.time, x.shape, x.index.tolist(), x.value.tolist()) for x in slices]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", [2, 7, 1000])
def test_a_log_goes_on_after_any_slice_without_losing_or_repeating_a_row(seed, batch):
    rows = rows_of_days(seed=seed)
    whole = from_events(ListLog(rows, batch), **SETTINGS)
    wanted = content(whole)
    assert whole.n_late
    assert whole.n_null
    for cut in range(len(wanted) + 1):
        stream = from_events(ListLog(rows, batch), **SETTINGS)
        first = content(x for _, x in zip(range(cut), stream, strict=False))
        state = json.loads(json.dumps(stream.state()))
        stream.close()
        log = ListLog(rows, batch)
        rest = from_events(log, **SETTINGS).restore(state, again=True)
        assert first + content(rest) == wanted
        assert counters(rest) == counters(whole)
        # The open bin is kept, and the log done with.
        assert open_cells(rest) == open_cells(whole)
        assert rest.state()["positions"] == {"a list": len(rows)}
        assert cut == 0 or log.asked[0] > 0


@pytest.mark.slow
def test_rows_that_come_in_pieces_make_the_run_they_make_at_once(tmp_path):
    # One row in the last bin: its cells are kept in the order in which they came.
    rows = [*rows_of_days(20, seed=5), {"when": "2018-02-01T00:00", "pu": "z0", "do": "z1"}]
    assert isinstance(ListLog(rows), EventLog)
    for path, ends in (("pieces", [60, 61, 100, len(rows)]), ("whole", [len(rows)])):
        log = ListLog([])
        for end in ends:
            log.rows = rows[:end]
            model = run_tools.small_model()
            new = not (tmp_path / path).exists()
            with (
                Run.create(tmp_path / path, model, modes=["pu", "do"], events=SETTINGS)
                if new
                else Run.open(tmp_path / path)
            ) as run:
                run.learn(run.stream(log))
                assert log.acknowledged[-1] == end
    run_tools.assert_same_run(tmp_path / "pieces", tmp_path / "whole")


def test_nothing_is_acknowledged_before_it_is_stored(tmp_path, monkeypatch):
    log = ListLog(rows_of_days())
    stored = []

    def write(folder, point):
        assert len(log.acknowledged) == len(stored)
        write_checkpoint(folder, point)
        stored.append(point.events["positions"]["a list"])

    monkeypatch.setattr("onlinegcp.run.loop.write_checkpoint", write)
    model = run_tools.small_model()
    with Run.create(tmp_path / "run", model, modes=["pu", "do"], events=SETTINGS) as run:
        run.learn(run.stream(log))
    assert log.acknowledged == stored
    assert stored[-1] == len(log.rows)


def test_a_column_no_row_has_is_refused_at_the_start_and_missing_later():
    rows = rows_of_days()
    with pytest.raises(DataError, match="Column 'nowhere' is needed, but a list has only"):
        next(from_events(ListLog(rows), time="when", every="1d", modes=["nowhere"]))
    stream = from_events(ListLog([*rows, {"other": "x"}], batch=1), **SETTINGS)
    before = from_events(ListLog(rows, batch=1), **SETTINGS)
    assert content(stream) == content(before)
    assert stream.state()["open"]["n_null"] == before.state()["open"]["n_null"] + 1


def test_a_log_is_a_source_of_its_own(tmp_path):
    rows = rows_of_days()
    with pytest.raises(DataError, match="on their own"):
        from_events([ListLog(rows), ListLog(rows)], **SETTINGS)
    with pytest.raises(DataError, match="read only once"):
        from_events(ListLog(rows), **SETTINGS, top=3)
