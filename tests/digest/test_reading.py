"""A digest beside its run: told like all lines, noticed when it does not fit, made anew."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from onlinegcp import runlog
from onlinegcp.digest import Digest, catch_up, read_digest, reading, stored_digest
from onlinegcp.digest import digest as digests
from onlinegcp.digest.reading import Keeper
from onlinegcp.errors import StateError
from onlinegcp.report.payload import build
from onlinegcp.run import Run
from onlinegcp.runlog.files import DIGEST
from onlinegcp.slices import Slice
from onlinegcp.storage.archive import write_archive
from onlinegcp.streaming import OnlineGCP
from run_views import view

N = 700


def a_run(folder, n=N, *, changes=(), seed=0):
    """A run of days; at some of them components come, go and change places."""
    rng, found = np.random.default_rng(seed), view(n, rank=3, shape=(5, 7), seed=seed)
    rank = 3
    for t, step in enumerate(found.steps):
        step["total"] = float(rng.poisson(100))
        step["partial"] = t % 97 == 60
        if t in changes:
            before = rng.permutation(rank)[: max(1, rank - int(rng.integers(2)))]
            order = [*before.tolist(), *[-1] * int(rng.integers(1, 3))]
            order = [order[i] for i in rng.permutation(len(order))]
            step["order"], rank = order, len(order)
        step["rank"] = rank
        step["weights"] = rng.random(rank).tolist()
        step["drift"] = (rng.random(rank) ** 8).tolist()
        if step["anomaly"]:
            step["anomaly"] |= {"flagged": t % 50 == 3, "p": 10.0 ** -rng.uniform(0, 9)}
            step["anomaly"]["sentence"] = f"{t}: something."
    folder.mkdir(exist_ok=True)
    info = {**found.info, "format": 2, "modes": list(found.modes)}
    runlog.write_run_json(folder, info)
    runlog.append_lines(folder, [runlog.encode_step(step) for step in found.steps])
    arrays = {f"factor.{k}": rng.random((m, rank)) for k, m in enumerate((5, 7))}
    arrays["weights"] = np.array(found.steps[-1]["weights"])
    record = {"n_steps": n, "labels": [list(names) for names in found.labels], "last_step": None}
    target = folder / runlog.CHECKPOINT
    write_archive(target, runlog.CHECKPOINT_KIND, arrays, record, of_run=True)
    return found.steps


def told(digest):
    """All a page says, and what a comparison asks."""
    means = [digest.weights.mean(digest.rank, since_turn=s).tolist() for s in (False, True)]
    return json.loads(
        json.dumps([build(digest), means]), parse_float=lambda t: float(f"{float(t):.9g}")
    )


def by_all_lines(folder):
    """The same from lines held all at once, aligned one by one."""
    return told(Digest(runlog.read_run(folder)))


@pytest.fixture
def few(monkeypatch):
    for name, value in {"MOST_POINTS": 64, "NEWEST": 40, "_AT_ONCE": 13}.items():
        monkeypatch.setattr(digests, name, value)
    monkeypatch.setattr(reading, "EVERY", 100)


@pytest.fixture
def folder(tmp_path, few):
    a_run(tmp_path / "long.run")
    return tmp_path / "long.run"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("few")
def test_components_that_come_and_go_are_told_as_by_aligned_lines(tmp_path, seed):
    folder = tmp_path / "auto.run"
    a_run(folder, 300, changes={20, 21, 140, 150, 280}, seed=seed)
    assert told(read_digest(folder)) == by_all_lines(folder)


@pytest.mark.usefixtures("few")
def test_a_stored_digest_goes_on_like_one_that_read_all(tmp_path):
    folder = tmp_path / "auto.run"
    steps = a_run(folder, 500, changes={30, 260, 410}, seed=5)
    lines = (folder / runlog.STEPS).read_bytes().splitlines(keepends=True)
    (folder / runlog.STEPS).write_bytes(b"".join(lines[:250]))
    read_digest(folder)
    first = (folder / DIGEST).read_bytes()
    for until in (300, 349, 350, 500):
        (folder / runlog.STEPS).write_bytes(b"".join(lines[:until]))
        assert read_digest(folder).count == until
        assert ((folder / DIGEST).read_bytes() == first) == (until < 350)
    assert told(read_digest(folder)) == by_all_lines(folder)
    found, position = stored_digest(runlog.read_head(folder))
    assert found.count == position.n_lines == 500 == len(steps)
    assert position.offset == (folder / runlog.STEPS).stat().st_size


def test_lines_that_are_told_are_not_read_again(folder, monkeypatch):
    wanted = told(read_digest(folder))
    monkeypatch.setattr(reading, "tail", counted := Counted())
    assert told(read_digest(folder)) == wanted
    assert counted.steps == 0
    # A line that was changed since is told as it was; whoever verifies the run is told.
    lines = folder / runlog.STEPS
    lines.write_bytes(lines.read_bytes().replace(b'"number":5,', b'"number":6,'))
    assert told(read_digest(folder)) == wanted
    assert [v.file for v in runlog.verify(folder) if not v.whole] == [runlog.STEPS]


class Counted:
    """`tail`, and how many lines it gave."""

    def __init__(self):
        self.steps = 0

    def __call__(self, path, position, each, **options):
        def count(step):
            self.steps += 1
            each(step)

        return runlog.tail(path, position, count, **options)


def test_a_run_that_was_cut_or_replaced_is_read_anew(folder):
    read_digest(folder)
    lines = (folder / runlog.STEPS).read_bytes().splitlines(keepends=True)
    (folder / runlog.STEPS).write_bytes(b"".join(lines[:650]))
    assert stored_digest(runlog.read_head(folder)) is None
    assert told(read_digest(folder)) == by_all_lines(folder)
    # Learned again, each line took other seconds.
    again = [json.loads(line) | {"seconds": 0.5} for line in lines[600:]]
    for step in again:
        del step["crc"]
    (folder / runlog.STEPS).write_bytes(b"".join(lines[:600]))
    runlog.append_lines(folder, [runlog.encode_step(step) for step in again])
    assert told(read_digest(folder)) == by_all_lines(folder)
    assert stored_digest(runlog.read_head(folder))[0].count == N  # for the next reader


def test_a_last_line_that_is_not_whole_waits(folder):
    read_digest(folder)
    with (folder / runlog.STEPS).open("ab") as file:
        file.write(b'{"number":701,"tim')
    assert read_digest(folder).count == N


def test_a_damaged_digest_is_made_anew(folder):
    wanted = told(read_digest(folder))
    whole = (folder / DIGEST).read_bytes()
    rng = np.random.default_rng(0)
    spoilt = [whole[: len(whole) // 2], b"", b"not one"]
    places = rng.integers(len(whole), size=25).tolist()
    spoilt += [whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :] for at in places]
    for content in spoilt:
        (folder / DIGEST).write_bytes(content)
        assert told(read_digest(folder)) == wanted
    (folder / DIGEST).write_bytes(whole[:-10])
    assert [v.file for v in runlog.verify(folder) if not v.whole] == [DIGEST]
    read_digest(folder)
    assert all(verdict.whole for verdict in runlog.verify(folder))


def test_a_digest_of_another_version_or_with_other_limits_is_made_anew(folder, monkeypatch):
    read_digest(folder)
    monkeypatch.setattr("onlinegcp.digest.packing.VERSION", 99)
    assert stored_digest(runlog.read_head(folder)) is None
    monkeypatch.undo()
    monkeypatch.setattr(digests, "MOST_POINTS", 32)
    assert stored_digest(runlog.read_head(folder)) is None


def test_a_damaged_line_is_named_by_its_number(folder):
    lines = (folder / runlog.STEPS).read_bytes().splitlines(keepends=True)
    lines[432] = lines[432].replace(b"total", b"totem")
    (folder / runlog.STEPS).write_bytes(b"".join(lines))
    with pytest.raises(StateError, match="line 433 is none"):
        read_digest(folder)
    assert not (folder / DIGEST).exists()


def test_where_nothing_can_be_written_it_is_read_each_time(folder, monkeypatch):
    def refused(*_, **__):
        raise StateError("no room")

    monkeypatch.setattr(reading, "write_archive", refused)
    assert read_digest(folder).count == N
    assert not (folder / DIGEST).exists()


def test_short_runs_have_none(tmp_path):
    a_run(tmp_path / "short.run", 60)
    assert read_digest(tmp_path / "short.run").count == 60
    assert not (tmp_path / "short.run" / DIGEST).exists()


def test_how_far_it_has_read_is_told(folder, monkeypatch):
    monkeypatch.setattr(reading, "_TOLD_EVERY", 100)
    shares = []
    read_digest(folder, progress=lambda done, total: shares.append(done / total))
    assert shares == sorted(shares)
    assert len(shares) == 7
    assert shares[-1] == 1.0
    seen = []
    final = np.arange(N, dtype=float)
    found = read_digest(folder, final, progress=lambda done, total: seen.append(done / total))
    assert seen == shares
    assert found.fit.means["global"][1] == N - 5


# ---- the process that writes


def test_the_writer_keeps_a_digest_that_is_not_far_behind(folder):
    lines = (folder / runlog.STEPS).read_bytes().splitlines(keepends=True)
    os.truncate(folder / runlog.STEPS, 0)
    kept = []
    for number in range(1, N + 1):
        if number % 230 == 1:
            keeper = Keeper(folder)  # another process, after a kill
        with (folder / runlog.STEPS).open("ab") as file:
            file.write(lines[number - 1])
        keeper.written(number)
        found = stored_digest(runlog.read_head(folder)) if number % 50 == 0 else None
        if found is not None:
            kept.append((number, found[0].count))
    assert all(number - count < 100 for number, count in kept)
    assert told(read_digest(folder)) == by_all_lines(folder)


def test_the_writer_leaves_a_long_past_to_readers(folder, monkeypatch):
    monkeypatch.setattr(reading, "MOST_BEHIND", 1000)
    catch_up(folder)
    Keeper(folder).written(N)
    assert not (folder / DIGEST).exists()


def test_a_digest_that_cannot_be_made_stops_no_run(folder, monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(reading, "catch_up", broken)
    Keeper(folder).written(N)
    assert "No digest" in caplog.text
    assert "a mistake of ours" in caplog.text


def test_a_run_keeps_its_digest_while_it_learns_and_loses_it_with_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "EVERY", 6)
    rng = np.random.default_rng(0)
    slices = [Slice.dense(rng.poisson(3.0, (4, 3)).astype(float), time=t) for t in range(20)]
    folder = tmp_path / "a.run"
    with Run.create(folder, OnlineGCP(1, "poisson", init_slices=4), modes=["a", "b"]) as run:
        run.learn(slices[:5])
        assert not (folder / DIGEST).exists()
        run.learn(slices[5:])
    found, _ = stored_digest(runlog.read_head(folder))
    assert 14 < found.count <= 20
    assert told(read_digest(folder)) == by_all_lines(folder)
    assert DIGEST in [verdict.file for verdict in runlog.verify(folder) if verdict.whole]
    other = OnlineGCP(2, "poisson", init_slices=4)
    with Run.create(folder, other, modes=["a", "b"], overwrite=True) as run:
        run.learn(slices[:5])
    assert not (folder / DIGEST).exists()
    assert read_digest(folder).count == 5
