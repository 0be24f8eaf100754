"""A real PostgreSQL server: killed in mid-read, resumed, nothing lost or counted twice."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess

import pytest

import run_tools
from cli_tools import MODEL, PROGRAM, wait_for
from onlinegcp.cli import Exit, call
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.remote.databases import database
from real_servers import postgres

pytestmark = pytest.mark.slow
QUERY = "select * from rides"
TABLE = ["--time", "at", "--every", "1h", "--modes", "pu,do", "--max-gap", "100"]
SETTINGS = {"time": "at", "every": "1h", "modes": ["pu", "do"]}
# Seven hours a block, so that a kill comes in the middle of the answer.
FILL = """
insert into rides
select timestamp '2018-01-01' + i * interval '0.24 seconds', 'z' || i % 7, 'z' || i * i % 11,
       i::numeric / 4, interval '1 day'
from generate_series(0::bigint, {last}) as i order by i * 7919 % 10007
"""


@pytest.fixture(scope="module")
def server():
    with postgres() as (address, _):
        run_sql(
            address,
            'create table rides (at timestamp, pu text, "do" varchar(9), fare numeric, i interval)',
            FILL.format(last=599_999),
            "create index on rides (at)",
        )
        yield address


def run_sql(address, *statements):
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(address, autocommit=True) as connection:
        for statement in statements:
            with connection.cursor() as cursor:
                cursor.execute(statement)


def n_steps(run):
    lines = run / "steps.jsonl"
    return lines.read_bytes().count(b"\n") if lines.exists() else 0


def test_a_run_killed_in_mid_read_is_the_run_that_was_not(server, tmp_path):
    run, whole = tmp_path / "killed.run", tmp_path / "whole.run"
    fit = ["fit", server, "--query", QUERY, *TABLE, *MODEL, "--quiet", "-o"]
    commands = [[*fit, str(run)], *([["update", str(run), server, "--quiet"]] * 2)]
    for command, wanted in zip(commands, (6, 15, 27), strict=True):
        running = subprocess.Popen([PROGRAM, *command])
        try:
            wait_for(lambda n=wanted: n_steps(run) >= n)
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
        assert running.returncode == -signal.SIGKILL  # it was not done yet
    assert call(commands[1]) is Exit.DONE
    assert call([*fit, str(whole)]) is Exit.DONE
    run_tools.assert_same_run(run, whole)
    assert sum(step["total"] for step in run_tools.steps_of(run)) == 600_000
    for folder in (run, whole):
        for file in folder.iterdir():
            assert b"geheim" not in file.read_bytes(), file
    assert "***" in (run / "run.json").read_text()


def test_update_asks_only_for_what_is_new_and_tells_of_late_rows(server):
    stream = from_events(
        database(server, QUERY), **SETTINGS, close_last=False, until="2018-01-01T09"
    )
    n_slices = len(list(stream))
    state = json.loads(json.dumps(stream.state()))
    assert (n_slices, state["open"]) == (8, None)
    rest = from_events(database(server, QUERY), **SETTINGS, until="2018-01-01T12")
    assert len(list(rest.restore(state, again=True))) == 4
    per_hour = 15_000
    assert rest.n_read == 4 * per_hour
    assert rest.n_events == 12 * per_hour
    with contextlib.ExitStack() as undo:
        undo.callback(run_sql, server, "delete from rides where pu = 'late'")
        late = "insert into rides values (timestamp '2018-01-01 03:10', 'late', 'z0', 1, null)"
        run_sql(server, late, late)
        again = from_events(database(server, QUERY), **SETTINGS, until="2018-01-01T12")
        assert len(list(again.restore(state, again=True))) == 4
        assert again.n_late == 2


@pytest.mark.parametrize(
    ("time", "kind", "unit"),
    [
        ("at at time zone 'UTC'", "1h", None),
        ("at::date", "1d", None),
        ("extract(epoch from at)::bigint", "1h", None),
        ("extract(epoch from at) * 1000", "1h", "ms"),
        ("to_char(at, 'YYYY-MM-DD\"T\"HH24:MI:SS')", "1h", None),
        ("(extract(epoch from at) / 3600)::bigint", 6, None),
    ],
)
def test_every_way_to_keep_time_goes_on_where_it_stopped(server, time, kind, unit):
    query = f"select {time} as at, pu, \"do\" from rides where pu = 'z3'"
    settings = {**SETTINGS, "every": kind, "time_unit": unit}
    whole = from_events(database(server, query), **settings)
    wanted = [(x.time, x.total) for x in whole]
    stream = from_events(database(server, query), **settings)
    first = next(stream)
    state = json.loads(json.dumps(stream.state()))
    stream.close()
    rest = from_events(database(server, query), **settings).restore(state, again=True)
    assert [(first.time, first.total), *((x.time, x.total) for x in rest)] == wanted
    assert rest.n_events == whole.n_events == 85_714
    assert rest.n_late == 0
    assert rest.n_read == whole.n_events - state["n_events"]


def test_a_connection_cut_in_mid_read_is_named_and_what_was_learned_kept(server, tmp_path):
    run = tmp_path / "cut.run"
    # Long enough that not all of it is on its way already.
    long = 'select at, rpad(pu, 300, pu) as pu, "do" from rides'

    def cut(progress):
        if progress.n_slices == 6:
            run_sql(
                server,
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where pid <> pg_backend_pid() and query ilike 'copy%'",
            )

    with pytest.raises(DataError, match=r"postgresql://ann:\*\*\*@.* is kept in") as caught:
        learn(run, server, cut, long)
    assert "geheim" not in str(caught.value)
    assert 6 <= n_steps(run) < 40
    learn(run, server, None, long)
    assert sum(step["total"] for step in run_tools.steps_of(run)) == 600_000
    assert n_steps(run) == 40


def learn(path, address, progress, query):
    from onlinegcp.run import Run

    new = not path.exists()
    model = run_tools.small_model()
    with (
        Run.create(path, model, modes=["pu", "do"], events=SETTINGS) if new else Run.open(path)
    ) as run:
        run.learn(run.stream(database(address, query)), progress=progress)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from nowhere", 'relation "nowhere" does not exist'),
        ("delete from rides returning *", "syntax error"),
        ("select at from rides", "Column 'pu' is needed"),
    ],
)
def test_mistakes_are_named_without_secrets(server, query, message):
    with pytest.raises(DataError, match=message) as caught:
        next(from_events(database(server, query), **SETTINGS))
    assert "geheim" not in str(caught.value)
