"""One slice far louder than usual must not cost the model what it has learned."""

from __future__ import annotations

import numpy as np
import pytest

from auto_steps import learn
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.loudness import tempered

LOSS = get_loss("gaussian")
SHAPE = (7, 6, 5)
STORM_CELLS = 12


def _stream(rng: np.random.Generator, *, gaps: bool, storms: bool) -> tuple[list, list[Slice]]:
    factors = [rng.standard_normal((n, 3)) for n in SHAPE]
    slices = []
    for t in range(60):
        weights = rng.uniform(0.5, 2.0, 3)
        array = np.einsum("r,ir,jr,kr->ijk", weights, *factors)
        array += 0.1 * rng.standard_normal(SHAPE)
        hit = rng.integers(0, array.size, STORM_CELLS)
        force = 100.0 * rng.standard_normal(STORM_CELLS)
        lost = rng.random(SHAPE) < 0.1
        if storms and t in (30, 36, 42):
            array.reshape(-1)[hit] += force
        if gaps:
            array[lost] = np.nan
        slices.append(Slice.dense(array))
    return factors, slices


def _run(*, gaps: bool, storms: bool) -> tuple[np.ndarray, auto.AutoState, list[Slice]]:
    factors, slices = _stream(np.random.default_rng(5), gaps=gaps, storms=storms)
    rows = np.ones((10, 3))
    state = auto.start(factors, rows, slices[:10], LOSS, reseed=False)
    state, infos = learn(state, slices[10:], LOSS)
    cells = [x.n_observed for x in slices[10:]]
    return np.array([info.prequential for info in infos]) / cells, state, slices


@pytest.mark.parametrize("gaps", [False, True])
def test_after_storms_the_quiet_slices_are_predicted_nearly_as_well_as_without(gaps: bool) -> None:
    calm, *_ = _run(gaps=gaps, storms=False)
    rough, *_ = _run(gaps=gaps, storms=True)
    # Untempered, each storm has the weight of some thousand quiet slices.
    assert rough[35:].mean() < 1.5 * calm[35:].mean()


@pytest.mark.parametrize("gaps", [False, True])
def test_losses_of_a_loud_slice_are_reported_in_full(gaps: bool) -> None:
    _, state, slices = _run(gaps=gaps, storms=True)
    loud = slices[30]
    before = auto.solve(state, loud, LOSS).objective
    state, info = auto.step(state, loud, LOSS)
    assert info.prequential == pytest.approx(before, rel=1e-6)
    values = np.einsum("r,ir,jr,kr->ijk", info.weights, *state.factors.views())
    assert info.local == pytest.approx(np.nansum((loud.to_dense() - values) ** 2), rel=1e-6)


def test_the_usual_volume_follows_the_data_but_no_single_slice() -> None:
    _, state, slices = _run(gaps=False, storms=True)
    quiet = np.median([x.norm_squared / x.size for x in slices])
    loudest = max(x.norm_squared / x.size for x in slices)
    assert loudest > 20 * quiet
    assert quiet / 3 < state.model.volume < 3 * quiet
    assert tempered(state.model, slices[30]) < 0.1
    assert tempered(state.model, slices[31]) > 0.3


def test_losses_with_a_noise_scale_of_their_own_are_never_tempered() -> None:
    rng = np.random.default_rng(3)
    counts = [Slice.dense(rng.poisson(2.0, (5, 4)).astype(float)) for _ in range(6)]
    factors = [rng.random((n, 2)) for n in (5, 4)]
    state = auto.start(factors, np.ones((5, 2)), counts[:5], get_loss("poisson"))
    assert tempered(state.model, counts[5]) == 1.0
