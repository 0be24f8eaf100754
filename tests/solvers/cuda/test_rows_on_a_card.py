"""Losses with one matrix per row on the card, against the CPU. Needs a card."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from onlinegcp import Loss, OnlineGCP, Slice, get_loss
from onlinegcp.losses import CODES
from onlinegcp.solvers.auto import fisher_rows, solver
from onlinegcp.solvers.cuda.engine import Engine, device_problem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(device_problem()), reason=f"nothing ran on a card: {device_problem()}"),
]

SHAPE, RANK = (20, 14, 9), 6
ROWS = [
    name for name in CODES
    if not get_loss(name).traits.quadratic
    and (get_loss(name).traits.odds_form is None or get_loss(name).traits.rows_first)
]  # fmt: skip


def _apart(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return float(np.abs(ours - theirs).max() / max(np.abs(ours).max(), 1e-300))


class Stream:
    """Slices that a model of the loss fits, and a start near it."""

    def __init__(self, loss, *, lower=None, missing=False, shape=SHAPE, rank=RANK, seed=1):
        self.rng, self.loss, self.lower, self.missing = (
            np.random.default_rng(seed), loss, lower, missing,
        )  # fmt: skip
        self.positive = loss.lower == 0.0 or lower == 0.0
        self.factors = [self._draw(n, rank) for n in shape]

    def _draw(self, *shape):
        return self.rng.random(shape) if self.positive else 0.6 * self.rng.standard_normal(shape)

    def slice(self):
        weights = self._draw(self.factors[0].shape[1]) + (0.3 if self.positive else 0.0)
        letters = "abcd"[: len(self.factors)]
        spec = ",".join(f"{k}r" for k in letters)
        m = np.einsum(f"r,{spec}->{letters}", weights, *self.factors)
        if self.loss.likelihood is not None:
            x = self.loss.sample(self.rng, m)
        else:
            x = np.maximum(m + 0.5 * self.rng.standard_normal(m.shape), 0.01)
        if self.missing:
            index = np.argwhere(self.rng.random(m.shape) < 0.7)
            return Slice(index, x[tuple(index.T)], m.shape, unlisted="missing")
        return Slice.dense(x)

    def start(self, **options):
        factors = [a + 0.1 * self.rng.random(a.shape) for a in self.factors]
        slices = [self.slice() for _ in range(3)]
        rows = self._draw(3, factors[0].shape[1]) + 0.3
        return solver.start(factors, rows, slices, self.loss, lower=self.lower, **options)


def _compare(stream, steps=3, tolerance=1e-10, **options):
    """Steps of both devices from the same state.

    Columns count by their weights: one that vanishes is given unit length, and its rounding
    with it, on the CPU as well.
    """
    loss, here = stream.loss, stream.start(**options)
    here, _ = solver.step(here, stream.slice(), loss)  # least squares turn into rows
    for _ in range(steps):
        x, before = stream.slice(), here
        here, ours = solver.step(before, x, loss)
        there, theirs = solver.step(before, x, loss, card=Engine(picky=False))
        assert type(there.model.past).__name__ == "CardFisher"
        assert ours.newton_steps == theirs.newton_steps
        for name in ("weights", "prequential", "local", "forget"):
            assert _apart(getattr(ours, name), getattr(theirs, name)) < tolerance, name
        size = np.zeros(here.factors.width)
        size[: len(ours.weights)] = np.abs(ours.weights) / np.abs(ours.weights).max()
        assert _apart(size * here.factors.data, size * there.factors.data) < tolerance
        past, other = here.model.past, there.model.past
        for name in ("curvature", "mean", "variance", "dispersion"):
            assert _apart(getattr(past, name), getattr(other, name)) < 100 * tolerance, name
        # What a solve leaves of a slope is what rounding leaves of large numbers.
        unit = np.abs(past.curvature).max() * np.abs(here.factors.data).max()
        assert np.abs(past.slope - other.slope).max() < tolerance * unit
        assert _apart(size * past.sensitivity, size * other.sensitivity) < 1e-6
    return there


@pytest.mark.parametrize("name", ROWS)
def test_a_step_gives_what_the_cpu_gives(name):
    _compare(Stream(get_loss(name)))


@pytest.mark.parametrize("forget", [1.0, 20.0])
def test_a_step_with_a_given_forgetting(forget):
    _compare(Stream(get_loss("bernoulli_logit")), forget=forget)


@pytest.mark.parametrize("name", ["bernoulli_logit", "gamma", "poisson_log"])
def test_missing_cells(name):
    _compare(Stream(get_loss(name), missing=True))


@pytest.mark.parametrize("lower", [None, 0.0])
def test_least_squares_with_missing_cells(lower):
    _compare(Stream(get_loss("gaussian"), missing=True, lower=lower))


def test_a_bound_on_a_loss_that_has_none():
    _compare(Stream(get_loss("huber"), lower=0.0))


@pytest.mark.parametrize("name", ["bernoulli_logit", "gamma"])
def test_diagonals_where_matrices_would_be_too_many(name, monkeypatch):
    monkeypatch.setattr(fisher_rows, "CURVATURE_BUDGET", 1)
    there = _compare(Stream(get_loss(name)))
    assert there.model.past.diagonal


@pytest.mark.parametrize("rank", [33, 90])
def test_ranks_of_more_than_one_lane_and_more_than_shared_memory(rank):
    # Few cells per unknown: the systems are held up by their priors.
    _compare(Stream(get_loss("bernoulli_logit"), shape=(12, 40, 8), rank=rank), 2, 1e-8)


@pytest.mark.parametrize("shape", [(40,), (15, 12), (6, 5, 4, 3)])
def test_other_numbers_of_modes(shape):
    _compare(Stream(get_loss("bernoulli_logit"), shape=shape, rank=3))


def _own():
    return Loss(
        "log_cosh",
        value=lambda x, m: np.log(np.cosh(m - x)),
        deriv=lambda x, m: np.tanh(m - x),
    )


def test_a_users_loss_is_compiled_from_its_own_text():
    _compare(Stream(_own()), tolerance=1e-8)  # its curvature is a difference


def test_a_loss_that_cannot_be_compiled_runs_on_the_cpu_and_says_so():
    table = {"scale": 2.0}

    def value(x, m):
        return np.asarray(table["scale"] * (m - x) ** 2)

    loss = Loss("tabled", value=value, deriv=lambda x, m: 4.0 * (m - x), curvature=lambda x, m: 4.0
                + 0.0 * m)  # fmt: skip
    stream = Stream(loss)
    state, x = stream.start(), stream.slice()
    with pytest.warns(UserWarning, match="'tabled' cannot be computed on the card"):
        there, _ = solver.step(state, x, loss, card=Engine(picky=False))
    here, _ = solver.step(state, x, loss)
    np.testing.assert_array_equal(here.factors.data, there.factors.data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        solver.step(state, x, loss, card=Engine(picky=False))


def test_a_hundred_slices_bits_and_files(tmp_path):
    stream = Stream(get_loss("bernoulli_logit"), shape=(15, 12), rank=3)
    slices = [stream.slice() for _ in range(100)]
    here, there = (
        OnlineGCP(3, loss="bernoulli_logit", init_slices=5, device=device).fit(slices)
        for device in ("cpu", "cuda")
    )
    for ours, theirs in zip(here.factors_, there.factors_, strict=True):
        assert _apart(ours, theirs) < 1e-6
    assert math.isclose(here.last_.prequential, there.last_.prequential, rel_tol=1e-6)
    half = OnlineGCP(3, loss="bernoulli_logit", init_slices=5, device="cuda").fit(slices[:50])
    half.save(tmp_path / "half.npz")
    resumed = OnlineGCP.load(tmp_path / "half.npz")
    for x in slices[50:]:
        resumed.partial_fit(x)
    for ours, theirs in zip(there.factors_, resumed.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_drawn_zeros_are_the_same_cells():
    loss, rng, shape = get_loss("bernoulli_logit"), np.random.default_rng(3), (160, 150, 60)

    def one():
        linear = np.unique(rng.integers(0, math.prod(shape), 20_000))
        index = np.stack(np.unravel_index(linear, shape), axis=1)
        return Slice(index, np.ones(len(index)), shape)

    factors = [rng.standard_normal((n, 4)) for n in shape]
    here = there = solver.start(factors, rng.standard_normal((2, 4)), [one(), one()], loss)
    for _ in range(2):
        x = one()
        here, ours = solver.step(here, x, loss)
        there, theirs = solver.step(there, x, loss, card=Engine(picky=False))
        assert _apart(ours.weights, theirs.weights) < 1e-10
        assert _apart(here.factors.data, there.factors.data) < 1e-10
