"""The static methods on the card against the CPU, and what they say without one."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp import BackendError, Slice, cp_als, cp_apr, gcp
from onlinegcp.kernels.cuda.card import why_not
from onlinegcp.solvers.cuda import engine

needs_a_card = pytest.mark.skipif(bool(why_not()), reason=f"nothing ran on a card: {why_not()}")


def _tensor(shape=(60, 50, 12), count=3000, seed=2, *, missing=False):
    rng = np.random.default_rng(seed)
    linear = np.unique(rng.integers(np.prod(shape), size=count))
    index = np.stack(np.unravel_index(linear, shape), axis=1)
    value = 1.0 + rng.poisson(1.0, len(index))
    return Slice(index, value, shape, unlisted="missing" if missing else "zero")


METHODS = {
    "cp_als": lambda x, device: cp_als(x, 9, max_iterations=6, tolerance=0.0, device=device),
    "cp_als with a ridge": lambda x, device: cp_als(
        x, 5, max_iterations=5, tolerance=0.0, ridge=0.1, device=device
    ),
    "cp_apr": lambda x, device: cp_apr(
        x, 7, method="mu", max_iterations=4, tolerance=0.0, device=device
    ),
    "gcp": lambda x, device: gcp(
        x, 6, "poisson", method="sgd", epochs=3, iterations=40, device=device
    ),
}


@pytest.mark.parametrize("shape", [(60, 50, 12), (300, 2, 40), (70, 90)])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.gpu
@needs_a_card
def test_a_fit_gives_what_the_cpu_gives_and_repeats_its_bits(method, shape):
    x = _tensor(shape)
    here, there, again = (METHODS[method](x, device) for device in ("cpu", "cuda", "cuda"))
    assert here.iterations == there.iterations
    np.testing.assert_allclose(there.trace, here.trace, rtol=1e-10)
    np.testing.assert_array_equal(there.trace, again.trace)
    for ours, theirs, others in zip(
        here.ktensor.factors, there.ktensor.factors, again.ktensor.factors, strict=True
    ):
        np.testing.assert_allclose(theirs, ours, rtol=1e-8, atol=1e-10 * np.abs(ours).max())
        np.testing.assert_array_equal(theirs, others)


@pytest.mark.gpu
@needs_a_card
def test_missing_counts_give_what_the_cpu_gives():
    x = _tensor(missing=True)
    here, there = (METHODS["cp_apr"](x, device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(there.trace, here.trace, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_without_a_card_it_is_refused_and_auto_is_the_cpu(monkeypatch, method):
    monkeypatch.setattr(engine, "device_problem", lambda: "no card was found. Plug one in.")
    x = _tensor((8, 7, 3), 40)
    with pytest.raises(BackendError, match="device='cuda' needs an NVIDIA card, but no card"):
        METHODS[method](x, "cuda")
    with pytest.raises(BackendError, match="device must be 'cpu', 'cuda' or 'auto', but got 'tpu'"):
        METHODS[method](x, "tpu")
    here, auto = (METHODS[method](x, device) for device in ("cpu", "auto"))
    for ours, theirs in zip(here.ktensor.factors, auto.ktensor.factors, strict=True):
        np.testing.assert_array_equal(ours, theirs)
