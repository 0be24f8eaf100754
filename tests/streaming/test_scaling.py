"""Rows in units of their own: nothing is drowned, and everything comes back in the data's units."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import onlinegcp
from onlinegcp.errors import DataError, ScaleWarning
from onlinegcp.run import Run
from onlinegcp.slices import Slice
from onlinegcp.streaming import CPStream, OnlineGCP
from onlinegcp.streaming.scaling import in_units, row_sizes, units

UNITS = np.array([1.0, 2000.0, 0.5, 1.0, 1.0, 3.0])


def days(count, seed=0, noise=0.01):
    """Slices of six variables at four places, in ordinary units."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((6, 2)), rng.standard_normal((4, 2))
    for _ in range(count):
        yield (a * rng.uniform(0.5, 1.5, 2)) @ b.T + noise * rng.standard_normal((6, 4))


def in_data(stream):
    return [day * UNITS[:, None] for day in stream]


@pytest.mark.parametrize("sparse", [False, True])
def test_sizes_of_rows(sparse):
    data = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    x = Slice(np.argwhere(data), data[data != 0], data.shape) if sparse else Slice.dense(data)
    np.testing.assert_allclose(row_sizes([x, x], 0), [np.sqrt(12.5), 0.0, np.sqrt(2.0)])
    np.testing.assert_allclose(row_sizes([x], 1), [np.sqrt(3.0), np.sqrt(20 / 3)])
    # A row that held nothing has the median's unit; rows that are known keep theirs.
    np.testing.assert_allclose(units([x], 0)[1], np.median([np.sqrt(12.5), np.sqrt(2.0)]))
    np.testing.assert_allclose(units([x], 0, np.array([7.0])), [7.0, 4.20710678, np.sqrt(2.0)])
    np.testing.assert_allclose(
        in_units(x, 0, np.array([2.0, 1.0, 4.0])).to_dense(), data / [[2.0], [1.0], [4.0]]
    )


def test_missing_cells_do_not_count():
    x = Slice.dense([[3.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_allclose(row_sizes([x], 0), [3.0, 0.0])


@pytest.mark.parametrize("lower", [None, 0.0])
def test_a_scaled_model_is_the_model_of_scaled_data_in_the_units_of_the_data(lower):
    first = in_data(days(5))
    size = np.sqrt(np.mean(np.square(first), axis=(0, 2)))
    scaled = OnlineGCP(2, init_slices=5, scale=0, lower=lower)
    plain = OnlineGCP(2, init_slices=5, lower=lower)
    for day in in_data(days(20)):
        scaled.partial_fit([day])
        plain.partial_fit([day / size[:, None]])
        if not plain.started_:
            continue  # the units are not known yet
        np.testing.assert_allclose(
            scaled.transform([day]), plain.transform([day / size[:, None]]), rtol=1e-10
        )
    np.testing.assert_allclose(scaled.factors_[0], plain.factors_[0] * size[:, None], rtol=1e-10)
    np.testing.assert_allclose(scaled.factors_[1], plain.factors_[1], rtol=1e-10)
    assert scaled.last_.prequential == pytest.approx(plain.last_.prequential)
    expected = scaled.inverse_transform(scaled.weights_)
    np.testing.assert_allclose(
        expected, size[:, None] * plain.inverse_transform(plain.weights_), rtol=1e-10
    )


def test_small_rows_are_learned_beside_a_large_one():
    """Noise of the large row, as small beside it as all other noise, is larger than the others."""
    errors: dict[int | None, float] = {}
    for scale in (None, 0):
        model = OnlineGCP(2, init_slices=5, scale=scale)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScaleWarning)
            for day in in_data(days(40, noise=0.1)):
                model.partial_fit([day])
        truth, seen = list(days(41, noise=0.0))[-1], in_data(days(41, noise=0.1))[-1]
        found = model.inverse_transform(model.transform([seen])[0]) / UNITS[:, None]
        small = np.array([0, 2, 3, 4, 5])
        errors[scale] = np.linalg.norm((found - truth)[small]) / np.linalg.norm(truth[small])
    assert 2.0 * errors[0] < errors[None]


def test_a_mode_may_be_named_and_rows_may_come_late(tmp_path):
    stream = in_data(days(20))
    model = OnlineGCP(2, init_slices=5, scale="variable", mode_names=("variable", "place"))
    for day in stream[:10]:
        model.partial_fit(day[:5])
    model.save(tmp_path / "model")
    again = [model, pickle.loads(pickle.dumps(model)), OnlineGCP.load(tmp_path / "model")]
    for found in again:
        for day in stream[10:]:
            found.partial_fit(day)
        assert [a.shape for a in found.factors_] == [(6, 2), (4, 2)]
        np.testing.assert_array_equal(found.factors_[0], model.factors_[0])
    size = np.sqrt(np.mean(np.square(stream[10][5])))
    assert model.get_state()["state"].arrays["scale"][5] == pytest.approx(size)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scale": 2}, "scale must be a mode from 0 to 1, but is 2"),
        ({"scale": -1}, "scale must be a whole number >= 0"),
        ({"scale": "variables", "mode_names": ("variable", "place")}, "Did you mean 'variable'"),
        ({"scale": 0, "loss": "bernoulli_logit"}, "scale is for losses that count in squares"),
        ({"scale": 0, "solver": "sgd"}, "scale needs solver='auto'"),
    ],
)
def test_what_cannot_be_scaled_is_refused(parameters, message):
    with pytest.raises(DataError, match=message):
        OnlineGCP(2, **parameters).fit([np.abs(day) > 1 for day in days(4)])


def test_a_run_names_the_row_by_its_label(tmp_path):
    rng = np.random.default_rng(0)
    slices = [
        Slice.dense(rng.normal(1.0, 0.1, (3, 4)) * [[1.0], [1e5], [1.0]], time=t) for t in range(6)
    ]
    labels = [["wind", "pressure", "rain"], list("abcd")]
    model = OnlineGCP(1, "gaussian", init_slices=5)
    with (
        Run.create(tmp_path / "a.run", model, modes=["what", "where"], labels=labels) as run,
        pytest.warns(ScaleWarning, match=r"row 'pressure' of what is .* times"),
    ):
        run.learn(slices)


def test_a_row_that_drowns_the_others_is_told_once():
    stream = in_data(days(12))
    with pytest.warns(
        ScaleWarning, match=r"row 1 of mode 1 is 1,\d\d\d times.*Pass scale=0"
    ) as told:
        OnlineGCP(2, init_slices=5).fit(stream)
    assert len(told) == 1
    with pytest.warns(ScaleWarning, match="of station.*Use OnlineGCP with scale"):
        CPStream(2, init_slices=5, mode_names=("station", "place")).fit(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OnlineGCP(2, init_slices=5, scale=0).fit(stream)
        OnlineGCP(2, init_slices=5).fit(list(days(12)))
        OnlineGCP(2, "poisson", init_slices=5).fit([np.round(np.abs(day)) for day in stream])


def test_a_start_that_is_given_with_its_slices_is_brought_to_units():
    """As `compare` begins all methods: from one model of the data as they are."""
    stream = [np.asarray(day) for day in in_data(days(30))]
    own = OnlineGCP(2, init_slices=8, scale=0, random_state=0).fit(stream)
    start = onlinegcp.cp_als(np.stack(stream[:8], axis=2), rank=2).ktensor
    given = OnlineGCP(2, init_slices=8, scale=0, random_state=0).start_from(start, stream[:8])
    for day in stream[8:]:
        given.partial_fit([day])
    newest = stream[-1]
    far = [
        np.linalg.norm((m.inverse_transform(m.transform([newest]))[0] - newest) / UNITS[:, None])
        for m in (own, given)
    ]
    assert far[1] < 1.1 * far[0]
