"""Workers of a Dask cluster give the bits of one process, killed ones included."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from local_cluster import two_workers
from onlinegcp.errors import BackendError
from onlinegcp.kernels import blas
from onlinegcp.kernels.machine import facts
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import cells, newton
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.state import to_dict
from onlinegcp.streaming import OnlineGCP
from onlinegcp.streaming.workers import engine_of
from onlinegcp.sums import chunks, connecting, dask, local, verbs
from onlinegcp.sums.crowd import Crowd
from onlinegcp.sums.dask import Cluster
from onlinegcp.sums.local import Local, cores, jobs
from recorded.results import _stream

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def client():
    with two_workers() as workers, distributed.Client(workers) as found:
        yield found


@pytest.fixture(params=["shared", "sent", "both"])
def way(request, monkeypatch):
    """How large things get to workers: through memory of the driver, or as from another machine."""
    if request.param == "sent":
        monkeypatch.setattr(dask, "trial_segment", lambda: None)
    if request.param == "both":
        find = Cluster._way

        def way(self, worker):
            here = worker == self._addresses()[0]
            return find(self, worker) if here else self._sends

        monkeypatch.setattr(Cluster, "_way", way)
    return request.param


@pytest.fixture
def fine(monkeypatch):
    """Chunks of a few cells: small slices, all verbs."""
    monkeypatch.setattr(chunks, "LEAST_WORK", 64)
    monkeypatch.setattr(verbs, "LEAST_WORK", 64)
    monkeypatch.setattr(cells, "CELLS_PER_ROW", 0)
    monkeypatch.setattr(chunks, "MOST_CHUNKS", 4)
    monkeypatch.setattr(newton, "SUBSET", 16)


def learned(engine, name, count=3, missing=0.0, slices=None):
    slices = _stream(name, missing=missing) if slices is None else slices
    loss, rng = get_loss(name), np.random.default_rng(0)
    if name == "gaussian":  # as lists, which are cut more finely than arrays
        slices = [Slice(x.index, x.value, x.shape) for x in slices]
    factors = [rng.random((n, 2)) + 0.1 for n in slices[0].shape]
    with jobs(engine), np.errstate(all="ignore"):
        state = auto.start(factors, 1.0 + rng.random((2, 2)), slices[:2], loss)
        for x in slices[2 : 2 + count]:
            state, _ = auto.step(state, x, loss)
    return to_dict(state)


def same(one, other):
    for key, value in one.items():
        assert np.asarray(value).tobytes() == np.asarray(other[key]).tobytes(), key


class Watched(Cluster):
    """A cluster that counts what it is asked for, and kills a worker at a given moment."""

    def __init__(self, client, kill_at=None):
        super().__init__(client, 1, facts)
        self.asked, self.kill_at = [], kill_at

    def _submit(self, task, *arguments, **where):
        self._happens(task.__name__)
        return super()._submit(task, *arguments, **where)

    def _add(self, sums, out):
        self._happens("_add")
        super()._add(sums, out)

    def _happens(self, what):
        self.asked.append(what)
        if self.asked.count(self.kill_at) == 2 and what == self.kill_at:
            self.kill_at = None
            pids = self.client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("poisson", 0.0),
        ("poisson", 0.3),
        ("bernoulli_odds", 0.0),
        ("gaussian", 0.0),
        ("huber", 0.2),
    ],
)
def test_two_workers_give_the_bits_of_one_process(name, missing, client, fine, way):
    engine = Watched(client)
    same(learned(Local(1), name, missing=missing), learned(engine, name, missing=missing))
    assert engine.asked


@pytest.mark.parametrize("name", ["poisson", "huber"])
def test_of_long_modes_workers_get_the_rows_of_their_cells_only(
    name, client, fine, way, monkeypatch
):
    shape, rng = (3000, 2000, 5), np.random.default_rng(3)
    unlisted = "zero" if name == "poisson" else "missing"
    index = [np.stack([rng.integers(0, n, 80) for n in shape], axis=1) for _ in range(4)]
    slices = [Slice(i, 1.0 + rng.poisson(1.0, 80), shape, unlisted=unlisted) for i in index]
    monkeypatch.setattr(dask, "LARGE", 1000)  # factors are sent by name, with their size
    engine = Watched(client)
    parts, send = [], engine._sent_anew
    monkeypatch.setattr(
        engine, "_sent_anew", lambda *given: parts.append(send(*given)) or parts[-1]
    )
    found = learned(engine, name, count=2, slices=slices)
    same(learned(Local(1), name, count=2, slices=slices), found)
    sent, shared = {"sums_of_share", "_first_of", "_others_of"}, {"sums_in_room"}
    by_row = {"sent": sent, "shared": shared, "both": sent | shared}[way] | {"_add"}
    assert set(engine.asked) == {"_fold"} | (by_row if name == "poisson" else set())
    assert max(size for _, size in parts) <= 8 * 4 * 3 * 80  # bytes of the padded rows of 80 cells


@pytest.mark.parametrize(
    ("way", "moment"),
    [
        ("sent", "_fold"), ("sent", "sums_of_share"), ("sent", "handed_on"), ("sent", "_others_of"),
        ("sent", "_add"),
        ("shared", "_fold"), ("shared", "sums_in_room"), ("shared", "_add"),
    ],
    indirect=["way"],
)  # fmt: skip
def test_a_worker_killed_in_a_verb_changes_nothing(moment, client, fine, way):
    engine = Watched(client, kill_at=moment)
    found = learned(engine, "poisson")
    assert engine.kill_at is None  # it was killed
    same(learned(Local(1), "poisson"), found)
    client.wait_for_workers(2, timeout=180)


def mapped():
    """Pieces of shared memory that a worker has open."""
    return Path("/proc/self/maps").read_text().count("memfd:onlinegcp")


DRIVER = """
import sys, time
import numpy as np
from onlinegcp.kernels.machine import facts
from onlinegcp.sums.dask import Cluster
engine = Cluster(sys.argv[1], 1, facts)
for worker in engine.client.scheduler_info()["workers"]:
    given = engine._way(worker).send(np.ones(1 << 20), None)
    print(engine._submit(np.sum, given, worker=worker).result(), flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory to share")
def test_workers_of_a_killed_driver_have_no_memory_of_it(client):
    deadline = time.monotonic() + 20
    while any((begin := client.run(mapped)).values()) and time.monotonic() < deadline:
        gc.collect()  # engines of other tests
        time.sleep(0.1)
    command = [sys.executable, "-c", DRIVER, client.scheduler.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert [float(driver.stdout.readline()) for _ in begin] == [1 << 20] * len(begin)
        assert all(now > begin[worker] for worker, now in client.run(mapped).items())
        driver.kill()
    deadline = time.monotonic() + 20
    while (now := client.run(mapped)) != begin and time.monotonic() < deadline:
        time.sleep(0.1)
    assert now == begin


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory to share")
def test_shared_memory_does_not_grow_with_the_slices(client, fine, monkeypatch):
    monkeypatch.setattr(dask, "LARGE", 1000)
    engine, slices = Cluster(client, 1, facts), _stream("poisson")
    begin, found = mapped(), []
    for count in (2, 5):
        learned(engine, "poisson", count=count, slices=slices)
        found.append(mapped() - begin)
    assert found[0] == found[1] > 0


def threads_here():
    return local.engine().jobs


def test_workers_use_the_threads_they_were_given(fine, way):
    with two_workers(threads=3) as workers, distributed.Client(workers) as client:
        engine = Watched(client)
        assert engine._submit(threads_here).result() == 3
        same(learned(Local(1), "poisson"), learned(engine, "poisson"))
        assert engine._runs(256)[1] == 256 // 16  # two runs of chunks for each thread, at least


def test_workers_multiply_on_one_thread_whatever_they_were_started_with():
    many = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    options = {"dashboard_address": None, "silence_logs": 50, "threads_per_worker": 1}
    before = blas.blas_threads()
    with (
        distributed.LocalCluster(n_workers=1, env=many, **options) as workers,
        distributed.Client(workers) as client,
    ):
        engine = engine_of(OnlineGCP(2, cluster=client))
        (start,) = client.run(blas.blas_threads).values()
        engine.ready()
        (held,) = client.run(blas.blas_threads).values()
    assert set(held) == {1}
    assert max(start) == min(2, cores())
    with (
        distributed.LocalCluster(n_workers=1, processes=False, **options) as here,
        distributed.Client(here) as client,
    ):
        engine_of(OnlineGCP(2, cluster=client)).ready()
    assert blas.blas_threads() == before  # of this process


def test_a_model_goes_on_without_the_cluster(client, fine, tmp_path):
    slices = _stream("poisson")
    options = {"init_slices": 3, "init_starts": 1}
    model = OnlineGCP(2, "poisson", cluster=client, **options).fit(slices[:6])
    model.save(tmp_path / "model.npz")
    again = OnlineGCP.load(tmp_path / "model.npz")
    assert again.cluster is None
    again.partial_fit(slices[6:8])
    alone = OnlineGCP(2, "poisson", **options).fit(slices[:8])
    for one, other in zip(again.factors_, alone.factors_, strict=True):
        assert one.tobytes() == other.tobytes()


def own_number():
    """Something in which no two processes agree."""
    return {"numpy": str(os.getpid())}


def test_workers_that_differ_are_refused_before_anything_is_learned(client):
    with (
        pytest.raises(BackendError, match=r"need the same numpy.*Install the same versions"),
        jobs(Cluster(client, 1, own_number)),
    ):
        raise AssertionError("it began")


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr(connecting, "PATIENCE", "1s")
    with pytest.raises(BackendError, match=r"none did at 'tcp://127.0.0.1:9'"):
        Cluster("tcp://127.0.0.1:9", 1, facts)
    with pytest.raises(BackendError, match="local:N"):
        Cluster("local:many", 1, facts)


def test_a_scheduler_that_goes_away_is_told(fine, tmp_path, monkeypatch):
    monkeypatch.setattr(connecting, "PATIENCE", "3s")
    command = [sys.executable, "-m", "distributed.cli.dask_{}"]
    place = ["--scheduler-file", str(tmp_path / "place.json"), "--no-dashboard"]
    more = {"scheduler": ["--port", "0"], "worker": ["--nthreads", "1", "--no-nanny"]}

    def start(what):
        words = [word.format(what) for word in command]
        return subprocess.Popen([*words, *place, *more[what]], stderr=subprocess.DEVNULL)

    with start("scheduler") as scheduler, start("worker") as worker:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "place.json").exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            engine = Watched(json.loads((tmp_path / "place.json").read_text())["address"])
            engine.client.wait_for_workers(1, timeout=60)
            learned(engine, "poisson", count=1)
            scheduler.kill()
            with pytest.raises(BackendError, match=r"none any more.*go on without cluster"):
                learned(engine, "poisson")
            with pytest.raises(BackendError, match="none any more"):
                list(Crowd(engine.client).each(str, [1]))
        finally:
            scheduler.kill()
            worker.kill()


def test_a_cluster_without_workers_is_refused():
    options = {"processes": False, "dashboard_address": None, "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=0, **options) as workers,
        distributed.Client(workers) as nobody,
    ):
        with pytest.raises(BackendError, match="at least one worker"):
            Cluster(nobody, 1, facts).ready()
        with pytest.raises(BackendError, match="at least one worker"):
            list(Crowd(nobody).each(str, [1]))
