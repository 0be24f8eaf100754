"""Where streaming models start: static fits, given models, and too little data for either."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import LOSS_NAMES, get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import ACP, GOCPTE, OLSTEC, CPStream, OnlineCP, OnlineGCP, OnlineSGD
from onlinegcp.streaming.warm_start import given_start, static_start
from onlinegcp.testing import planted_stream

RANK = 2
EMPTY = Slice(np.empty((0, 2), dtype=int), [], (5, 4))


def begin(slices, rank=RANK, name="gaussian", lower=None, starts=1):
    loss = get_loss(name)
    lower = loss.lower if lower is None else lower
    return static_start(slices, rank, loss, lower=lower, starts=starts, seed=0)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "gamma", "bernoulli_odds"])
def test_static_fit_has_unit_columns_and_all_scale_in_the_rows(name):
    """Errata row 20."""
    slices = planted_stream(get_loss(name), shape=(6, 5), n_slices=6).slices
    start = begin(slices, name=name)
    for a in start.factors:
        np.testing.assert_allclose(np.linalg.norm(a, axis=0), 1.0)
    assert start.rows.shape == (6, RANK)
    assert start.n_rows == 6
    np.testing.assert_allclose(start.mean, start.rows.mean(axis=0))
    assert list(start.slices) == slices


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_static_fit_beats_a_constant(name):
    loss = get_loss(name)
    slices = planted_stream(loss, shape=(12, 9), n_slices=6).slices
    start = begin(slices, name=name, starts=3)
    fitted = sum(
        loss.value(x.array, KTensor(row, start.factors).full()).sum()
        for x, row in zip(slices, start.rows, strict=True)
    )
    flat = np.array([x.array for x in slices])
    levels = np.linspace(-5 if loss.lower < 0 else 1e-3, 30, 200)
    constant = min(loss.value(flat, np.full_like(flat, m)).sum() for m in levels)
    assert fitted < constant


def test_more_components_than_the_data_determine_are_added_without_weight():
    x = Slice.dense(np.array([[1.0, 2.0], [3.0, 1.0], [0.5, 4.0]]))
    start = begin([x], rank=5)
    assert [a.shape for a in start.factors] == [(3, 5), (2, 5)]
    assert np.count_nonzero(start.rows) <= 2
    np.testing.assert_allclose(KTensor(start.rows[0], start.factors).full(), x.array, atol=1e-3)
    # All different, so that the next slices can tell them apart.
    assert len(np.unique(start.factors[0].round(6), axis=1).T) == 5


@pytest.mark.slow
@pytest.mark.parametrize("model", [
    OnlineGCP(RANK, init_slices=3), OnlineGCP(RANK, "poisson", init_slices=3),
    OnlineGCP(RANK, "poisson", solver="sgd", init_slices=3),
    OnlineSGD(RANK, relative_rate=1.0, init_slices=3), OnlineCP(RANK, init_slices=3),
    CPStream(RANK, init_slices=3), OLSTEC(RANK, init_slices=3), ACP(RANK, init_slices=3),
    GOCPTE(RANK, init_slices=3),
])  # fmt: skip
def test_a_warm_start_without_any_event_is_overcome(model):
    rng = np.random.default_rng(0)
    factors = [rng.random((n, RANK)) for n in (5, 4)]
    slices = [
        Slice.dense(rng.poisson(KTensor(30 * rng.random(RANK), factors).full())) for _ in range(60)
    ]
    model.fit([EMPTY, EMPTY, EMPTY, *slices])
    assert model.n_slices_ == 63
    unexplained = [
        np.sum((x.array - model.inverse_transform(model.transform(x))) ** 2) / x.norm_squared
        for x in slices[-10:]
    ]
    # Even the slowest method has found the level and the main pattern of the data.
    assert np.mean(unexplained) < 0.2


def test_a_warm_start_with_missing_cells_is_used():
    rng = np.random.default_rng(1)
    factors = [rng.random((n, RANK)) for n in (9, 8)]
    data = [KTensor(rng.random(RANK), factors).full() for _ in range(8)]
    holes = [np.where(rng.random(x.shape) < 0.3, np.nan, x) for x in data]
    start = begin([Slice.dense(x) for x in holes], starts=3)
    for x, row in zip(data, start.rows, strict=True):
        np.testing.assert_allclose(KTensor(row, start.factors).full(), x, atol=0.02)


def test_a_bound_is_known_to_the_static_fit():
    rng = np.random.default_rng(2)
    factors = [rng.random((n, RANK)) for n in (9, 8)]
    slices = [Slice.dense(KTensor(rng.random(RANK), factors).full()) for _ in range(8)]
    start = begin(slices, lower=0.0, starts=3)
    assert min(a.min() for a in (*start.factors, start.rows)) >= 0.0
    fit = KTensor(start.rows[0], start.factors).full()
    np.testing.assert_allclose(fit, slices[0].array, atol=0.01)


def test_a_given_model_is_taken_exactly_as_it_is():
    """No rescaling: the authors' numbers depend on the scales they started from."""
    rng = np.random.default_rng(3)
    model = KTensor([2.0, 3.0], [5 * rng.random((5, 2)), rng.random((4, 2)), rng.random((7, 2))])
    start = given_start(model, (5, 4), 2, 0.0)
    for a, b in zip(start.factors, model.factors[:2], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(start.rows, model.factors[2] * [2.0, 3.0])
    np.testing.assert_array_equal(start.mean, start.rows.mean(axis=0))
    short = given_start(KTensor(model.weights, model.factors[:2]), (5, 4), 2, 0.0)
    assert short.n_rows == 0
    np.testing.assert_array_equal(short.mean, [2.0, 3.0])


def test_a_start_normalised_is_the_same_model():
    rng = np.random.default_rng(3)
    model = KTensor([2.0, 3.0], [5 * rng.random((5, 2)), rng.random((4, 2)), rng.random((7, 2))])
    start = given_start(model, (5, 4), 2, 0.0).normalised()
    for a in start.factors:
        np.testing.assert_allclose(np.linalg.norm(a, axis=0), 1.0)
    np.testing.assert_allclose(KTensor(None, [*start.factors, start.rows]).full(), model.full())
    np.testing.assert_array_equal(start.mean, start.rows.mean(axis=0))
    without = KTensor(model.weights, model.factors[:2])
    short = given_start(without, (5, 4), 2, 0.0).normalised()
    np.testing.assert_allclose(KTensor(short.mean, short.factors).full(), without.full())


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("random", "must be a KTensor"),
        (KTensor(None, [np.ones((5, 2)), np.ones((3, 2))]), "must have shape"),
        (KTensor(None, [np.ones((5, 2))]), "must have shape"),
        (KTensor(None, [np.ones((n, 2)) for n in (5, 4, 3, 2)]), "must have shape"),
        (KTensor(None, [np.ones((5, 3)), np.ones((4, 3))]), "must have rank 2"),
        (KTensor(None, [np.ones((5, 2)), -np.ones((4, 2))]), "bound 0.0"),
        (KTensor([1.0, -1.0], [np.ones((5, 2)), np.ones((4, 2))]), "bound 0.0"),
    ],
)
def test_models_that_do_not_fit_are_refused(init, words):
    with pytest.raises(DataError, match=words):
        given_start(init, (5, 4), 2, 0.0)


def test_a_given_model_needs_one_row_per_slice():
    model = KTensor(None, [np.ones((n, 2)) for n in (5, 4, 3)])
    assert len(given_start(model, (5, 4), 2, 0.0, [EMPTY] * 3).slices) == 3
    for wrong in (model, KTensor(None, model.factors[:2])):
        with pytest.raises(DataError, match=r"one row of weights per slice in a last mode, 2"):
            given_start(wrong, (5, 4), 2, 0.0, [EMPTY] * 2)
    assert given_start(model, (5, 4), None, 0.0).n_rows == 3


def test_seeds_make_starts_repeatable():
    slices = planted_stream(get_loss("poisson"), shape=(6, 5), n_slices=4).slices
    first, second = (begin(slices, rank=3, name="poisson") for _ in range(2))
    for a, b in zip(first.factors, second.factors, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_odds"])
def test_of_several_starts_the_best_goes_on(name):
    """Seeds differ in which start is good; the chosen one must not be the worst of them."""
    loss = get_loss(name)
    slices = planted_stream(loss, shape=(15, 11), n_slices=6).slices

    def fitted(start):
        models = [KTensor(row, start.factors).full() for row in start.rows]
        return sum(loss.value(x.to_dense(), m).sum() for x, m in zip(slices, models, strict=True))

    several = fitted(begin(slices, 3, name, starts=3))
    alone = [
        fitted(static_start(slices, 3, loss, lower=loss.lower, starts=1, seed=seed))
        for seed in range(3)
    ]
    assert several <= np.median(alone) + 0.01 * abs(np.median(alone))


def test_counts_too_many_for_newton_steps_are_fitted_by_multiplicative_ones(monkeypatch):
    slices = planted_stream(get_loss("poisson"), shape=(15, 11), n_slices=6).slices
    newton = begin(slices, 3, "poisson", starts=3)
    monkeypatch.setattr("onlinegcp.streaming.warm_start.NEWTON_WORK", 0.0)
    cheap = begin(slices, 3, "poisson", starts=3)
    loss = get_loss("poisson")
    values = []
    for start in (newton, cheap):
        models = [KTensor(row, start.factors).full() for row in start.rows]
        values.append(
            sum(loss.value(x.to_dense(), m).sum() for x, m in zip(slices, models, strict=True))
        )
    assert not np.array_equal(newton.rows, cheap.rows)
    assert values[1] == pytest.approx(values[0], rel=0.02)


PLANTED = {  # kind: loss, bound, seeds of which several were stuck before starts were informed
    "gaussian": ("gaussian", None, (3002, 3026)),
    "bounded": ("gaussian", 0.0, (3015, 3027)),
    "poisson": ("poisson", None, (3024, 3028)),
    "bernoulli": ("bernoulli_odds", None, (3000, 3007, 3012, 3023)),
    "logit": ("bernoulli_logit", None, (3002, 3021)),
}


def planted(kind, seed, count):
    """Means and slices of 40 x 30 with five patterns; factors and rows of weights."""
    rng = np.random.default_rng([seed, 17])
    signed = kind in ("gaussian", "logit")
    if signed:
        factors = [rng.standard_normal((n, 5)) for n in (40, 30)]
    else:
        factors = [rng.gamma(0.3, 1.0, (n, 5)) + 1e-3 for n in (40, 30)]
        factors = [a / a.sum(axis=0) for a in factors]
    size = {"poisson": 600.0, "bernoulli": 150.0, "bounded": 300.0}.get(kind, 1.0)
    rows = size * rng.uniform(0.5, 1.5, (count, 5))
    means = [np.einsum("ir,jr,r->ij", *factors, row) for row in rows]
    if kind in ("bernoulli", "logit"):
        means = [m / (1.0 + m) if kind == "bernoulli" else 1.0 / (1.0 + np.exp(-m)) for m in means]
        data = [(rng.random((40, 30)) < m).astype(float) for m in means]
    elif kind == "poisson":
        data = [rng.poisson(m).astype(float) for m in means]
    else:
        data = [m + 0.1 * rng.standard_normal((40, 30)) for m in means]
    return means, [Slice.dense(x) for x in data], factors, rows


@pytest.mark.slow
@pytest.mark.parametrize("warm", [10, 20])
@pytest.mark.parametrize("kind", PLANTED)
def test_no_pattern_is_missed(kind, warm):
    """After 60 slices the error is at most twice that of a model that began at the truth."""
    loss, lower, seeds = PLANTED[kind]

    def error(model, means, slices):
        found = [model.inverse_transform(row) for row in model.transform(slices)]
        return np.mean(
            [np.linalg.norm(f - m) / np.linalg.norm(m) for f, m in zip(found, means, strict=True)]
        )

    for seed in seeds:
        means, slices, factors, rows = planted(kind, seed, 62)
        options = {"lower": lower, "init_slices": warm, "random_state": seed}
        ours = OnlineGCP(5, loss, **options).fit(slices[:60])
        truth = KTensor(None, [*factors, rows[:warm]])
        ideal = OnlineGCP(5, loss, **options).start_from(truth, slices[:warm])
        ideal.partial_fit(slices[warm:60])
        assert error(ours, means[60:], slices[60:]) < 2.0 * error(ideal, means[60:], slices[60:]), (
            seed
        )
        if kind in ("gaussian", "bounded"):
            assert error(ours, means[60:], slices[60:]) < 0.01
