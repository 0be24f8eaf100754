"""What docs/sources.md shows works as it stands, on a file and a log made for it."""

from __future__ import annotations

import re
import shlex
import sqlite3
from pathlib import Path

import pytest

from onlinegcp.cli import Exit, call
from onlinegcp.events import from_events

PAGE = (Path(__file__).parents[3] / "docs" / "sources.md").read_text()
ROWS = [
    (f"2018-01-01 {h:02}:{m:02}", f"z{m}", f"z{(h + m) % 4}") for h in range(15) for m in range(9)
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / "rides.db") as connection:
        connection.execute('create table rides (pickup, pu, "do")')
        connection.executemany("insert into rides values (?, ?, ?)", ROWS)
    connection.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_database_in_python(folder):
    names = {}
    exec(blocks("python")[0], names)
    assert sum(x.total for x in names["stream"]) == len(ROWS)


def test_the_log_in_python(folder):
    def poll(position):
        start = position or 0
        columns = zip(*ROWS[start:], strict=True)
        table = dict(zip(("pickup", "pu", "do"), columns, strict=True))
        yield {name: list(some) for name, some in table.items()}, range(start, len(ROWS) + 1)

    names = {"poll": poll, "onlinegcp": __import__("onlinegcp")}
    exec(blocks("python")[1], names)
    options = {"time": "pickup", "every": "1h", "modes": ["pu", "do"]}
    stream = from_events(names["Log"](), **options)
    first = next(stream)
    rest = from_events(names["Log"](), **options).restore(stream.state(), again=True)
    assert first.total + sum(x.total for x in rest) == len(ROWS) - 9  # the last hour is open
    assert rest.state()["positions"] == {"kafka://broker/rides": len(ROWS)}


@pytest.mark.slow
def test_the_commands_on_a_file(folder):
    (block,) = [text for text in blocks("sh") if "postgresql://" in text]
    address = "postgresql://ann@db.example.org/taxi"
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line.replace(address, "sqlite:///rides.db"))
        assert call([*words[1:], "--quiet"]) is Exit.DONE
