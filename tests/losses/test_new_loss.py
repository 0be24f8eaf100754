"""A loss added from outside: under a name nobody knows, it does all that its traits promise."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.kernels.loss_codes import by_code
from onlinegcp.losses import LOSS_NAMES, Likelihood, Loss, Traits, get_loss
from onlinegcp.solvers.objective import least_loss
from onlinegcp.static.gcp import gcp
from onlinegcp.streaming.warm_start import static_start
from onlinegcp.testing import planted_stream


def twin(name: str) -> Loss:
    """A built-in loss once more, as a user would write it, under a name nobody knows."""
    known = get_loss(name)
    likelihood = known.likelihood
    if likelihood is not None and known.parameters:
        p = known.parameter
        likelihood = Likelihood(
            lambda x, m, _, scale: known.likelihood.tails(x, m, p, scale),
            lambda x, _, scale: known.likelihood.terms(x, p, scale),
            lambda rng, m, _, scale, size: known.likelihood.draw(rng, m, p, scale, size),
        )
    return Loss(
        f"twin of {name}",
        value=known.value,
        deriv=known.deriv,
        curvature=known.curvature,
        fisher=known.fisher,
        mean=known.mean,
        minimum=known.minimum,
        lower=known.lower,
        domain=known.domain,
        zero_shape=known.zero_shape or "unknown",
        likelihood=likelihood,
        traits=known.traits,
        check=False,
    )


EVERY = pytest.mark.parametrize("name", LOSS_NAMES)


@EVERY
def test_its_likelihood_is_that_of_the_built_in_one(name):
    known, new = get_loss(name), twin(name)
    x = np.array([1.0, 1.0, 0.0 if known.unlisted_zeros_allowed else 1.0])
    m = np.array([0.3, 2.0, 1.5])
    np.testing.assert_array_equal(new.deviance(x, m), known.deviance(x, m))
    assert least_loss_of(new, x) == least_loss_of(known, x)
    if known.likelihood is None:
        assert new.p_value(x, m, scale=2.0) is None
        with pytest.raises(DataError, match="needs a likelihood"):
            new.sample(np.random.default_rng(0), m)
        return
    np.testing.assert_array_equal(new.p_value(x, m, scale=2.0), known.p_value(x, m, scale=2.0))
    drawn = [loss.sample(np.random.default_rng(5), m, scale=2.0) for loss in (new, known)]
    np.testing.assert_array_equal(*drawn)


def least_loss_of(loss: Loss, x: np.ndarray) -> float:
    from onlinegcp.slices import Slice

    return least_loss(Slice.dense(x), loss)


@EVERY
def test_streams_and_warm_starts_are_those_of_the_built_in_one(name):
    known, new = get_loss(name), twin(name)
    stream, other = (planted_stream(loss, n_slices=5) for loss in (known, new))
    for x, y in zip(stream.slices, other.slices, strict=True):
        np.testing.assert_array_equal(x.value, y.value)
    start = {"lower": known.lower, "starts": 2, "seed": 3}
    a, b = (static_start(stream.slices, 2, loss, **start) for loss in (known, new))
    for u, v in zip((*a.factors, a.rows), (*b.factors, b.rows), strict=True):
        np.testing.assert_array_equal(u, v)


def test_squared_error_from_outside_is_fitted_and_judged_as_squared_error():
    stream = planted_stream(get_loss("gaussian"), n_slices=5)
    x = np.stack([part.to_dense() for part in stream.slices], axis=-1)
    known, new = (gcp(x, 2, loss, max_iterations=20) for loss in ("gaussian", twin("gaussian")))
    assert new.fit is not None
    assert new.fit == known.fit


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"likelihood": "poisson"}, "likelihood to be a Likelihood, but it is 'poisson'"),
        ({"traits": {"quadratic": True}}, "traits to be a Traits, but it is {'quadratic': True}"),
    ],
)
def test_what_is_no_likelihood_and_no_traits_is_refused(wrong, message):
    with pytest.raises(DataError, match=message):
        Loss("own", value=lambda x, m: (x - m) ** 2, deriv=lambda x, m: 2 * (m - x), **wrong)


def test_a_loss_that_says_nothing_gets_the_cautious_traits():
    square = {"value": lambda x, m: (x - m) ** 2, "deriv": lambda x, m: 2 * (m - x)}
    assert Loss("own", **square).traits == Traits(prior_strength=0.1)
    assert Loss("own", lower=0.0, **square).traits == Traits(capped_dispersion=True)


def test_compiled_losses_are_as_many_as_the_table_has():
    cube = by_code("cube", {4: lambda x, m, p: p * (x - m) ** 3, 9: lambda x, m, p: x + m + p})
    assert cube(4, 2.0, 3.0, 1.0) == 16.0
    assert cube(9, 2.0, 3.0, 1.0) == 6.0
    assert np.isnan(cube(0, 2.0, 3.0, 1.0))


# The geometric distribution: negative_binomial with r = 1, as a newcomer would add it.
ENTRY = """
_RECIPES["geometric"] = Recipe(
    value=lambda x, m, p: (1.0 + x) * np.log1p(m) - x * np.log(m + f.EPS),
    deriv=lambda x, m, p: (1.0 + x) / (1.0 + m) - x / (m + f.EPS),
    curvature=lambda x, m, p: x / (m + f.EPS) ** 2 - (1.0 + x) / (1.0 + m) ** 2,
    fisher=lambda x, m, p: 1.0 / (m + f.EPS) / (1.0 + m),
    mean=_same,
    minimum=lambda x, p: like.best_negative_binomial(x, 1.0),
    lower=0.0,
    domain="nonnegative",
    zero_shape="concave",
    traits=Traits(odds_form=OddsForm(False, 1.0, 1.0), counts=True),
    likelihood=like.Likelihood(
        lambda x, m, p, scale: like._negative_binomial_tails(x, m, 1.0, scale),
        lambda x, p, scale: (1.0, 0.0 * x),
        lambda rng, m, p, scale, size: rng.geometric(1.0 / (1.0 + m), size) - 1,
    ),
)

LOSS_NAMES = tuple"""

SCRIPT = """
import numpy as np
import onlinegcp
from onlinegcp import OnlineGCP, get_loss
from onlinegcp.anomaly import AnomalyTracker, score_slice
from onlinegcp.kernels.loss_codes import loss_deriv
from onlinegcp.testing import planted_stream
loss = get_loss("geometric")
assert loss.code == 11 and loss.to_dict() == {"name": "geometric", "parameters": {}}
stream = planted_stream(loss, shape=(4, 3), n_slices=8)
model = OnlineGCP(2, "geometric", init_slices=4, init_starts=1, random_state=0)
model.partial_fit(stream.slices)
assert np.isfinite(model.transform(stream.slices[0])).all()
assert 0.0 <= score_slice(model, stream.slices[-1], history=AnomalyTracker(None)).p <= 1.0
near = get_loss("negative_binomial", r=1.0)
x, m = np.array([0.0, 1.0, 7.0]), np.array([0.2, 3.0, 0.5])
np.testing.assert_allclose(loss.value(x, m), near.value(x, m), rtol=1e-12)
np.testing.assert_allclose(loss.p_value(x, m), near.p_value(x, m), rtol=1e-12)
np.testing.assert_allclose(loss.deviance(x, m), near.deviance(x, m), rtol=1e-12)
assert loss_deriv(11, 0.0, 7.0, 0.5) == loss.deriv(7.0, 0.5)  # what the paper's solver calls
print("learned in", onlinegcp.__file__)
"""


@pytest.mark.slow
def test_a_new_built_in_loss_is_one_entry_in_one_file(tmp_path):
    import onlinegcp

    package = Path(onlinegcp.__file__).parent
    copy = tmp_path / "onlinegcp"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "data"))
    registry = copy / "losses" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    assert text.count("\nLOSS_NAMES = tuple") == 1
    registry.write_text(text.replace("\nLOSS_NAMES = tuple", ENTRY), encoding="utf-8")
    # Compiled anew, into a folder that goes with the test: a warm start cannot do without.
    surroundings = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=surroundings,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert str(copy) in found.stdout
