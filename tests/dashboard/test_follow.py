"""The follower of a run: what is new in a run that grows, is killed and resumed, or is long."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from onlinegcp import runlog
from onlinegcp.dashboard.follow import Follower
from onlinegcp.dashboard.hub import Hub
from onlinegcp.digest import read_digest
from onlinegcp.runlog.names import write_name

HERE = Path(__file__).parent


def names(events):
    return [name for name, _ in events]


def test_a_follower_gets_all_at_first_and_then_what_is_new(writer):
    writer.write(12)
    follower = Follower(writer.path)
    first = dict(follower.look())
    assert first["snapshot"]["steps"]["count"] == 12
    assert first["status"] == {"running": False, "problem": None}
    assert follower.look() == []
    writer.write(3)
    ((name, update),) = follower.look()
    assert name == "update"
    assert [row["n"] for row in update["rows"]] == [13, 14, 15]
    assert update["steps"]["count"] == 15
    json.dumps(update, allow_nan=False)


def test_a_follower_of_an_empty_run_sees_it_begin(writer, monkeypatch):
    monkeypatch.setattr("onlinegcp.dashboard.follow.MODEL_EVERY", 0.0)
    follower = Follower(writer.path)
    assert dict(follower.look())["snapshot"]["model"]["components"] == []
    writer.write(11)
    update = dict(follower.look())["update"]
    assert len(update["model"]["components"]) == 2
    assert len(update["rows"]) == 11


def test_a_page_is_given_all_rows_anew_before_it_grows_without_end(writer, monkeypatch):
    monkeypatch.setattr("onlinegcp.dashboard.follow.NEWEST", 5)
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    writer.write(4)
    assert len(dict(follower.look())["update"]["rows"]) == 4
    writer.write(3)
    update = dict(follower.look())["update"]
    assert update["fresh"] == 3
    assert update["all"]["count"] == len(update["all"]["rows"]) == 19
    writer.write(1)
    assert len(dict(follower.look())["update"]["rows"]) == 1


def test_names_given_while_a_page_is_open_are_shown(writer, monkeypatch):
    monkeypatch.setattr("onlinegcp.dashboard.follow.MODEL_EVERY", 0.0)
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    write_name(writer.path, 2, "Evening leisure", 2)
    model = dict(follower.look())["update"]["model"]
    assert {one["id"]: one["headline"] for one in model["components"]}[1] == "Evening leisure"


def test_readers_are_told_how_far_a_long_run_has_been_read(writer, monkeypatch):
    writer.write(12)
    hub = Hub(writer.path, 0.05)
    go = threading.Event()
    look = hub._follower.look
    monkeypatch.setattr(hub._follower, "look", lambda: (go.wait(20), look())[1])

    async def first():
        told = []
        messages = hub.messages()
        async for message in messages:
            told.append(message.split(b"\n")[0])
            if message.startswith(b"event: reading"):
                go.set()
            if message.startswith(b"event: snapshot"):
                break
        await messages.aclose()
        # One that leaves while the run is read is not kept.
        go.clear()
        other = hub.messages()
        await anext(other)
        assert (await anext(other)).startswith(b"event: reading")
        await other.aclose()
        go.set()
        await asyncio.sleep(1.0)
        return told

    told = asyncio.run(first())
    assert told[1:] == [b"event: reading"] * (len(told) - 2) + [b"event: snapshot"]
    assert len(told) > 2
    assert not hub._queues
    assert hub.n_readers == 0


def test_a_follower_survives_a_kill_and_a_resume(writer):
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    with (writer.path / runlog.STEPS).open("ab") as file:
        file.write(b'{"number": 13, "tim')
    assert follower.look() == []
    with runlog.Lock(writer.path):
        # Resumed from a checkpoint that knows one slice less.
        runlog.recover(writer.path, 11, writer.steps[10])
        events = dict(follower.look())
        assert events["snapshot"]["steps"]["count"] == 11
        assert events["status"]["running"] is True
        writer.at = 11
        writer.write(2)
        assert [row["n"] for row in dict(follower.look())["update"]["rows"]] == [12, 13]
    assert dict(follower.look())["status"]["running"] is False


def test_a_follower_reports_a_run_that_is_gone_and_one_that_comes_back(writer):
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    away = writer.path.with_name("away")
    writer.path.rename(away)
    assert "no directory" in dict(follower.look())["status"]["problem"]
    away.rename(writer.path)
    events = dict(follower.look())
    assert events["snapshot"]["steps"]["count"] == 12
    assert events["status"]["problem"] is None


def test_something_odd_in_the_files_is_told_and_ends_nothing(writer, monkeypatch):
    writer.write(5)
    follower = Follower(writer.path)
    monkeypatch.setattr("onlinegcp.dashboard.follow.build", lambda *_, **__: [][0])
    assert "cannot be shown" in dict(follower.look())["status"]["problem"]
    monkeypatch.undo()
    assert dict(follower.look())["status"]["problem"] is None


# ---- long runs: the newest slices first, the others while the page is open


@pytest.fixture
def long(monkeypatch):
    """Runs of more than a few lines are long ones."""
    monkeypatch.setattr("onlinegcp.dashboard.follow.AT_ONCE", 20_000)
    monkeypatch.setattr("onlinegcp.dashboard.follow.PREVIEW", 15_000)
    monkeypatch.setattr("onlinegcp.dashboard.follow.FILL_LINES", 3)
    monkeypatch.setattr("onlinegcp.dashboard.follow.FILL_SECONDS", 0.0001)


def looks(follower):
    """Looks until a run that was shown in part is shown whole; all events meanwhile."""
    events = []
    for _ in range(100):
        events.append(follower.look())
        if "snapshot" in names(events[-1]):
            return events
    raise AssertionError("never read to its end")


@pytest.mark.usefixtures("long")
def test_of_a_long_run_the_newest_slices_are_shown_first(writer):
    writer.write(30)
    follower = Follower(writer.path)
    first = dict(follower.look())["snapshot"]
    shown = [row["n"] for row in first["steps"]["rows"]]
    assert shown == list(range(shown[0], 31))
    assert 1 < shown[0] < 30
    assert first["reading"] == {"share": 0.0}
    assert len(first["model"]["components"]) == 2
    *before, last = looks(follower)
    shares = [dict(events)["reading"]["share"] for events in before]
    assert shares == sorted(shares)
    assert 0.0 < shares[-1] < 1.0
    whole = dict(last)["snapshot"]
    assert whole == read_whole(writer.path)
    assert follower.share_read == 1.0
    assert follower.look() == []
    writer.write(2)
    assert [row["n"] for row in dict(follower.look())["update"]["rows"]] == [31, 32]


def read_whole(path):
    """What a reader sees that has time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onlinegcp.dashboard.follow.AT_ONCE", 10**9)
        return dict(Follower(path).look())["snapshot"]


@pytest.mark.usefixtures("long")
def test_slices_that_come_while_the_others_are_read_are_shown(writer):
    writer.write(30)
    follower = Follower(writer.path)
    follower.look()
    writer.write(1)
    events = follower.look()
    assert names(events) == ["update", "reading"]
    assert [row["n"] for row in events[0][1]["rows"]] == [31]
    writer.write(1)
    whole = dict(looks(follower)[-1])["snapshot"]
    assert whole["steps"]["count"] == 32
    assert whole == read_whole(writer.path)


@pytest.mark.usefixtures("long")
def test_a_long_run_that_is_cut_while_it_is_read_is_read_anew(writer):
    writer.write(30)
    follower = Follower(writer.path)
    follower.look()
    with runlog.Lock(writer.path):
        runlog.recover(writer.path, 28, writer.steps[27])
    follower.look()
    for _ in range(100):
        follower.look()
    assert follower.payload() == read_whole(writer.path)
    assert follower.payload()["steps"]["count"] == 28


@pytest.mark.usefixtures("long")
def test_a_damaged_line_of_a_long_run_is_told_when_it_is_met(writer):
    writer.write(30)
    lines = (writer.path / runlog.STEPS).read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"total", b"totem")
    (writer.path / runlog.STEPS).write_bytes(b"".join(lines))
    follower = Follower(writer.path)
    assert dict(follower.look())["status"]["problem"] is None
    told = [status for _ in range(9) for name, status in follower.look() if name == "status"]
    assert len(told) == 1  # it stays
    assert "line 4 is none of a run" in told[0]["problem"]
    writer.write(1)
    assert [row["n"] for row in dict(follower.look())["update"]["rows"]] == [31]


def test_components_that_change_places_are_told_without_reading_all_again(writer, monkeypatch):
    writer.write(12)
    follower = Follower(writer.path)
    follower.look()
    monkeypatch.setattr("onlinegcp.dashboard.follow.Digest", None)
    writer.steps = [dict(step) for step in writer.steps]
    writer.steps[12]["order"] = [1, 0]
    writer.write(2)
    found = dict(follower.look())["snapshot"]
    monkeypatch.undo()
    assert found == read_whole(writer.path)
    rows = {row["n"]: row["w"] for row in found["steps"]["rows"]}
    assert rows[12] == pytest.approx(writer.steps[11]["weights"][::-1], rel=1e-3)
    assert rows[13] == pytest.approx(writer.steps[12]["weights"], rel=1e-3)


def test_a_stored_digest_spares_the_page_all_lines_before(writer, monkeypatch):
    writer.write(30)
    wanted = read_whole(writer.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onlinegcp.digest.reading.EVERY", 10)
        read_digest(writer.path)
    monkeypatch.setattr("onlinegcp.dashboard.follow.AT_ONCE", 1)
    assert dict(Follower(writer.path).look())["snapshot"] == wanted
    before = {file.name: file.read_bytes() for file in writer.path.iterdir()}
    assert runlog.DIGEST in before
    writer.write(1)
    Follower(writer.path).look()
    assert (writer.path / runlog.DIGEST).read_bytes() == before[runlog.DIGEST]
