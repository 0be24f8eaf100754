"""Streams: data that follow their own truth, sizes and densities as asked, and the flights."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.problems import (
    Stream,
    bernoulli_stream,
    drift_stream,
    gaussian_stream,
    load_flights,
    outage_stream,
    poisson_stream,
)
from onlinegcp.slices import stack

SMALL = {
    "gaussian": lambda **o: gaussian_stream((11, 7), 13, rank=3, **o),
    "poisson": lambda **o: poisson_stream((11, 7), 13, rank=3, **({"density": 0.3} | o)),
    "poisson, bursty": lambda **o: poisson_stream(
        (11, 7), 13, rank=3, activity="bursty", n_events=2000, **o
    ),
    "bernoulli": lambda **o: bernoulli_stream((5, 7, 3), 13, rank=3, **({"density": 0.3} | o)),
    "one mode": lambda **o: poisson_stream((17,), 13, rank=2, n_events=500, **o),
    "rank 1": lambda **o: bernoulli_stream((1, 5, 3), 2, rank=1, density=0.3, **o),
    "one slice": lambda **o: poisson_stream((5, 1), 1, rank=2, n_events=50, **o),
}
every_small = pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)


def same_data(a: Stream, b: Stream) -> bool:
    return all(
        np.array_equal(x.to_dense(), y.to_dense(), equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


@every_small
@pytest.mark.parametrize("drift", [False, True])
def test_a_seed_fixes_the_stream(make, drift):
    first, again, other = make(drift=drift), make(drift=drift), make(drift=drift, seed=1)
    assert first.truth.isclose(again.truth, rtol=0, atol=0)
    assert same_data(first, again)
    assert not first.truth.isclose(other.truth)
    assert not same_data(first, other)


@every_small
@pytest.mark.parametrize("drift", [False, True])
def test_the_truth_fits_slices_and_their_number(make, drift):
    stream = make(drift=drift)
    assert stream.truth.shape == (*stream.shape, len(stream))
    assert [x.time for x in stream] == list(range(len(stream)))
    assert {x.shape for x in stream} == {stream.shape}
    final = KTensor(stream.truth.weights * stream.truth.factors[-1][-1], stream.truth.factors[:-1])
    np.testing.assert_allclose(stream.truth_at(len(stream) - 1).full(), final.full(), rtol=1e-9)
    if not drift:
        stacked = np.stack([stream.truth_at(t).full() for t in range(len(stream))], axis=-1)
        np.testing.assert_allclose(stacked, stream.truth.full(), rtol=1e-9)
    assert stream.truth_at(0).rank == stream.truth.rank


MEAN_AND_VARIANCE = {
    "gaussian": lambda m: (m, np.full_like(m, 0.2**2)),
    "poisson": lambda m: (m, m),
    "bernoulli_odds": lambda m: (m / (1 + m), m / (1 + m) ** 2),
}
LARGER = {
    "gaussian": lambda **o: gaussian_stream((40, 30), 50, rank=4, **o),
    "poisson": lambda **o: poisson_stream((40, 30), 50, rank=4, density=0.3, boost=10, **o),
    "bernoulli": lambda **o: bernoulli_stream((10, 11, 12), 50, rank=4, density=0.2, **o),
}


@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("make", LARGER.values(), ids=LARGER)
def test_data_have_the_mean_and_variance_of_their_truth(make, drift):
    # Residuals have mean 0 and variance 1 in any weighting that does not look at the data.
    stream = make(drift=drift)
    x = np.stack([s.to_dense() for s in stream], axis=-1)
    m = np.stack([stream.truth_at(t).full() for t in range(len(stream))], axis=-1)
    mean, variance = MEAN_AND_VARIANCE[stream.loss](m)
    total = (x - mean).sum() / np.sqrt(variance.sum())
    assert abs(total) < 4
    rows = (x - mean).reshape(len(x), -1).sum(1) / np.sqrt(variance.reshape(len(x), -1).sum(1))
    assert np.abs(rows).max() < 4.5
    along = ((x - mean) * m).sum() / np.sqrt((variance * m**2).sum())
    assert abs(along) < 4
    # The spread of (x - mean)^2 is large where cells are rare, so look at common ones.
    common = variance > np.quantile(variance, 0.5) * 0.99
    squares = (x - mean)[common] ** 2 / variance[common]
    assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(squares.size)


@pytest.mark.slow
def test_many_draws_of_one_truth_average_to_it():
    # Steady time columns of equal slices: pool slices of a long stream, cell by cell.
    stream = bernoulli_stream((3, 4), 1000, rank=2, density=0.4, boost=3)
    x = np.stack([s.to_dense() for s in stream], axis=-1)
    m = stream.truth.full()
    p = m / (1 + m)
    z = (x - p).sum(-1) / np.sqrt((p * (1 - p)).sum(-1))
    assert np.abs(z).max() < 4
    stream = poisson_stream((3, 4), 1000, rank=2, n_events=3e4)
    x = np.stack([s.to_dense() for s in stream], axis=-1)
    m = stream.truth.full()
    z = (x - m).sum(-1) / np.sqrt(m.sum(-1))
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("activity", ["steady", "bursty"])
@pytest.mark.parametrize("density", [0.005, 0.05, 0.3])
def test_density_is_what_was_asked_for(density, activity):
    for make in (poisson_stream, bernoulli_stream):
        stream = make((40, 50), 60, rank=5, density=density, activity=activity)
        wanted = density * 40 * 50 * 60
        found = sum(x.nnz for x in stream)
        assert abs(found - wanted) < 4 * np.sqrt(wanted) + 0.02 * wanted


@pytest.mark.slow
def test_the_problem_of_the_paper_has_577_thousand_nonzeros():
    stream = poisson_stream()
    x = stack(stream.slices)
    assert x.shape == (300, 300, 200)
    assert x.nnz == pytest.approx(577_000, rel=0.01)
    assert x.total == pytest.approx(stream.truth.weights.sum(), rel=0.01)
    np.testing.assert_allclose([a.sum(0) for a in stream.truth.factors], 1.0)


def test_default_bernoulli_stream_is_as_sparse_as_chicago():
    stream = bernoulli_stream()
    x = stack(stream.slices)
    assert x.shape == (24, 77, 32, 120)
    assert x.nnz / x.size == pytest.approx(0.016, rel=0.02)
    assert set(x.value.tolist()) == {1.0}


def test_gaussian_slices_are_dense_and_their_noise_is_as_asked():
    stream = gaussian_stream((50, 60), 20, rank=5, noise=0.3)
    noise = [x.array - stream.truth_at(t).full() for t, x in enumerate(stream)]
    assert np.std(noise) == pytest.approx(0.3, rel=0.02)
    assert all(a.min() > 0 and a.max() < 1 for a in stream.truth.factors)
    clean = gaussian_stream((5, 6), 2, rank=2, noise=0.0)
    np.testing.assert_allclose(clean.slices[1].array, clean.truth.full()[..., 1])


def test_events_of_a_poisson_stream_are_as_many_as_asked():
    stream = poisson_stream((20, 30), 10, rank=3, n_events=10_000)
    assert stream.truth.weights.sum() == pytest.approx(10_000)
    assert abs(sum(x.total for x in stream) - 10_000) < 4 * np.sqrt(10_000)


@pytest.mark.parametrize("base", ["gaussian", "poisson", "bernoulli"])
def test_half_of_the_components_drift_and_one_is_replaced_mid_stream(base):
    shape = (6, 7, 5) if base == "bernoulli" else (30, 20)
    stream = drift_stream(base, shape=shape, n_slices=21, rank=6)

    def directions(t):
        return stream.truth_at(t).normalize(sort=False).factors[0]

    start, before, after, end = (directions(t) for t in (0, 10, 11, 20))
    changed = np.linalg.norm(end - start, axis=0) > 1e-12
    jump = np.linalg.norm(after - before, axis=0)
    assert changed.sum() == 4
    step = np.linalg.norm(directions(1) - start, axis=0)
    jumped = changed & (step < 1e-12)
    assert jumped.sum() == 1
    assert jump[jumped] > 2 * jump[changed & ~jumped].max()
    # A straight line: the middle is half way.
    raw = [stream.truth_at(t).factors[0][:, changed & ~jumped] for t in (0, 10, 20)]
    np.testing.assert_allclose(raw[1], (raw[0] + raw[2]) / 2)


def test_drift_passes_options_on_and_refuses_unknown_bases():
    stream = drift_stream("poisson", shape=(5, 4), n_slices=3, rank=1, n_events=100)
    assert stream.truth.weights.sum() == pytest.approx(100)
    with pytest.raises(DataError, match="'binomial'"):
        drift_stream("binomial")
    with pytest.raises(TypeError, match="colour"):
        drift_stream("poisson", colour=3)


@pytest.mark.parametrize("base", ["gaussian", "poisson", "bernoulli"])
def test_outages_hide_cells_and_slices_but_not_the_truth(base):
    shape = (6, 7, 5) if base == "bernoulli" else (30, 20)
    stream = outage_stream(base, shape=shape, n_slices=60, rank=3, missing=0.2, gap=0.3, quiet=0.2)
    size = np.prod(shape)
    observed = np.array([x.n_observed for x in stream])
    assert abs((observed == 0).sum() - 18) < 4 * np.sqrt(60 * 0.3 * 0.7)
    seen = observed[observed > 0] / size
    assert abs(seen.mean() - 0.8) < 4 * np.sqrt(0.16 / (size * len(seen)))
    quiet = ~stream.truth.factors[-1].any(axis=1)
    assert 0 < quiet.sum() < 40
    for t in np.flatnonzero(quiet):
        assert stream.truth_at(t).norm() == 0
        values = stream.slices[t].value
        assert np.all(np.abs(values) < 1.5 if base == "gaussian" else values == 0)


def test_without_missing_cells_outages_keep_sparse_slices_sparse():
    stream = outage_stream(shape=(30, 20), n_slices=40, rank=3, missing=0.0)
    assert {x.unlisted for x in stream} == {"zero", "missing"}
    base = poisson_stream((30, 20), 40, rank=3)
    for t, x in enumerate(stream):
        if x.unlisted == "zero" and stream.truth.factors[-1][t].any():
            np.testing.assert_array_equal(x.to_dense(), base.slices[t].to_dense())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_stream((3, 0), 5, rank=2), r"shape\[1\].*0"),
        (lambda: gaussian_stream((), 5, rank=2), r"len\(shape\).*0"),
        (lambda: gaussian_stream((3, 2.5), 5, rank=2), r"shape\[1\].*2\.5"),
        (lambda: gaussian_stream((3,), 0, rank=2), "n_slices.*0"),
        (lambda: poisson_stream((3,), 5, rank=0), "rank.*0"),
        (lambda: gaussian_stream((3,), 5, noise=-1.0), r"noise.*-1\.0"),
        (lambda: gaussian_stream((3,), 5, noise=np.nan), "noise.*nan"),
        (lambda: poisson_stream((3,), 5, density=0.0), r"density.*0\.0"),
        (lambda: poisson_stream((3,), 5, density=1.5), r"density.*1\.5"),
        (lambda: poisson_stream((3,), 5, n_events=-3), "n_events.*-3"),
        (lambda: poisson_stream((3,), 5, boost=0.1), r"boost.*0\.1"),
        (lambda: bernoulli_stream((3,), 5, activity="wild"), "activity.*'wild'"),
        (lambda: bernoulli_stream((99, 99), 5, rank=9, density=0.999, boost=1e9), "density 0.999"),
        (lambda: outage_stream(missing=2.0), r"missing.*2\.0"),
        (lambda: load_flights(("dest", "colour")), "colour"),
        (lambda: load_flights(("dest", "dest")), "different"),
        (lambda: load_flights(()), "different"),
        (lambda: load_flights().truth_at(0), "truth of this one is not known"),
    ],
)
def test_bad_options_are_refused(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_flights_of_2013_are_all_there_day_by_day():
    flights = load_flights()
    assert flights.shape == (105, 16, 24)
    assert flights.loss == "poisson"
    assert sum(x.total for x in flights) == 336_776
    assert sum(x.nnz for x in flights) == 294_734
    first = datetime.date(2013, 1, 1)
    assert [x.time for x in flights] == [first + datetime.timedelta(t) for t in range(365)]
    assert min(x.total for x in flights) > 0


def test_flights_are_labelled():
    dest, carrier, hour = load_flights().labels
    assert (len(dest), len(carrier), len(hour)) == (105, 16, 24)
    assert dest == tuple(sorted(dest))
    assert {"ORD", "LAX"} <= set(dest)
    assert {"UA", "B6"} <= set(carrier)
    assert hour[5] == "05"


def test_labels_of_flights_name_the_right_cells():
    # Counted by another route: the table itself, filtered by name.
    polars = pytest.importorskip("polars")
    from importlib import resources

    path = resources.files("onlinegcp") / "data" / "flights2013.parquet"
    table = polars.read_parquet(path.read_bytes())
    flights = load_flights(("hour", "origin", "dest"))
    day = flights.slices[200]
    hour, origin, dest = flights.labels
    for cell, count in list(zip(day.index, day.value, strict=True))[::50]:
        rows = table.filter(
            polars.col("date") == day.time,
            polars.col("hour") == int(hour[cell[0]]),
            polars.col("origin") == origin[cell[1]],
            polars.col("dest") == dest[cell[2]],
        )
        assert len(rows) == count


def test_flights_by_origin_and_hour_have_the_published_number_of_nonzeros():
    flights = load_flights(("origin", "dest", "hour"))
    assert flights.shape == (3, 105, 24)
    assert sum(x.nnz for x in flights) == 283_976


def test_bundled_data_are_small_and_say_where_they_come_from():
    from importlib import resources

    folder = resources.files("onlinegcp") / "data"
    files = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}
    assert sum(map(len, files.values())) < 1_000_000
    assert b"CC0" in files["README.md"]
