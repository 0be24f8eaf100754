"""Sums over unlisted cells agree with the full array, whichever road they take."""

import numpy as np
import pytest

from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.slices import Slice
from onlinegcp.solvers.cells import OddsForm, cells_of
from onlinegcp.solvers.zeros import Zeros

FORMS = {
    "poisson": OddsForm(True, 1.0, 0.0),
    "bernoulli": OddsForm(False, 1.0, 0.0),
    "negative_binomial": OddsForm(False, 3.0, 1.0),
}


def model(missing):
    rng = np.random.default_rng(0)
    shape = (5, 1, 4)
    factors = [rng.dirichlet(np.ones(n), 3).T for n in shape]
    x = rng.poisson(0.7, shape).astype(float)
    if missing:
        x[rng.random(shape) < 0.3] = np.nan
    return factors, x, 9.0 * rng.random(3)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("missing", [False, True])
def test_value_slope_and_rates_are_those_of_the_full_array(form, missing):
    factors, x, weights = model(missing)
    listing = Slice.dense(x) if missing else Slice(np.argwhere(x), x[x != 0], x.shape)
    blocks = stack_factors(factors)
    zeros = Zeros(blocks, cells_of(listing), form)
    seen = ~np.isnan(x)

    def total(s, parts):
        m = np.einsum("z,az,bz,cz->abc", s, *parts)[seen]
        v = form.base + form.slope * x[seen]
        return float((v * (m if form.linear else np.log1p(m))).sum())

    value, slope = zeros.tangent(pad_vector(weights))
    assert value == pytest.approx(total(weights, factors), rel=1e-10)
    for r in range(3):
        step = np.eye(3)[r] * 1e-6
        numeric = (total(weights + step, factors) - total(weights - step, factors)) / 2e-6
        assert slope[r] == pytest.approx(numeric, rel=1e-6)
    out = np.full_like(blocks.data, 3.0)
    zeros.rates(pad_vector(weights), -1, out)
    for k, row, r in [(0, 2, 1), (1, 0, 2), (2, 3, 0)]:
        up, down = [a.copy() for a in factors], [a.copy() for a in factors]
        up[k][row, r] += 1e-6
        down[k][row, r] -= 1e-6
        numeric = (total(weights, up) - total(weights, down)) / 2e-6
        assert out[blocks.offsets[k] + row, r] == pytest.approx(numeric, rel=1e-6)


def test_draws_are_repeated_until_refreshed(monkeypatch):
    monkeypatch.setattr("onlinegcp.solvers.zeros.EXACT_BUDGET", 0.0)
    factors, x, weights = model(missing=False)
    blocks = stack_factors(factors)
    zeros = Zeros(blocks, cells_of(Slice.dense(x)), FORMS["bernoulli"], key=5)
    assert zeros.sampled
    first, again = zeros.tangent(pad_vector(weights)), zeros.tangent(pad_vector(weights))
    assert first[0] == again[0]
    zeros.refresh()
    assert zeros.tangent(pad_vector(weights))[0] == first[0]
    other = Zeros(blocks, cells_of(Slice.dense(x)), FORMS["bernoulli"], key=6)
    assert other.tangent(pad_vector(weights))[0] != first[0]
