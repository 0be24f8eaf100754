"""POST against its authors' beliefs, Bayesian regression, and simulated uncertainty."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import POST
from reference_outputs import stored

CASES = sorted({key[: -len("_mean1")] for key in stored("post") if key.endswith("_mean1")})


@pytest.mark.parametrize("case", CASES)
def test_the_authors_beliefs(case):
    """Sixty cells in batches; one cell comes twice in a batch, so each is a slice of its own."""
    given, theirs = stored("inputs"), stored("post")
    kind, passes, size = case.split("_")
    batch = int(size.removeprefix("batch"))
    converged = passes == "it500"
    values = given["post_yc" if kind == "cont" else "post_yb"].ravel()
    model = POST(
        3,
        data="continuous" if kind == "cont" else "binary",
        time_row=False,
        batch=batch,
        max_passes=500 if converged else 1,
        tolerance=1e-10 if converged else 1e-3,
        init=KTensor(None, [given[f"post_m{k}"] for k in (1, 2, 3)]),
    )
    for cell, y in zip(given["post_subs"].astype(int) - 1, values, strict=True):
        model.partial_fit(Slice([cell], [y], (7, 6, 5), unlisted="missing"))
    assert model.n_waiting_ == 0
    for k, (mean, cov) in enumerate(zip(model.factors_, model.covariances_, strict=True), 1):
        np.testing.assert_allclose(mean, theirs[f"{case}_mean{k}"], rtol=1e-9, atol=1e-12)
        expected = np.moveaxis(theirs[f"{case}_cov{k}"], 2, 0)
        np.testing.assert_allclose(cov, expected, rtol=1e-9, atol=1e-12)
    if kind == "cont":
        shape, rate = theirs[f"{case}_ab"][-1]
        assert model.noise_variance_ == pytest.approx(rate / shape, rel=1e-9)


def learned(**options):
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(n, 2)) for n in (8, 7)]
    truth = [KTensor(rng.normal(size=2), factors).full() for _ in range(25)]
    slices = [Slice.dense(x + 0.1 * rng.normal(size=x.shape)) for x in truth]
    return POST(2, init_slices=5, **options).fit(slices), truth, slices


def test_complete_slices_are_learned_as_their_cells_one_by_one():
    """Sums over a complete slice are products of sums; cell by cell they are plain sums."""
    model, _, slices = learned()
    cells = [Slice(x.index, x.value, x.shape, unlisted="missing") for x in slices]
    corner = np.array([[0, 0]])
    # One cell too few makes it incomplete; put back as a slice of its own it would be another row.
    missing = [Slice(c.index[1:], c.value[1:], c.shape, unlisted="missing") for c in cells]
    by_cells = POST(2, init_slices=5).fit(missing)
    for a, b in zip(model.factors_, by_cells.factors_, strict=True):
        assert np.abs(a - b).max() < 0.2  # one of 56 cells less
    assert model.predict_variance(corner) < by_cells.predict_variance(corner)


def test_weights_with_certain_factors_are_bayesian_regression():
    model, _, slices = learned()
    state = model.get_state()["state"]
    certain = {
        name: np.zeros_like(a) if name.startswith("cov") else a for name, a in state.arrays.items()
    }
    for name in certain:
        if name.startswith("cov"):
            certain[name] = np.tile(1e-12 * np.eye(2), (len(certain[name]), 1, 1))
    state.arrays.update(certain)
    x = slices[3]
    design = np.column_stack(
        [KTensor(np.eye(2)[r], model.factors_).full().ravel() for r in range(2)]
    )
    precision = np.eye(2) + design.T @ design / model.noise_variance_
    mean = state.mean_weights + design.T @ x.value / model.noise_variance_
    np.testing.assert_allclose(model.transform(x), np.linalg.solve(precision, mean), rtol=1e-6)


def test_predictive_variance_is_that_of_sampled_factors():
    model, _, _ = learned()
    state, rng = model.get_state()["state"], np.random.default_rng(1)
    cells = np.array([[0, 0], [3, 5], [7, 6]])
    for cell, variance in zip(cells, model.predict_variance(cells), strict=True):
        draws = rng.multivariate_normal(state.weights, state.arrays["time_cov"], 200_000)
        for k, i in enumerate(cell):
            own = state.factors[k][i], state.arrays[f"cov{k}"][i]
            draws = draws * rng.multivariate_normal(*own, 200_000)
        assert variance == pytest.approx(draws.sum(axis=1).var(), rel=0.02)


def test_noise_and_truth_are_found():
    model, truth, slices = learned()
    assert model.noise_variance_ == pytest.approx(0.01, rel=0.3)
    filled = model.inverse_transform(model.transform(slices[-1]))
    assert np.linalg.norm(filled - truth[-1]) < 0.1 * np.linalg.norm(truth[-1])


def test_forgetting_follows_a_change():
    rng = np.random.default_rng(0)
    first, second = ([rng.normal(size=(n, 2)) for n in (8, 7)] for _ in range(2))
    errors = {}
    for forget in (1.0, 0.7):
        model = POST(2, init_slices=5, forget=forget)
        rng = np.random.default_rng(1)
        for t in range(60):
            x = KTensor(rng.normal(size=2), first if t < 30 else second).full()
            model.partial_fit(Slice.dense(x + 0.05 * rng.normal(size=x.shape)))
        errors[forget] = model.last_.prequential / model.last_.norm_squared
    assert errors[0.7] < 0.5 * errors[1.0]


@pytest.mark.slow
def test_yes_or_no_data_are_learned_and_kept(tmp_path):
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(n, 2)) for n in (20, 15)]
    slices, chances = [], []
    for _ in range(40):
        p = ndtr(KTensor(rng.normal(size=2), factors).full())
        chances.append(p)
        slices.append(Slice.dense((rng.random(p.shape) < p).astype(float)))
    model = POST(2, data="binary", init_slices=5, init_starts=1).fit(slices[:30])
    model.save(tmp_path / "model")
    again = POST.load(tmp_path / "model")
    for x in slices[30:]:
        model.partial_fit(x)
        again.partial_fit(x)
    np.testing.assert_array_equal(model.factors_[0], again.factors_[0])
    likely = model.predict_probability(slices[-1].index) > 0.5
    hit, best = (
        np.mean(guess == slices[-1].value) for guess in (likely, chances[-1].ravel() > 0.5)
    )
    assert hit > best - 0.05
    mean = KTensor(model.weights_, model.factors_).values(slices[-1].index)
    sure = model.predict_probability(slices[-1].index)
    assert np.all(np.abs(sure - 0.5) <= np.abs(ndtr(mean) - 0.5) + 1e-12)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"data": "counts"}, "data"),
        ({"time_row": 1}, "time_row"),
        ({"variance": 0.0}, "variance"),
        ({"forget": 0.0}, "forget"),
        ({"batch": 0}, "batch"),
    ],
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        POST(2, **options).partial_fit(Slice.dense(np.ones((3, 4))))
