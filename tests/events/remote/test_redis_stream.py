"""A real Redis server: entries are learned once, whatever is killed, and lost ones are told of."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

import run_tools
from cli_tools import MODEL, PROGRAM, TABLE, event_lines, wait_for
from onlinegcp.cli import Exit, call
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.remote.redis_stream import RedisStream
from onlinegcp.storage.secrets import redacted
from real_servers import redis_server

pytestmark = pytest.mark.slow
SETTINGS = {"time": "when", "every": "1d", "modes": ["pu", "do", "when:weekday"]}


@pytest.fixture(scope="module")
def server():
    with redis_server() as (port, client):
        yield f"redis://:geheim@127.0.0.1:{port}/", client


def add(client, name, lines, *, json_field=None):
    pipe = client.pipeline(transaction=False)
    for line in lines:
        pipe.xadd(name, {json_field: line} if json_field else json.loads(line))
    pipe.execute()


def has_steps(run, number):
    lines = run / "steps.jsonl"
    return lines.exists() and lines.read_bytes().count(b"\n") >= number


def pending(client, name):
    return sum(group["pending"] for group in client.xinfo_groups(name))


def test_a_stream_gives_the_slices_a_file_gives(server, tmp_path):
    address, client = server
    lines = [line for day in event_lines(10) for line in day]
    add(client, "plain", lines)
    add(client, "packed", lines, json_field="event")
    (tmp_path / "events.jsonl").write_text("".join(lines))
    wanted = from_events(tmp_path / "events.jsonl", **SETTINGS, close_last=False)
    slices = list(wanted)
    for name in ("plain", "0/plain", "packed?json=event"):
        stream = from_events(address + name, **SETTINGS)
        assert list(stream) == slices
        assert stream.labels == wanted.labels
        assert stream.state()["open"]["n_events"] == wanted.state()["open"]["n_events"]


def test_pieces_are_learned_once_and_acknowledged_once_stored(server, tmp_path):
    address, client = server
    days = event_lines(12)
    run = str(tmp_path / "log.run")
    add(client, "pieces", [line for day in days[:6] for line in day])
    words = ["fit", address + "pieces", *TABLE, *MODEL, "-o", run, "--quiet"]
    assert call(words) is Exit.DONE
    for day in days[6:]:
        add(client, "pieces", day)
        assert call(["update", run, address + "pieces", "--quiet"]) is Exit.DONE
    assert pending(client, "pieces") == 0
    assert len(client.xinfo_groups("pieces")) == 1
    whole = str(tmp_path / "whole.run")
    words = ["fit", address + "pieces", *TABLE, *MODEL, "-o", whole, "--quiet"]
    assert call(words) is Exit.DONE
    assert run_tools.steps_of(run) == run_tools.steps_of(whole)
    for file in ("run.json", "sources.jsonl", "checkpoint.npz"):
        assert b"geheim" not in (tmp_path / "log.run" / file).read_bytes()


def test_a_run_that_is_killed_while_it_follows_loses_and_repeats_nothing(server, tmp_path):
    address, client = server
    days, run = event_lines(24), tmp_path / "killed.run"
    source = address + "killed?follow=yes"
    add(client, "killed", days[0])
    commands = [["fit", source, *TABLE, *MODEL, "-o", str(run)], ["update", str(run), source]]
    done = 1
    for n_killed in range(4):
        command = commands[bool(n_killed)]
        running = subprocess.Popen([PROGRAM, *command, "--quiet"])
        try:
            for day in days[done : done + 6]:
                add(client, "killed", day)
            done += 6
            # All days but the last are learned; or it is killed somewhere before.
            n_steps = done - (4 if n_killed % 2 else 1)
            wait_for(lambda n=n_steps: has_steps(run, n))
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
    last = address + "killed"
    assert call(["update", str(run), last, "--quiet"]) is Exit.DONE
    whole = str(tmp_path / "whole.run")
    assert call(["fit", last, *TABLE, *MODEL, "-o", whole, "--quiet"]) is Exit.DONE
    assert run_tools.steps_of(run) == run_tools.steps_of(whole)
    assert pending(client, "killed") == 0


def test_entries_deleted_before_they_were_read_are_told_of(server, caplog):
    address, client = server
    days = event_lines(6)
    add(client, "trimmed", [line for day in days[:3] for line in day])
    stream = from_events(address + "trimmed", **SETTINGS)
    assert len(list(stream)) == 2
    client.xtrim("trimmed", maxlen=0, approximate=False)  # all of them were read
    assert list(from_events(address + "trimmed", **SETTINGS).restore(stream.state())) == []
    add(client, "trimmed", [line for day in days[3:] for line in day])
    client.xtrim("trimmed", maxlen=len(days[5]), approximate=False)
    n_lost = len(days[3]) + len(days[4])
    with pytest.raises(DataError, match=f"at least {n_lost} were deleted from"):
        next(from_events(address + "trimmed", **SETTINGS).restore(stream.state()))
    rest = from_events(address + "trimmed?lost=accept", **SETTINGS).restore(stream.state())
    assert len(list(rest)) == 3
    assert f"at least {n_lost} were deleted" in caplog.text
    # One that is deleted by itself is missed as well.
    client.xdel("trimmed", client.xadd("trimmed", {"when": "2018-02-01T00:00"}))
    with pytest.raises(DataError, match="at least 1 were deleted"):
        next(from_events(address + "trimmed", **SETTINGS).restore(rest.state()))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "does not"),
        ("", "Add its name"),
        ("a/b/c", "Add its name"),
        ("plain?grup=x", "Did you mean 'group'"),
        ("wrong?json=event", "must hold a JSON object"),
        ("text", "that failed: WRONGTYPE"),
    ],
)
def test_mistakes_are_named_without_secrets(server, path, message):
    address, client = server
    client.set("text", "x")
    client.xadd("wrong", {"event": "[1]"})
    with pytest.raises(DataError, match=message) as caught:
        next(from_events(address + path, **SETTINGS))
    assert "geheim" not in str(caught.value)


def test_a_wrong_password_is_not_shown(server):
    address = server[0].replace("geheim", "falsch")
    with pytest.raises(DataError, match=r"invalid username-password pair") as caught:
        next(from_events(address + "plain", **SETTINGS))
    assert "falsch" not in str(caught.value)


def test_a_server_that_is_not_there_and_a_package_that_is_not_there(monkeypatch):
    started = time.monotonic()
    with pytest.raises(DataError, match="Check the address and the server") as caught:
        next(from_events("redis://ann:geheim@127.0.0.1:1/x", **SETTINGS))
    assert "geheim" not in str(caught.value)
    assert time.monotonic() - started < 30
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(DataError, match=r"pip install 'onlinegcp\[redis\]'"):
        RedisStream("redis://localhost/x")
    assert redacted("redis://ann:geheim@h/x") == "redis://ann:***@h/x"
