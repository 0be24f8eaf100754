"""Workers read the pieces of files: slices, labels, accounts and errors as of one process."""

from __future__ import annotations

import datetime
import os
import pickle
import signal
import warnings

import numpy as np
import polars as pl
import pytest

from local_cluster import two_workers
from onlinegcp.errors import DataError
from onlinegcp.events import from_events, table_parts
from onlinegcp.events import options as options_module
from onlinegcp.events.stream import EventStream

START = datetime.datetime(2024, 3, 1)


class InTurn:
    """Workers that share nothing with this process but what can be packed."""

    def __init__(self, fails=()):
        self.asked, self.fails = 0, set(fails)

    def each(self, function, items):
        function = pickle.loads(pickle.dumps(function))
        for item in items:
            self.asked += 1
            if self.asked in self.fails:
                yield None
                continue
            try:
                yield pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(item)))))
            except DataError:
                yield None


def table(seed, n=400):
    """Events with whatever columns of events have: text, numbers, categories, nulls."""
    rng = np.random.default_rng(seed)
    hours = np.sort(rng.integers(0, 24 * 9, n)) if seed % 3 else rng.integers(0, 24 * 9, n)
    when = [START + datetime.timedelta(hours=int(h), minutes=int(m)) for h, m in
            zip(hours, rng.integers(0, 60, n), strict=True)]  # fmt: skip
    known = 4 + hours // 6  # labels grow with time
    user = [f"user {rng.integers(0, k)}" for k in known.tolist()]
    for spoiled, value in ((user, None), (user, ""), (when, None)):
        for i in rng.integers(0, n, 5):
            spoiled[i] = value if rng.random() < 0.5 else spoiled[i]
    kind = pl.Series(rng.choice(["a", "b", "7.0", "7"], n))
    return pl.DataFrame(
        {
            "t": pl.Series(when, dtype=pl.Datetime("us")),
            "user": user,
            "friend": [f"user {rng.integers(0, k)}" for k in known.tolist()],
            "kind": kind.cast(pl.Categorical) if seed % 2 else kind,
            "shop": rng.integers(0, 30, n) * (10**9 if seed % 2 else 1),
            "price": pl.Series(rng.normal(size=n) * 10.0 ** rng.integers(-5, 6, n)),
        }
    )


def write(frame, folder, name="table", kind="parquet"):
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        frame.write_parquet(path, row_group_size=50)
    else:
        frame.write_ipc(path)
    return path


def opened(monkeypatch, workers, source, **options):
    """The stream as `from_events` makes it, read by workers of our own."""
    stream = from_events(source, **options)
    given = options_module.Options(**{**vars(stream._options), "workers": workers})
    return EventStream(stream._tables, stream._reader, stream._groups, given)


def told(stream):
    """All that a stream says, with the slices it gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slices = [
            (x.time, x.shape, x.unlisted, x.index.tobytes(), x.value.tobytes()) for x in stream
        ]
    return slices, tuple(map(tuple, stream.labels)), stream.state(), stream.account


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", 37)
    monkeypatch.setenv("ONLINEGCP_TRUST_FILES", "1")


OPTIONS = [
    {"modes": ["user", "kind", "t:hour"]},
    {"modes": ["user", "friend", "shop"], "share": [("user", "friend")], "top": {"shop": 5}},
    {"modes": ["user", "shop"], "value": "price", "agg": "mean", "in_order": False},
    {"modes": ["user", "price:bins=-1/0/1"], "value": "price", "empty": "skip"},
    {"modes": ["friend"], "vocabulary": {"friend": ["user 1"]}, "on_new": "other"},
    {"modes": ["friend"], "since": "2024-03-03T07:30", "until": "2024-03-07", "close_last": False},
    {"modes": ["shop"], "in_order": True, "timezone": "America/New_York"},
    {"modes": ["shop"], "value": ["price", "shop"]},
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_slices_labels_and_accounts_are_those_of_one_process(monkeypatch, tmp_path, seed, options):
    frames = [table(3 * seed + part) for part in range(2)]
    source = [
        write(frame, tmp_path, f"{part}", "parquet" if part == 0 else "arrow")
        for part, frame in enumerate(frames)
    ]
    options = {"time": "t", "every": "1d", **options}
    workers = InTurn(fails=[3, 4, 9])
    found = told(opened(monkeypatch, workers, source, **options))
    assert found == told(from_events(source, **options))
    assert workers.asked > 10 or "price" in options.get("value", ())


def test_files_that_are_written_otherwise_are_read_here(monkeypatch, tmp_path):
    """Dates first, then times: workers were told dates."""
    dates = pl.DataFrame(
        {"t": [datetime.date(2024, 3, d) for d in (1, 1, 2)] * 20, "a": ["x"] * 60}
    )
    times = pl.DataFrame({"t": [datetime.datetime(2024, 3, 9, 5)] * 80, "a": ["y"] * 80})
    source = [write(dates.sort("t"), tmp_path, "1"), write(times, tmp_path, "2")]
    options = {"time": "t", "every": "1d", "modes": ["a"]}
    found = told(opened(monkeypatch, InTurn(), source, **options))
    assert found == told(from_events(source, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": ["user"], "vocabulary": {"user": ["user 1"]}, "on_new": "error"}, "may only"),
        ({"modes": ["user"], "on_null": "error"}, "must have a value"),
        ({"modes": ["user"], "value": "friend"}, "needs finite numbers"),
        ({"modes": ["user"], "in_order": True, "on_late": "error"}, "late|before"),
    ],
)
def test_errors_name_the_row_that_one_process_names(monkeypatch, tmp_path, options, message):
    source = write(table(0), tmp_path)
    options = {"time": "t", "every": "1d", **options}
    with pytest.raises(DataError, match=message) as alone:
        told(from_events(source, **options))
    with pytest.raises(DataError, match=message) as shared:
        told(opened(monkeypatch, InTurn(), source, **options))
    assert str(shared.value) == str(alone.value)


def test_a_worker_that_cannot_read_is_told_once(monkeypatch, tmp_path, caplog):
    source = write(table(1), tmp_path)
    options = {"time": "t", "every": "1d", "modes": ["user"]}
    found = told(opened(monkeypatch, InTurn(fails=range(99)), source, **options))
    assert found == told(from_events(source, **options))
    assert caplog.text.count("could not read") == 1


def test_a_reader_that_is_sent_takes_no_rows_along(tmp_path):
    stream = from_events(write(table(1, 4000), tmp_path), time="t", every="1d", modes=["t:hour"],
                         timezone="Europe/Berlin")  # fmt: skip
    told(stream)
    assert len(pickle.dumps(stream._reader.alone())) < 4000


# Real processes


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with two_workers() as workers, distributed.Client(workers) as found:
        yield found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_processes_of_a_cluster_read_and_one_of_them_is_killed(client, tmp_path, monkeypatch):
    from onlinegcp.sums.crowd import Crowd

    pids = client.run(os.getpid)
    killed = []
    submit = Crowd._submit

    def deadly(self, function, item):
        future = submit(self, function, item)
        if len(killed) == 9:
            os.kill(next(iter(pids.values())), signal.SIGKILL)
        killed.append(1)
        return future

    for seed in (0, 1):
        source = write(table(seed, 1500), tmp_path, str(seed))
        options = {"time": "t", "every": "1d", "modes": ["user", "friend", "kind"]}
        alone = told(from_events(source, **options))
        if seed:
            monkeypatch.setattr(Crowd, "_submit", deadly)
        assert told(from_events(source, cluster=client, **options)) == alone
    assert len(killed) > 10
    client.wait_for_workers(2, timeout=180)
