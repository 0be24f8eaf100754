"""Tests of onlinegcp.run: nothing is lost, whatever happens, and a resumed run is the same run."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from onlinegcp import runlog
from onlinegcp.archive import read_archive
from onlinegcp.errors import DataError, StateError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.run import Run
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP, OnlineSGD

START = datetime.date(2018, 1, 1)
SETTINGS = {
    "time": "when",
    "every": "1d",
    "modes": ["pu", "do", "when:weekday"],
    "share": [("pu", "do")],
}


def small_model(**parameters):
    return OnlineGCP(**({"rank": 2, "loss": "poisson", "init_slices": 4} | parameters))


def make_slices(n=12, shape=(5, 4), seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.gamma(1.0, 1.0, (shape[0], 2)), rng.gamma(1.0, 1.0, (shape[1], 2))
    return [
        Slice.dense(
            rng.poisson(4 * (a * rng.uniform(0.5, 1.5, 2)) @ b.T).astype(float),
            time=START + datetime.timedelta(days=t),
        )
        for t in range(n)
    ]


def write_events(path, n_days=30, seed=0, first=0):
    """A CSV file whose places are known only bit by bit."""
    rng = np.random.default_rng(seed)
    rows = ["when,pu,do"]
    for day in range(n_days):
        known = min(4 + day // 4, 9)
        for _ in range(rng.poisson(40)):
            pu, do = rng.integers(0, known, 2)
            hour = rng.integers(0, 24)
            date = START + datetime.timedelta(days=day)
            if day >= first:
                rows.append(f"{date}T{hour:02}:15,z{pu},z{do}")
    path.write_text("\n".join(rows) + "\n")
    return path


def steps_of(path):
    steps = [json.loads(line) for line in (Path(path) / runlog.STEPS).read_text().splitlines()]
    return [{name: value for name, value in step.items() if name != "seconds"} for step in steps]


def without_seconds(value):
    # The same rows in two files are two sources.
    left_out = ("seconds", "n_sources")
    if isinstance(value, dict):
        return {k: without_seconds(part) for k, part in value.items() if k not in left_out}
    return [without_seconds(part) for part in value] if isinstance(value, list) else value


def assert_same_run(found, wanted):
    assert steps_of(found) == steps_of(wanted)
    ours = read_archive(Path(found) / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND)
    theirs = read_archive(Path(wanted) / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND)
    assert sorted(ours[0]) == sorted(theirs[0])
    for name, array in ours[0].items():
        assert array.dtype == theirs[0][name].dtype, name
        assert array.tobytes() == theirs[0][name].tobytes(), name
    assert without_seconds(ours[1]) == without_seconds(theirs[1])


def files_of(path):
    return {file.name: file.read_bytes() for file in Path(path).iterdir() if file.is_file()}


@pytest.fixture
def finished(tmp_path):
    """A run over all slices in one go."""
    with Run.create(tmp_path / "whole", small_model(), modes=["a", "b"]) as run:
        assert run.learn(make_slices()) == 12
    return tmp_path / "whole"


def test_every_slice_has_a_line_and_the_warm_start_says_so(finished):
    steps = steps_of(finished)
    assert [step["number"] for step in steps] == list(range(1, 13))
    assert [step["warm"] for step in steps] == [True] * 4 + [False] * 8
    assert steps[0]["time"] == "2018-01-01"
    assert all(step["prequential"] is None and step["anomaly"] is None for step in steps[:4])
    for step, x in zip(steps, make_slices(), strict=True):
        assert (step["total"], step["nnz"], step["n_observed"]) == (x.total, x.nnz, x.n_observed)
        assert len(step["weights"]) == len(step["drift"]) == 2
        assert step["local"] > 0 or step["local"] < 0
        assert 0 <= min(step["drift"]) <= max(step["drift"]) <= 2


def test_the_run_holds_the_model_that_partial_fit_makes(finished):
    model = small_model()
    for x in make_slices():
        model.partial_fit(x)
    view = runlog.read_run(finished)
    for ours, theirs in zip(view.factors, model.factors_, strict=True):
        assert np.array_equal(ours, theirs)
    assert view.steps[-1]["prequential"] == model.last_.prequential
    assert view.steps[-1]["weights"] == model.weights_.tolist()


def test_drift_is_one_minus_the_cosine_product(tmp_path):
    slices = make_slices()
    with Run.create(tmp_path / "r", small_model(), modes=["a", "b"]) as run:
        run.learn(slices[:11])
        before = [a / np.linalg.norm(a, axis=0) for a in run.model.factors_]
        run.learn(slices)
        after = [a / np.linalg.norm(a, axis=0) for a in run.model.factors_]
    cosines = [np.diag(old.T @ new) for old, new in zip(before, after, strict=True)]
    found = steps_of(tmp_path / "r")[-1]["drift"]
    assert found == pytest.approx(1 - np.prod(cosines, axis=0), abs=1e-12)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11])
def test_stopping_and_going_on_is_as_if_nothing_had_happened(tmp_path, finished, cut):
    slices = make_slices()
    with Run.create(tmp_path / "parts", small_model(), modes=["a", "b"]) as run:
        seen = []
        stopped = run.learn(slices, progress=seen.append, stop=lambda: len(seen) == cut)
    assert stopped == cut
    assert [news.n_slices for news in seen] == list(range(1, cut + 1))
    assert seen[-1].n_events == pytest.approx(sum(x.total for x in slices[:cut]))
    with Run.open(tmp_path / "parts") as run:
        assert run.warming_up == (cut if cut < 4 else 0)
        assert run.learn(slices) == 12 - cut
    assert_same_run(tmp_path / "parts", finished)


def test_slices_that_were_learned_are_passed_over(tmp_path, finished):
    before = files_of(finished)
    with Run.open(finished) as run:
        assert run.learn(make_slices()) == 0
    assert files_of(finished) == before


def test_slices_without_times_are_always_new(tmp_path):
    slices = [x.with_time(None) for x in make_slices(5)]
    with Run.create(tmp_path / "r", small_model(), modes=["a", "b"]) as run:
        run.learn(slices)
    with Run.open(tmp_path / "r") as run:
        assert run.learn(slices) == 5
    assert [step["time"] for step in steps_of(tmp_path / "r")] == [None] * 10


@pytest.mark.parametrize(
    ("times", "written"),
    [
        ([3, 4, 5], [3, 4, 5]),
        ([np.datetime64("2018-01-01T05") + i for i in range(3)], "2018-01-01T05"),
        ([np.float64(0.5), np.float64(1.5), np.float64(2.5)], [0.5, 1.5, 2.5]),
        ([datetime.datetime(2018, 1, i, 7) for i in (1, 2, 3)], "2018-01-01T07:00:00"),
    ],
)
def test_times_of_any_kind_are_kept_and_compared(tmp_path, times, written):
    slices = [x.with_time(t) for x, t in zip(make_slices(3), times, strict=True)]
    with Run.create(tmp_path / "r", small_model(init_slices=1), modes=["a", "b"]) as run:
        run.learn(slices[:2])
    with Run.open(tmp_path / "r") as run:
        assert run.learn(slices) == 1
    found = [step["time"] for step in steps_of(tmp_path / "r")]
    assert found == written if isinstance(written, list) else found[0] == written


@pytest.mark.parametrize(
    "model",
    [
        lambda: small_model(loss="gaussian", forget=20.0),
        lambda: small_model(loss="bernoulli_odds"),
        lambda: small_model(solver="sgd", init_slices=2),
        lambda: OnlineSGD(2, init_slices=3, random_state=7),
    ],
    ids=["gaussian", "bernoulli", "sgd", "OnlineSGD"],
)
def test_every_method_resumes_exactly(tmp_path, model):
    slices = [
        Slice.dense((x.to_dense() > 6).astype(float), time=x.time) for x in make_slices(9, seed=3)
    ]
    with Run.create(tmp_path / "whole", model(), modes=["a", "b"]) as run:
        run.learn(slices)
    with Run.create(tmp_path / "parts", model(), modes=["a", "b"]) as run:
        run.learn(slices[:5])
    for _ in range(3):
        with Run.open(tmp_path / "parts") as run:
            run.learn(slices[: run.n_steps + 2])
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


def test_a_given_start_is_part_of_the_settings(tmp_path):
    rng = np.random.default_rng(0)
    init = KTensor(rng.random(2), [rng.random((5, 2)), rng.random((4, 2))])
    slices = make_slices(4)
    with Run.create(tmp_path / "r", small_model(init=init), modes=["a", "b"]) as run:
        run.learn(slices[:1])
    (tmp_path / "r" / runlog.CHECKPOINT).unlink()
    (tmp_path / "r" / runlog.STEPS).unlink()
    with Run.open(tmp_path / "r") as run:
        assert run.model.init.isclose(init, rtol=0, atol=0)
        run.learn(slices)
    assert [step["warm"] for step in steps_of(tmp_path / "r")] == [False] * 4


@pytest.mark.slow
def test_a_loss_of_ones_own_is_passed_again(tmp_path):
    loss = Loss(name="mine", value=lambda x, m: (x - m) ** 2, deriv=lambda x, m: 2 * (m - x))
    model = small_model(loss=loss, solver="sgd", init_slices=2)
    with Run.create(tmp_path / "r", model, modes=["a", "b"]) as run:
        run.learn(make_slices(4))
    with pytest.raises(StateError, match="loss 'mine'"):
        Run.open(tmp_path / "r")
    with Run.open(tmp_path / "r", loss=loss) as run:
        assert run.learn(make_slices(5)) == 1


# ---- events


def learn_events(path, source, *, stop=None, **options):
    if (Path(path) / runlog.RUN).exists():
        run = Run.open(path)
    else:
        run = Run.create(path, small_model(), modes=SETTINGS["modes"], events=SETTINGS)
    with run:
        return run.learn(run.stream(source, **options), stop=stop)


@pytest.mark.slow
def test_events_whose_vocabulary_grows_resume_exactly(tmp_path):
    source = write_events(tmp_path / "events.csv")
    assert learn_events(tmp_path / "whole", source) == 30
    lives = 0
    while learn_events(tmp_path / "parts", source, stop=iter([False, True]).__next__):
        lives += 1
    assert lives == 15
    assert_same_run(tmp_path / "parts", tmp_path / "whole")
    view = runlog.read_run(tmp_path / "whole")
    assert [len(names) for names in view.labels] == [9, 9, 7]
    assert [len(a) for a in view.factors] == [9, 9, 7]
    assert view.modes == ("pu", "do", "when:weekday")
    assert view.labels[0] == view.labels[1]


@pytest.mark.slow
def test_new_files_go_on_where_old_ones_ended(tmp_path):
    learn_events(tmp_path / "whole", write_events(tmp_path / "all.csv"))
    learn_events(tmp_path / "parts", write_events(tmp_path / "early.csv", 20))
    # The newer file starts with days that are known already.
    later = write_events(tmp_path / "late.csv", first=17)
    assert learn_events(tmp_path / "parts", later) == 10
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.slow
def test_a_bin_left_open_is_kept_for_the_next_source(tmp_path):
    lines = write_events(tmp_path / "all.csv").read_text().splitlines(keepends=True)
    learn_events(tmp_path / "whole", tmp_path / "all.csv")
    cuts = [1, 60, 333, 700, len(lines)]
    for start, end in itertools.pairwise(cuts):
        part = tmp_path / f"{start}.csv"
        part.write_text(lines[0] + "".join(lines[start:end]))
        learn_events(tmp_path / "parts", part, close_last=end == len(lines))
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


def test_bad_input_makes_no_directory_and_changes_none(tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("when,pu,do\nyesterday,a,b\n")
    with pytest.raises(DataError, match="yesterday"):
        learn_events(tmp_path / "r", bad)
    assert not (tmp_path / "r").exists()
    learn_events(tmp_path / "r", write_events(tmp_path / "good.csv", 8))
    before = files_of(tmp_path / "r")
    with pytest.raises(DataError, match="yesterday"):
        learn_events(tmp_path / "r", bad)
    assert files_of(tmp_path / "r") == before


def test_data_the_loss_refuses_name_the_slice_and_cost_only_that_one(tmp_path):
    slices = make_slices(8)
    slices[6] = Slice.dense(-slices[6].to_dense(), time=slices[6].time)
    with Run.create(tmp_path / "r", small_model(), modes=["a", "b"]) as run:
        with pytest.raises(DataError, match=r"In the slice of 2018-01-07: .*poisson"):
            run.learn(slices)
        assert run.n_steps == 6
        run.learn([slices[7]])
    assert len(steps_of(tmp_path / "r")) == 7


def test_tables_need_a_run_on_events(finished):
    with Run.open(finished) as run, pytest.raises(StateError, match="made from slices"):
        run.stream("x.csv")


# ---- accidents


class PowerCutError(BaseException):
    pass


def crashing(real, at, before, after):
    """The function, which does `before` or `after` in its `at`-th call and then is cut off."""
    calls = itertools.count(1)

    def function(*arguments):
        cut = next(calls) == at
        if cut and before is not None:
            before(*arguments)
            raise PowerCutError
        real(*arguments)
        if cut and after:
            raise PowerCutError

    return function


def write_half(path, step):
    with (Path(path) / runlog.STEPS).open("ab") as file:
        file.write(runlog.encode_step(step)[:20])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("onlinegcp.run.write_archive", lambda *_: None, False),
        ("onlinegcp.run.write_archive", None, True),
        ("onlinegcp.runlog.append_step", write_half, False),
        ("onlinegcp.runlog.append_step", None, True),
    ],
    ids=["before the checkpoint", "before the line", "half a line", "after the line"],
)
def test_a_crash_at_any_moment_of_writing_is_put_right(
    tmp_path, finished, monkeypatch, name, before, after
):
    slices, where = make_slices(), tmp_path / "cut"
    home, _, function = name.rpartition(".")
    real = getattr(sys.modules[home], function)
    for at in (1, 3, 2, 2):
        monkeypatch.setattr(name, crashing(real, at, before, after))
        if (where / runlog.RUN).exists():
            run = Run.open(where)
        else:
            run = Run.create(where, small_model(), modes=["a", "b"])
        with run:
            with pytest.raises(PowerCutError):
                run.learn(slices)
            with pytest.raises(StateError, match="writing it failed"):
                run.learn(slices)
    monkeypatch.setattr(name, real)
    with Run.open(where) as run:
        assert run.learn(slices) > 0
    assert_same_run(where, finished)


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path, finished):
    slices = make_slices()
    with Run.create(tmp_path / "r", small_model(), modes=["a", "b"]) as run:
        run.learn(slices[:6])
        before = files_of(tmp_path / "r")
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limit[1]))
        try:
            with pytest.raises(StateError, match=r"checkpoint.npz could not be"):
                run.learn(slices)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    after = files_of(tmp_path / "r")
    assert {n: b for n, b in after.items() if n != "lock"} == {
        n: b for n, b in before.items() if n != "lock"
    }
    with Run.open(tmp_path / "r") as run:
        run.learn(slices)
    assert_same_run(tmp_path / "r", finished)


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path, finished):
    with (
        Run.open(finished),
        pytest.raises(StateError, match=rf"being written by process {os.getpid()} on"),
    ):
        Run.open(finished)
    reader = Run.open(finished, write=False)
    with pytest.raises(StateError, match="open for writing"):
        reader.learn([])


def test_an_existing_run_is_never_started_over_by_accident(finished):
    before = files_of(finished)
    with pytest.raises(StateError, match="holds a run already"):
        Run.create(finished, small_model(), modes=["a", "b"])
    with Run.create(finished, small_model(rank=1), modes=["a", "b"], overwrite=True) as run:
        assert files_of(finished) == before
        run.learn(make_slices(5))
    assert len(steps_of(finished)) == 5
    assert runlog.read_run(finished).rank == 1


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="is no directory"):
        Run.create(tmp_path / "file" / "r", small_model(), modes=["a"])
    # Root may write anywhere, so the system's answer is replaced.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StateError, match="may not write"):
        Run.create(tmp_path / "r", small_model(), modes=["a"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_a_clear_error(finished):
    finished.chmod(0o500)
    try:
        with pytest.raises(StateError, match="to be written"):
            Run.open(finished)
    finally:
        finished.chmod(0o700)


def test_newer_formats_and_damage_are_refused_and_left_alone(finished):
    info = json.loads((finished / runlog.RUN).read_text())
    cases = {
        runlog.RUN: (json.dumps({**info, "format": 99}).encode(), "Upgrade"),
        runlog.CHECKPOINT: (b"PK not quite", "damaged"),
        runlog.STEPS: (b'{"number": 1}\nnonsense\n{"number": 3}\n', "line 2"),
    }
    for name, (content, message) in cases.items():
        kept = (finished / name).read_bytes()
        (finished / name).write_bytes(content)
        with pytest.raises(StateError, match=message):
            Run.open(finished)
        assert (finished / name).read_bytes() == content
        (finished / name).write_bytes(kept)
    (finished / runlog.CHECKPOINT).unlink()
    lines = (finished / runlog.STEPS).read_bytes()
    with pytest.raises(StateError, match="there is none"):
        Run.open(finished)
    assert (finished / runlog.STEPS).read_bytes() == lines
    info["model"]["method"] = "Oracle"
    (finished / runlog.RUN).write_text(json.dumps(info))
    with pytest.raises(StateError, match="Oracle"):
        Run.open(finished)


def test_half_written_files_of_a_kill_are_swept(finished):
    strays = [finished / f".{name}.12ab34cd.tmp" for name in (runlog.CHECKPOINT, runlog.RUN)]
    for stray in strays:
        stray.write_bytes(b"half")
    Run.open(finished, write=False)
    assert all(stray.exists() for stray in strays)
    Run.open(finished).close()
    assert not any(stray.exists() for stray in strays)


# Imports and loads the kernels once, then makes a process for every life of a run, which would
# else take seconds to start. Polars is used in those processes only: its threads survive no fork.
NURSERY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import polars
import test_run
import onlinegcp.events
model = test_run.small_model()
for x in test_run.make_slices(6):
    model.partial_fit(x)
print("ready", flush=True)
for line in sys.stdin:
    where, source = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        try:
            test_run.learn_events(where, source)
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    print(child, flush=True)
    sys.stdin.readline()  # not reaped before, or its number might be another's when it is killed
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.slow
def test_fifty_kills_at_random_moments_leave_no_trace(tmp_path):
    source = write_events(tmp_path / "events.csv", 16)
    learn_events(tmp_path / "whole", source)
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(Path(__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert nursery.stdout.readline() == "ready\n"
    moments = random.Random(0)

    def live(where, seconds=None):
        """One life of a run, killed after some seconds; whether it came to its end."""
        nursery.stdin.write(f"{where}\t{source}\n")
        nursery.stdin.flush()
        child = int(nursery.stdout.readline())
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)  # if it was done before, nothing happens
        nursery.stdin.write("reap\n")
        nursery.stdin.flush()
        status = int(nursery.stdout.readline())
        assert status in (0, signal.SIGKILL)
        return status == 0

    kills, runs = 0, 0
    try:
        start = time.perf_counter()
        assert live(tmp_path / "timed")
        whole_life = time.perf_counter() - start
        while kills < 50:
            where = tmp_path / f"run{runs}"
            runs += 1
            while not live(where, moments.uniform(0.0, whole_life)):
                kills += 1
            assert_same_run(where, tmp_path / "whole")
            assert sorted(files_of(where)) == sorted(files_of(tmp_path / "whole"))
    finally:
        nursery.stdin.close()
        nursery.wait(30)
        nursery.stdout.close()
    assert kills >= 50
