"""Who may ask for a card, and what they are told where there is none."""

import numpy as np
import pytest

from onlinegcp import SGD, BackendError, OnlineGCP, Slice
from onlinegcp.solvers.cuda import engine
from onlinegcp.solvers.devices import engine_for


@pytest.fixture
def no_card(monkeypatch):
    monkeypatch.setattr(engine, "device_problem", lambda: "no card was found. Plug one in.")


def _slices(n=6):
    rng = np.random.default_rng(0)
    a, b = rng.random((8, 2)), rng.random((7, 2))
    return [Slice.dense(rng.poisson(9 * a * rng.random(2) @ b.T)) for _ in range(n)]


def test_the_cpu_needs_no_engine():
    assert engine_for("cpu") is None


def test_a_card_that_is_not_there_is_refused_with_what_to_do(no_card):
    with pytest.raises(BackendError, match=r"device='cuda' needs an NVIDIA card, but no card"):
        OnlineGCP(2, loss="poisson", device="cuda").partial_fit(_slices()[0])


def test_auto_without_a_card_is_the_cpu(no_card):
    here, auto = (
        OnlineGCP(2, loss="poisson", init_slices=3, device=d).fit(_slices())
        for d in ("cpu", "auto")
    )
    for ours, theirs in zip(here.factors_, auto.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_auto_without_a_card_finds_the_rank_on_the_cpu(no_card):
    here, auto = (
        OnlineGCP("auto", loss="poisson", init_slices=3, max_rank=3, device=d).fit(_slices(9))
        for d in ("cpu", "auto")
    )
    for ours, theirs in zip(here.factors_, auto.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_ranks_on_trial_are_taken_along(monkeypatch):
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.auto import solver

    rng = np.random.default_rng(1)
    slices, loss = _slices(3), get_loss("poisson")
    start = [rng.random((8, 2)), rng.random((7, 2))]
    state = solver.start(start, rng.random((3, 2)) + 1, slices, loss, most=4)
    state.ranks.begin(state.model.copy(), [0, 1])
    taken = []

    def take(self, model, x, loss):
        taken.append(model)
        return model.copy()

    monkeypatch.setattr(engine.Engine, "_take", take)
    found = engine.Engine(picky=False).take(state, slices[0], loss)
    assert [model is state.ranks.twin for model in taken] == [True, False]
    assert found.ranks.twin is not state.ranks.twin
    found.ranks.gains[:] = 7.0
    assert not (state.ranks.gains == 7.0).any()


def test_an_unknown_device_is_told_which_there_are():
    with pytest.raises(BackendError, match="'cpu', 'cuda', 'auto' or 'reference', but got 'tpu'"):
        OnlineGCP(2, loss="poisson", device="tpu").partial_fit(_slices()[0])


def test_the_papers_solver_without_a_card_says_so(no_card):
    with pytest.raises(BackendError, match="device='cuda' needs an NVIDIA card"):
        OnlineGCP(2, loss="poisson", solver="sgd", device="cuda").partial_fit(_slices()[0])


def test_the_papers_solver_on_auto_without_a_card_is_the_cpu(no_card):
    solver = SGD(weight_iterations=5, factor_iterations=5)
    here, auto = (
        OnlineGCP(2, loss="poisson", solver=solver, init_slices=3, device=d).fit(_slices())
        for d in ("cpu", "auto")
    )
    for ours, theirs in zip(here.factors_, auto.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_without_numba_cuda_the_extra_is_named(monkeypatch):
    from onlinegcp.kernels.cuda import card

    monkeypatch.setattr(card, "find_spec", lambda name: None)
    assert "pip install 'onlinegcp[cuda]'" in card.why_not()


def test_a_driver_that_fails_is_told_with_its_own_words(monkeypatch):
    from numba import cuda

    from onlinegcp.kernels.cuda import card

    def broken():
        raise OSError("libcuda.so.1 is of another century")

    monkeypatch.setattr(card, "find_spec", lambda name: object())
    monkeypatch.setattr(cuda, "is_available", broken)
    told = card.why_not()
    assert "another century" in told
    assert "nvidia-smi" in told


def test_a_card_too_old_is_named(monkeypatch):
    from numba import cuda

    from onlinegcp.kernels.cuda import card

    class Old:
        name, compute_capability = "Tesla K80", (3, 7)

    monkeypatch.setattr(card, "find_spec", lambda name: object())
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "get_current_device", lambda: Old)
    assert "Tesla K80 has compute capability 3.7" in card.why_not()


def test_a_stream_that_breaks_off_is_learned_up_to_there(no_card, monkeypatch):
    slices, announced = _slices(), []

    def broken():
        yield from slices[:5]
        raise OSError("the file ends here")

    monkeypatch.setattr(OnlineGCP, "_expect", lambda self, x: announced.append(x))
    model = OnlineGCP(2, loss="poisson", init_slices=3, device="auto")
    with pytest.raises(OSError, match="ends here"):
        model.fit(broken())
    # Each is announced before the one in front of it is learned, and the last one is not lost.
    assert [x for x in announced if x is not None] == slices[1:5]
    assert model.n_slices_ == 5
