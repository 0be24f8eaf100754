"""Slices too large for the card, whose cells it reads from the host's memory. Needs a card."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp import OnlineGCP, Slice
from onlinegcp.kernels.cuda.card import card
from onlinegcp.solvers.cuda.engine import device_problem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(device_problem()), reason=f"nothing ran on a card: {device_problem()}"),
]

SHAPE = (30, 25, 12)


def _slices(loss, *, missing, n=9):
    rng = np.random.default_rng(4)
    factors = [rng.random((size, 3)) ** 2 for size in SHAPE]
    for _ in range(n):
        m = np.einsum("r,ar,br,cr->abc", 5 * rng.gamma(2.0, 1.0, 3), *factors)
        value = {
            "poisson": lambda m: rng.poisson(m).astype(float),
            "bernoulli_odds": lambda m: (rng.random(SHAPE) < m / (1 + m)).astype(float),
            "gaussian": lambda m: m + 0.1 * rng.standard_normal(SHAPE),
            "gamma": lambda m: m * rng.gamma(20.0, 0.05, SHAPE) + 1e-3,
        }[loss](m)
        if loss == "gaussian" and not missing:
            yield Slice.dense(value)
            continue
        index = np.argwhere(rng.random(SHAPE) < 0.5 if missing else value != 0.0)
        kind = "missing" if missing else "zero"
        yield Slice(index, value[tuple(index.T)], SHAPE, unlisted=kind)


@pytest.mark.parametrize(
    ("loss", "missing", "solver"),
    [
        ("poisson", False, "auto"),
        ("poisson", True, "auto"),
        ("bernoulli_odds", False, "auto"),
        ("gaussian", False, "auto"),
        ("gamma", True, "auto"),
        ("poisson", False, "sgd"),
    ],
)
def test_cells_that_stay_with_the_host_give_the_same_bits(monkeypatch, loss, missing, solver):
    on, slices, found = card(), list(_slices(loss, missing=missing)), []
    for limits in ([1 << 40] * 9, [1000] * 9, [1000, 1000, 1 << 40] * 3):
        model = OnlineGCP(3, loss=loss, init_slices=3, solver=solver, device="cuda", random_state=1)
        for x, limit in zip(slices, limits, strict=True):
            monkeypatch.setattr(on, "most_cell_bytes", limit)
            model.partial_fit(x)
            assert limit > 1000 or model.n_slices_ <= 3 or on._far
        found.append(model)
    for other in found[1:]:
        for ours, theirs in zip(found[0].factors_, other.factors_, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert found[0].last_.prequential == other.last_.prequential
