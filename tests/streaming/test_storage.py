"""Saved models: exact, whole or refused, whatever happens to file, disk or process."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tracemalloc
from decimal import Decimal

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from every_method import every_method
from onlinegcp.errors import DataError, StateError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.storage import archive
from onlinegcp.storage.archive import read_archive, write_archive
from onlinegcp.streaming import (
    RLST,
    SGD,
    CPStream,
    OnlineCP,
    OnlineGCP,
    OnlineSGD,
)
from onlinegcp.testing import planted_stream

QUICK = {"weight_epochs": 1, "factor_epochs": 1, "factor_iterations": 5}
MODELS = every_method(init_slices=4, init_starts=1) | {
    "online_gcp": OnlineGCP(2, "poisson", init_slices=4, init_starts=1),
    "online_gcp, data": OnlineGCP(
        2, "poisson", solver=SGD(history="data", **QUICK), init_slices=4, init_starts=1
    ),
    "online_gcp, parameter": OnlineGCP(
        2, get_loss("negative_binomial", r=3.0), init_slices=4, init_starts=1, solver=SGD(**QUICK)
    ),
    "rlst, window": RLST(2, window=3, init_slices=4, init_starts=1),
}
SLICES = planted_stream(get_loss("poisson"), n_slices=9).slices


def log_cosh(name="log_cosh"):
    return Loss(
        name, value=lambda x, m: np.logaddexp(m - x, x - m), deriv=lambda x, m: np.tanh(m - x)
    )


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


@pytest.mark.parametrize("stop", [1, 4, 6])
def test_round_trip_goes_on_bit_for_bit(model, stop, tmp_path):
    """In the warm start, at its end, and after it; with sparse slices in the buffer, too."""
    slices = [
        Slice(x.index[::2], x.value[::2], x.shape) if t % 2 and model.get_params().get("loss")
        else x
        for t, x in enumerate(SLICES)
    ]  # fmt: skip
    model.partial_fit(slices[:stop])
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    assert again.get_params().keys() == model.get_params().keys()
    assert again.n_slices_ == model.n_slices_
    assert again.last_ == model.last_
    for a, b in zip(model.factors_, again.factors_, strict=True):
        np.testing.assert_array_equal(a, b)
    model.partial_fit(slices[stop:])
    again.partial_fit(slices[stop:])
    for a, b in zip(model.factors_, again.factors_, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model.weights_, again.weights_)


def test_saving_changes_nothing(model, tmp_path):
    through = clone(model).partial_fit(SLICES)
    model.partial_fit(SLICES[:6])
    model.save(tmp_path / "model")
    model.save(tmp_path / "model")
    model.partial_fit(SLICES[6:])
    for a, b in zip(model.factors_, through.factors_, strict=True):
        np.testing.assert_array_equal(a, b)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    "when",
    [3, 2.5, "Monday", None, datetime.date(2020, 2, 29), np.datetime64("2020-02-29T12", "h"),
     datetime.datetime(2020, 2, 29, 12, tzinfo=datetime.UTC)],
)  # fmt: skip
def test_times_survive(when, tmp_path):
    model = OnlineCP(2, init_slices=2).partial_fit(SLICES[:2])
    model.partial_fit(SLICES[2], time=when)
    model.save(tmp_path / "model")
    assert OnlineCP.load(tmp_path / "model").last_.time == when


def test_start_features_and_seed_survive(tmp_path):
    rng = np.random.default_rng(0)
    init = KTensor([1.0, 2.0], [rng.random((5, 2))])
    model = OnlineSGD(2, init=init, random_state=None, ndim=1).partial_fit(rng.random((3, 5)))
    model.save(tmp_path / "model")
    again = OnlineSGD.load(tmp_path / "model")
    assert again.n_features_in_ == 5
    assert again.random_state is None
    assert again.get_state()["seed"] == model.get_state()["seed"]
    np.testing.assert_array_equal(again.init.factors[0], init.factors[0])
    np.testing.assert_array_equal(again.init.weights, init.weights)


def test_a_loss_of_ones_own_is_asked_for(tmp_path):
    path = tmp_path / "model"
    model = OnlineGCP(2, log_cosh(), init_slices=3, init_starts=1, solver=SGD(**QUICK))
    model.fit(SLICES[:5]).save(path)
    again = OnlineGCP.load(path, loss=log_cosh())
    assert again.partial_fit(SLICES[5]).n_slices_ == 6
    with pytest.raises(StateError, match=r"'log_cosh' made from functions.*but none was passed"):
        OnlineGCP.load(path)
    with pytest.raises(StateError, match="but 'other' was passed"):
        OnlineGCP.load(path, loss=log_cosh("other"))
    OnlineCP(2, init_slices=2).fit(SLICES[:3]).save(path)
    with pytest.raises(StateError, match="knows its loss"):
        OnlineCP.load(path, loss=log_cosh())


def test_what_a_file_cannot_hold_is_named(tmp_path):
    model = OnlineGCP(2, init_slices=2, solver=SGD(**QUICK)).fit(SLICES[:3])
    model.solver.step = Decimal(1)
    with pytest.raises(DataError, match=r"solver\.step is a Decimal"):
        model.save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        OnlineCP(2).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_method_outside_the_registry_is_loaded_by_its_own_class(tmp_path):
    class OwnMethod(type(MODELS["online_cp"])):
        pass

    kept = OwnMethod(2, init_slices=2).fit(SLICES[:3])
    kept.save(tmp_path / "model")
    again = OwnMethod.load(tmp_path / "model")
    assert type(again) is OwnMethod
    np.testing.assert_array_equal(again.weights_, kept.weights_)
    with pytest.raises(StateError, match="load it with its own class"):
        CPStream.load(tmp_path / "model")


def test_files_of_other_classes_kinds_and_versions_are_named(tmp_path):
    path = tmp_path / "model"
    OnlineCP(2, init_slices=2).fit(SLICES[:3]).save(path)
    with pytest.raises(StateError, match=r"holds a OnlineCP\. Use OnlineCP\.load"):
        CPStream.load(path)
    arrays, record = read_archive(path, "streaming model")
    KTensor([1.0], [[[1.0]]]).save(tmp_path / "ktensor")
    with pytest.raises(StateError, match="a saved streaming model was needed"):
        OnlineCP.load(tmp_path / "ktensor")
    write_archive(path, "streaming model", arrays, record | {"method": "FutureModel"})
    with pytest.raises(StateError, match="'FutureModel', which this version does not know"):
        OnlineCP.load(path)
    more = record["parameters"] | {"future": 1}
    write_archive(path, "streaming model", arrays, record | {"parameters": more})
    with pytest.raises(StateError, match="future"):
        OnlineCP.load(path)


def test_a_file_without_one_of_its_parts_is_refused(model, tmp_path):
    path = tmp_path / "model"
    model.fit(SLICES[:6]).save(path)
    arrays, record = read_archive(path, "streaming model")
    for name in ("factor.0", "factor.1", "weights", "mean_weights"):
        rest = {key: a for key, a in arrays.items() if key != name}
        write_archive(path, "streaming model", rest, record)
        with pytest.raises(StateError, match="does not fit"):
            type(model).load(path)
    for name in (
        "method",
        "n_slices",
        "seed",
        "parameters",
        "last",
        "buffer",
        "n_modes",
        "scalars",
    ):
        rest = {key: value for key, value in record.items() if key != name}
        write_archive(path, "streaming model", arrays, rest)
        with pytest.raises(StateError):
            type(model).load(path)


@pytest.mark.slow
def test_a_file_cut_or_damaged_anywhere_is_refused_and_nothing_else(tmp_path):
    path = tmp_path / "model"
    OnlineCP(1, init_slices=2).fit([Slice.dense([[1.0, 2.0]]) for _ in range(3)]).save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(StateError):
            OnlineCP.load(path)
    rng = np.random.default_rng(0)
    for place in rng.choice(len(whole), 300, replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            found = OnlineCP.load(path)
        except StateError:
            continue
        assert found.n_slices_ == 3
    path.write_bytes(whole)
    assert OnlineCP.load(path).n_slices_ == 3


def test_a_full_disk_leaves_model_and_file(monkeypatch, tmp_path):
    path = tmp_path / "model"
    model = OnlineCP(2, init_slices=2).fit(SLICES[:4])
    model.save(path)
    model.partial_fit(SLICES[4])
    before = model.factors_
    for home, step in ((os, "fsync"), (archive, "_npz")):
        with monkeypatch.context() as patch:

            def full(*arguments, **options):
                raise OSError(28, "No space left on device")

            patch.setattr(home, step, full)
            with pytest.raises(StateError, match=r"No space left.*already there is unchanged"):
                model.save(path)
        assert [p.name for p in tmp_path.iterdir()] == ["model"]
        assert OnlineCP.load(path).n_slices_ == 4
    np.testing.assert_array_equal(model.factors_[0], before[0])
    model.save(path)
    assert OnlineCP.load(path).n_slices_ == 5


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    model = OnlineCP(2, init_slices=2).fit(SLICES[:3])
    with pytest.raises(StateError, match="could not be"):
        model.save(tmp_path / "nowhere" / "model")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateError, match="could not be"):
        model.save(tmp_path / "file" / "model")
    if os.geteuid():  # root may write anywhere
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(StateError, match="Permission denied"):
            model.save(locked / "model")


KILLED = """
import os, random, signal, sys, time
import numpy as np
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineCP

path = sys.argv[1]
rng = np.random.default_rng(0)
slices = [Slice.dense(rng.random((400, 300))) for _ in range(40)]
model = OnlineCP(3, init_slices=2).partial_fit(slices[:3])
model.save(path)
states = {3: model.factors_[0]}
clean = 0
random.seed(0)
for _ in range(30):
    child = os.fork()
    if not child:
        while True:  # the same forty states, over and over
            other = OnlineCP.load(path)
            if other.n_slices_ == 40:
                other = OnlineCP(3, init_slices=2).partial_fit(slices[:3])
            for x in slices[other.n_slices_:]:
                other.partial_fit(x)
                for _ in range(5):  # most of the time is spent on what is tested
                    other.save(path)
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = OnlineCP.load(path)
    while found.n_slices_ not in states:
        model.partial_fit(slices[model.n_slices_])
        states[model.n_slices_] = model.factors_[0]
    assert np.array_equal(found.factors_[0], states[found.n_slices_])
    left = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".tmp")]
    for name in left:
        os.remove(os.path.join(os.path.dirname(path), name))
    clean += not left
print(f"{30 - clean} kills in the midst of a save, {len(states)} states seen")
"""


@pytest.mark.slow
def test_killed_at_any_instant_the_file_is_one_of_the_saved_states(tmp_path):
    """A real process saving in a loop and a real SIGKILL, at thirty random moments."""
    path = tmp_path / "model"
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    in_the_midst, states = (int(word) for word in run.stdout.split() if word.isdigit())
    # Otherwise the kills came while nothing was being written, and nothing was tested.
    assert in_the_midst >= 3
    assert states >= 5
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_storing_a_long_model_does_not_hold_it_twice(tmp_path, monkeypatch):
    """What is written goes to the file as it lies in memory, a piece at a time."""
    monkeypatch.setattr(archive, "_SMALL", 0)  # as for files of gigabytes
    rng = np.random.default_rng(0)
    shape, rank = (20_000, 20_000, 5), 8
    factors = [a / a.sum(axis=0) for a in (rng.random((n, rank)) + 0.1 for n in shape)]
    model = OnlineGCP(rank, "poisson", init=KTensor(np.full(rank, 100.0), factors), n_jobs=1)
    index = np.stack([rng.integers(0, n, 3000) for n in shape], axis=1)
    model.partial_fit(Slice(index, np.ones(3000), shape))
    tracemalloc.start()
    try:
        model.save(tmp_path / "long.npz")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.4 * model.state_bytes_  # 1.3 of it when everything was copied first
    again = OnlineGCP.load(tmp_path / "long.npz")
    for one, other in zip(model.factors_, again.factors_, strict=True):
        assert one.tobytes() == other.tobytes()
