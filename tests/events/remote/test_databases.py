"""Databases give the slices a file gives, ask only for what is new, and tell of late rows."""

from __future__ import annotations

import datetime
import json
import random
import shlex
import sqlite3
import sys
from pathlib import Path

import polars as pl
import pytest

import run_tools
from onlinegcp.cli import Exit, call
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.remote import connections
from onlinegcp.events.remote.databases import Database, database
from onlinegcp.run import Run

QUERY = "select * from rides -- all of them;"


def rides(path, n_days=12):
    """Rows of the file as tuples."""
    lines = run_tools.write_events(path, n_days).read_text().splitlines()[1:]
    return sorted(tuple(line.split(",")) for line in lines)


def fill_sqlite(path, rows, *, spell=lambda when: when):
    connection = sqlite3.connect(path)
    connection.execute('create table if not exists rides (other text, "when", pu text, "do" text)')
    random.Random(0).shuffle(rows := list(rows))
    given = [("x", None if when is None else spell(when), pu, do) for when, pu, do in rows]
    connection.executemany("insert into rides values (?, ?, ?, ?)", given)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def fill_duckdb(path, rows, *, kind="timestamp"):
    duckdb = pytest.importorskip("duckdb")
    times = {"timestamp": pl.Datetime("us"), "date": pl.Date, "timestamptz": pl.Datetime("us")}
    frame = pl.DataFrame(list(rows), schema=["when", "pu", "do"], orient="row")
    frame = frame.with_columns(pl.col("when").str.to_datetime("%Y-%m-%dT%H:%M"))
    frame = frame.cast({"when": times[kind]}).sample(fraction=1.0, shuffle=True, seed=1)
    path.with_suffix(".csv").write_text(frame.write_csv())
    with duckdb.connect(str(path)) as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.execute(
            f'create table rides as select "when"::{kind} as "when", pu, "do", '
            f"interval 1 day as never from read_csv('{path.with_suffix('.csv')}')"
        )
    return str(path)


def seconds(when):
    return int(datetime.datetime.fromisoformat(f"{when}:00+00:00").timestamp())


def content(stream):
    """Slices by time and labels, whatever their codes."""
    found = {}
    for x in stream:
        cells = zip(x.index.tolist(), x.value.tolist(), strict=True)
        found[str(x.time)[:10]] = {
            tuple(names[i] for names, i in zip(stream.labels, cell, strict=True)): value
            for cell, value in cells
        }
    return found


PLACES = {
    "sqlite text": lambda path, rows: fill_sqlite(path, rows),
    "sqlite text with a space": lambda path, rows: fill_sqlite(
        path, rows, spell=lambda when: when.replace("T", " ") + ":00.5Z"
    ),
    "sqlite seconds": lambda path, rows: fill_sqlite(path, rows, spell=seconds),
    "sqlite milliseconds": lambda path, rows: fill_sqlite(
        path, rows, spell=lambda when: seconds(when) * 1000.0
    ),
    "duckdb": fill_duckdb,
    "duckdb with a zone": lambda path, rows: fill_duckdb(path, rows, kind="timestamptz"),
    "duckdb dates": lambda path, rows: fill_duckdb(path, rows, kind="date"),
}


def place(name, tmp_path, rows):
    suffix = ".duckdb" if "duckdb" in name else ".db"
    return PLACES[name](tmp_path / f"rides{suffix}", rows)


@pytest.mark.parametrize("name", PLACES)
def test_a_database_gives_the_slices_a_file_gives(tmp_path, name):
    rows = rides(tmp_path / "rides.csv")
    wanted = content(from_events(tmp_path / "rides.csv", **run_tools.SETTINGS))
    found = from_events(database(place(name, tmp_path, rows), QUERY), **run_tools.SETTINGS)
    assert content(found) == wanted
    assert found.n_events == len(rows)
    assert found.n_late == found.n_null == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("every", ["1d", "6h", "1w"])
def test_a_stream_goes_on_after_any_slice_and_asks_only_for_the_rest(tmp_path, name, every):
    every = "1d" if "dates" in name else every  # they have no hours
    rows = rides(tmp_path / "rides.csv")
    source = place(name, tmp_path, rows)
    settings = {**run_tools.SETTINGS, "every": every}
    whole = from_events(database(source, QUERY), **settings)
    times = [(x.time, x.total) for x in whole]
    for cut in range(1, len(times), max(1, len(times) // 4)):
        stream = from_events(database(source, QUERY), **settings)
        first = [(x.time, x.total) for _, x in zip(range(cut), stream, strict=False)]
        state = json.loads(json.dumps(stream.state()))
        stream.close()
        rest = from_events(database(source, QUERY), **settings).restore(state, again=True)
        assert first + [(x.time, x.total) for x in rest] == times
        assert rest.labels == whole.labels
        assert rest.n_events == len(rows)
        assert rest.n_late == 0
        assert rest.n_read == len(rows) - state["n_events"]


@pytest.mark.slow
def test_an_open_bin_is_asked_for_again(tmp_path):
    rows = rides(tmp_path / "rides.csv")
    half = len(rows) // 2
    source = fill_sqlite(tmp_path / "rides.db", rows[:half])
    with Run.create(
        tmp_path / "run", run_tools.small_model(), modes=["pu", "do"], events=run_tools.SETTINGS
    ) as run:
        run.learn(run.stream(database(source, QUERY), close_last=False))
    fill_sqlite(tmp_path / "rides.db", rows[half:])
    with Run.open(tmp_path / "run") as run:
        run.learn(run.stream(database(source, QUERY)))
    run_tools.learn_events(tmp_path / "whole", database(source, QUERY))
    # The names of the modes are all that differs in what was asked for.
    run_tools.assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_rows_an_earlier_file_left_in_an_open_bin_are_kept(tmp_path):
    rows = rides(tmp_path / "rides.csv", 6)
    last = rows[-1][0][:10]
    source = fill_sqlite(tmp_path / "rides.db", [row for row in rows if row[0] < "2018-01-03"])
    run_tools.learn_events(tmp_path / "run", tmp_path / "rides.csv", close_last=False)
    run_tools.learn_events(tmp_path / "run", database(source, QUERY), close_last=False)
    fill_sqlite(tmp_path / "rides.db", [(f"{last}T23:59", "z0", "z0")])
    run_tools.learn_events(tmp_path / "run", database(source, QUERY))
    with Run.open(tmp_path / "run", write=False) as run:
        assert run._point.events["n_events"] == len(rows) + 1


def test_late_rows_are_counted_once_or_refused(tmp_path):
    rows = rides(tmp_path / "rides.csv", 8)
    source = fill_sqlite(tmp_path / "rides.db", rows)

    def go_on(state, **options):
        stream = from_events(database(source, QUERY), **run_tools.SETTINGS, **options)
        stream.restore(state, again=True)
        assert list(stream) == []
        return stream

    stream = from_events(database(source, QUERY), **run_tools.SETTINGS)
    assert len(list(stream)) == 8
    assert go_on(stream.state()).n_late == 0
    fill_sqlite(tmp_path / "rides.db", [("2018-01-03T04:00", "z0", "z1")] * 3)
    fill_sqlite(tmp_path / "rides.db", [("2018-01-08T00:00", "z0", "z1")] * 2)
    later = go_on(stream.state())
    assert later.n_late == 5
    assert go_on(later.state()).n_late == 5
    with pytest.raises(DataError, match=r"5 new ones in bins up to 2018-01-08"):
        go_on(stream.state(), on_late="error")
    # Another question has another answer.
    other = from_events(database(source, "select * from rides"), **run_tools.SETTINGS)
    assert list(other.restore(stream.state(), again=True)) == []
    assert other.n_late == 0


def test_rows_without_a_time_count_once(tmp_path):
    rows = rides(tmp_path / "rides.csv", 3)
    source = fill_sqlite(tmp_path / "rides.db", [*rows, (None, "z0", "z1"), (None, "z2", "z1")])
    stream = from_events(database(source, QUERY), **run_tools.SETTINGS)
    next(stream)
    assert stream.n_null == 2
    rest = from_events(database(source, QUERY), **run_tools.SETTINGS)
    assert len(list(rest.restore(stream.state(), again=True))) == 2
    assert rest.n_null == 2
    with pytest.raises(DataError, match="must have a value in every row"):
        next(from_events(database(source, QUERY), **run_tools.SETTINGS, on_null="error"))


@pytest.mark.parametrize("name", ["sqlite text", "duckdb", "duckdb with a zone"])
def test_limits_and_most_frequent_labels_are_those_of_a_file(tmp_path, name):
    rows = rides(tmp_path / "rides.csv")
    options = {"since": "2018-01-03T12:00", "until": "2018-01-09", "top": 3, **run_tools.SETTINGS}
    wanted = content(from_events(tmp_path / "rides.csv", **options))
    assert content(from_events(database(place(name, tmp_path, rows), QUERY), **options)) == wanted


@pytest.mark.parametrize(
    ("source", "query", "message"),
    [
        ("rides.db", "selec", "the query cannot be used"),
        ("rides.db", "select * from nowhere", "no such table: nowhere"),
        ("rides.db", "  ", "but it is empty"),
        ("rides.db", 'select pu, "do" from rides', "Column 'when' is needed"),
        ("rides.db", """select '3/1/2018' as "when", pu, "do" from rides""", "able to sort"),
        ("rides.db", """select x'00' as pu, "when", "do" from rides""", "holds bytes"),
        ("sqlite:///none.db", "select 1", "none.db is none"),
        ("rides.csv", "select 1", "rides.csv is none"),
        ("mysql://ann:geheim@host/db", "select 1", r"mysql://ann:\*\*\*@host/db is none"),
        ("postgresql://ann:geheim@127.0.0.1:1/x", "select 1", "it cannot be reached"),
        ("postgresql://ann:geheim@127.0.0.1:x/x", "select 1", "it cannot be reached"),
    ],
)
def test_mistakes_are_named_without_secrets(tmp_path, monkeypatch, source, query, message):
    fill_sqlite(tmp_path / "rides.db", rides(tmp_path / "rides.csv", 2))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        list(from_events(database(source, query), **run_tools.SETTINGS))
    assert "geheim" not in str(caught.value)


def test_a_database_needs_a_query_and_the_extra(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"needs a query, but none was given for .*:\*\*\*@h/x"):
        from_events("postgresql://ann:geheim@h/x", **run_tools.SETTINGS)
    with pytest.raises(DataError, match=r"Did you mean 'postgresql'.* through a pipe"):
        from_events("postgresq://ann:geheim@h/x", **run_tools.SETTINGS)
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    with pytest.raises(DataError, match=r"pip install 'onlinegcp\[sql\]'"):
        connections.connect("postgresql", "postgresql:///x")


def test_a_file_is_only_read(tmp_path):
    fill_sqlite(tmp_path / "rides.db", rides(tmp_path / "rides.csv", 2))
    fill_duckdb(tmp_path / "rides.duckdb", rides(tmp_path / "rides.csv", 2))
    for name in ("rides.db", "rides.duckdb"):
        opened = Database(str(tmp_path / name), QUERY)
        for statement in ("drop table rides", "insert into rides select * from rides"):
            with pytest.raises(DataError, match=r"(?i)read.?only"):
                change(opened, statement)


def change(opened, statement):
    with opened._connected() as at, opened._asked(at, statement):
        pass


def test_the_command_line_asks_a_database_again_without_the_query(tmp_path, capsys):
    rows = rides(tmp_path / "rides.csv")
    source = fill_sqlite(tmp_path / "rides.db", [row for row in rows if row[0] < "2018-01-07"])
    table = ["--time", "when", "--every", "1d", "--modes", "pu,do", "--rank", "2"]
    run = str(tmp_path / "new.run")
    words = ["fit", source, "--query", QUERY, *table, "--warm-start", "3", "-o", run, "--json"]
    assert call(words) is Exit.DONE
    told = [json.loads(capsys.readouterr().out)]
    fill_sqlite(tmp_path / "rides.db", [row for row in rows if row[0] >= "2018-01-07"])
    assert call(["update", run, source, "--json"]) is Exit.DONE
    told.append(json.loads(capsys.readouterr().out))
    assert [one["slices"] for one in told] == [6, 6]
    assert sum(one["events"] for one in told) == len(rows)
    assert call(["update", run, str(tmp_path / "rides.db")]) is Exit.BAD_INPUT
    assert "needs a query" in capsys.readouterr().err
    assert call(["fit", source, source, "--query", QUERY, *table, "-o", "x"]) is Exit.BAD_INPUT
    assert "needs one database" in capsys.readouterr().err
    # What is not said is planned, and the command printed says the same.
    assert (
        call(["fit", source, "--query", QUERY, "--time", "when", "--plan", "--json"]) is Exit.DONE
    )
    plan = json.loads(capsys.readouterr().out)
    assert plan["events"]["modes"][:2] == ["pu", "do"]
    words = shlex.split(plan["command"])
    assert words[words.index("--query") + 1] == QUERY
    lines = Path(run, "sources.jsonl").read_text().splitlines()
    assert all(json.loads(line)["kind"] == "database" for line in lines)


def test_events_of_a_database_are_scored(tmp_path, capsys):
    rows = rides(tmp_path / "rides.csv")
    address = fill_sqlite(tmp_path / "rides.db", rows)
    run = str(tmp_path / "r")
    table = ["--time", "when", "--every", "1d", "--modes", "pu,do", "--rank", "1"]
    words = ["fit", address, "--query", QUERY, *table, "--warm-start", "4", "-o", run, "-q"]
    assert call(words) is Exit.DONE
    pl.read_csv(tmp_path / "rides.csv").write_parquet(tmp_path / "rides.parquet")
    scored = {}
    for name, source in (("db", [address]), ("file", [str(tmp_path / "rides.parquet")])):
        out = tmp_path / f"{name}.parquet"
        assert call(["score", run, *source, "-o", str(out), "-q"]) is Exit.DONE
        columns = ["when", "pu", "do", "score", "p"]
        scored[name] = pl.read_parquet(out).select(columns).sort(columns).to_dicts()
    assert scored["db"] == scored["file"]
    out = str(tmp_path / "some.csv")
    some = "select * from rides where pu = 'z1'"
    assert call(["score", run, address, "--query", some, "-o", out, "-q"]) is Exit.DONE
    assert set(pl.read_csv(out)["pu"]) == {"z1"}
    # A database the run has not read needs a query.
    other = fill_sqlite(tmp_path / "other.db", rows)
    assert call(["score", run, other, "-o", out]) is Exit.BAD_INPUT
    assert "--query" in capsys.readouterr().err
