"""Compiled losses, chosen by code, against the NumPy functions they were compiled from."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.kernels import loss_codes
from onlinegcp.losses import LOSS_NAMES, get_loss

LOSSES = [get_loss(name) for name in LOSS_NAMES] + [
    get_loss("huber", delta=0.3),
    get_loss("negative_binomial", r=3.0),
    get_loss("beta", b=-1.5),
    get_loss("beta", b=2.0),
]


def grid(loss):
    """Every pair of data and model values, extremes included."""
    x = {
        "real": [-50.0, -1.3, 0.0, 0.4, 7.0],
        "nonnegative": [0.0, 1.0, 2.0, 1000.0],
        "positive": [1e-3, 0.5, 3.0, 1000.0],
        "binary": [0.0, 1.0],
        "at_least_one": [1.0, 2.0, 1000.0],
    }[loss.domain]
    m = np.concatenate([[0.0, 1e-6, 1e-3], np.linspace(0.01, 40.0, 53), [200.0, 800.0]])
    if loss.lower < 0.0:
        m = np.concatenate([-m, m])
    return np.array(np.meshgrid(x, m)).reshape(2, -1)


@pytest.mark.parametrize("role", ["value", "deriv"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_compiled_loss_is_the_numpy_loss(loss, role):
    x, m = grid(loss)
    compiled = getattr(loss_codes, f"loss_{role}")
    out = np.array([compiled(loss.code, loss.parameter, *cell) for cell in zip(x, m, strict=True)])
    expected = getattr(loss, role)(x, m)
    # Large terms may cancel (x log m against m), so errors are measured against them.
    size = np.abs(expected) + (np.abs(x) + 1.0) * (np.abs(m) + 1.0)
    assert np.all(np.abs(out - expected) <= 2e-13 * size)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_scalar_functions_answer_for_one_cell(loss):
    x, m = 1.0, 0.75
    for role in ("value", "deriv"):
        scalar = getattr(loss_codes, f"loss_{role}")(loss.code, loss.parameter, x, m)
        assert isinstance(scalar, float)
        np.testing.assert_allclose(scalar, getattr(loss, role)(x, m), rtol=1e-13, atol=1e-14)


def test_a_code_that_no_loss_has_gives_nan_instead_of_a_wrong_number():
    for code in (-1, len(LOSS_NAMES)):
        assert np.isnan(loss_codes.loss_value(code, 0.0, 1.0, 1.0))
        assert np.isnan(loss_codes.loss_deriv(code, 0.0, 1.0, 1.0))
