"""Streams to try methods on: synthetic ones with known truth, and a year of flights.

Every synthetic stream is drawn exactly from its own likelihood: independent cells whose
parameter is the entry of the true K-tensor. One integer seed fixes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onlinegcp.checks import check_whole
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.notebook.streams import StreamCard
from onlinegcp.slices import Slice

FloatArray = NDArray[np.float64]
Activity = Literal["steady", "bursty"]
Base = Literal["gaussian", "poisson", "bernoulli"]

# Cells looked at to choose the scale that gives a wanted density: 0.2 % accuracy or better.
CALIBRATION_EVENTS = 50_000


@dataclass(frozen=True, repr=False)
class Stream(StreamCard):
    """Slices in time order and what is known about where they come from.

    Parameters
    ----------
    slices
        The data, one slice per step of time.
    loss
        Name of the loss that is the likelihood of the data.
    truth
        The K-tensor that made them, time as last mode; None for real data. Where the truth
        drifts, this one has the factors of the last slice.
    labels, mode_names
        Names of the rows of each mode of a slice, and of the modes; None if they have none.
    moments
        The truth of each slice where it drifts; None where it does not.
    """

    slices: list[Slice]
    loss: str
    truth: KTensor | None = None
    labels: tuple[tuple[str, ...], ...] | None = None
    moments: tuple[KTensor, ...] | None = None
    mode_names: tuple[str, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of each slice."""
        return self.slices[0].shape

    def __iter__(self) -> Iterator[Slice]:
        return iter(self.slices)

    def truth_at(self, t: int) -> KTensor:
        """The K-tensor slice `t` was drawn from: its true weights and factors."""
        if self.moments is not None:
            return self.moments[t]
        if self.truth is None:
            raise DataError(
                "a synthetic stream was needed, but the truth of this one is not known. "
                "Use one of the streams made by onlinegcp.problems."
            )
        *factors, activity = self.truth.factors
        return KTensor(self.truth.weights * activity[t], factors)


def gaussian_stream(
    shape: Sequence[int] = (300, 300),
    n_slices: int = 200,
    *,
    rank: int = 20,
    noise: float = 0.2,
    drift: bool = False,
    seed: int = 0,
) -> Stream:
    """Dense slices: factors uniform on (0, 1) plus normal noise (section 6 of the paper).

    Parameters
    ----------
    shape, n_slices, rank
        Shape of each slice, number of slices, number of components.
    noise
        Standard deviation of the noise in each cell.
    drift
        Let components change during the stream, see `drift_stream`.
    seed
        Fixes factors and noise.

    Examples
    --------
    >>> stream = gaussian_stream((4, 3), n_slices=5, rank=2)
    >>> len(stream), stream.shape, stream.truth
    (5, (4, 3), KTensor(shape=(4, 3, 5), rank=2))
    """
    _check_sizes(shape, n_slices, rank)
    if not 0 <= noise < np.inf:
        raise DataError(
            f"noise needs to be a finite number from 0, but is {noise!r}. "
            "It is the standard deviation in each cell; the paper uses 0.2."
        )
    rng = np.random.default_rng(seed)
    factors = [rng.random((size, rank)) for size in shape]
    activity = rng.random((n_slices, rank))
    later = [rng.random((size, rank)) for size in shape] if drift else None
    moments = _moments(rng, factors, later, activity)
    slices = []
    for t, model in enumerate(moments):
        array = model.full()
        array += noise * rng.standard_normal(array.shape)
        slices.append(Slice.dense(array, time=t))
    truth = KTensor(None, [*moments[-1].factors, activity])
    return Stream(slices, "gaussian", truth, moments=tuple(moments) if drift else None)


def poisson_stream(
    shape: Sequence[int] = (300, 300),
    n_slices: int = 200,
    *,
    rank: int = 20,
    density: float = 0.032,
    n_events: float | None = None,
    boost: float = 100.0,
    activity: Activity = "steady",
    drift: bool = False,
    seed: int = 0,
) -> Stream:
    """Sparse counts by the procedure of Chi and Kolda (2012).

    Factor columns are uniform on (0, 1), one entry in `rank` is boosted, and columns sum to one.
    Each event falls into a component by its weight and into a cell by the columns of that
    component; a count is the number of events in its cell. The number of events is Poisson too,
    so that cells are independent Poisson variables whose means are the entries of the truth.

    Parameters
    ----------
    shape, n_slices, rank
        Shape of each slice, number of slices, number of components.
    density
        Share of cells of the whole stream that are not zero, reached within about 1 %.
    n_events
        Expected number of events; takes the place of `density`.
    boost
        Factor by which the boosted entries are larger.
    activity
        "steady": time columns uniform on (0, 1); "bursty": boosted as the other columns are.
    drift
        Let components change during the stream, see `drift_stream`.
    seed
        Fixes truth and events.

    Examples
    --------
    >>> stream = poisson_stream((20, 30), n_slices=10, rank=3, n_events=500)
    >>> stream.loss, round(stream.truth.weights.sum())
    ('poisson', 500)
    """
    rng, moments, time = _sparse_moments(shape, n_slices, rank, boost, activity, drift, seed)
    scale = n_events
    if scale is None:
        # A cell with mean x is nonzero with probability 1 - exp(-x).
        scale = _scale_for_density(rng, moments, density, lambda x: -np.expm1(-x) / x)
    elif not 0 < scale < np.inf:
        raise DataError(
            f"n_events needs to be a positive number, but is {n_events!r}. "
            "Give the number of events expected in the whole stream."
        )
    moments = [_scaled(model, scale) for model in moments]
    events = [_events(rng, model) for model in moments]
    slices = [Slice(e, np.ones(len(e)), tuple(shape), time=t) for t, e in enumerate(events)]
    truth = KTensor(None, [*moments[-1].factors, time * scale]).normalize(norm=1, sort=False)
    return Stream(slices, "poisson", truth, moments=tuple(moments) if drift else None)


def bernoulli_stream(
    shape: Sequence[int] = (24, 77, 32),
    n_slices: int = 120,
    *,
    rank: int = 10,
    density: float = 0.016,
    boost: float = 30.0,
    activity: Activity = "steady",
    drift: bool = False,
    seed: int = 0,
) -> Stream:
    """Sparse zeros and ones whose odds are the entries of a K-tensor.

    The truth is made as in `poisson_stream`, and a cell with odds m is 1 with probability
    m / (1 + m). The default has the size of a day of the Chicago crime data.

    Parameters
    ----------
    shape, n_slices, rank, boost, activity, drift, seed
        As in `poisson_stream`.
    density
        Share of cells of the whole stream that are one, reached within about 1 %.

    Examples
    --------
    >>> stream = bernoulli_stream((5, 6, 7), n_slices=10, rank=2, density=0.1)
    >>> stream.loss, set(stream.slices[0].value.tolist())
    ('bernoulli_odds', {1.0})
    """
    rng, moments, time = _sparse_moments(shape, n_slices, rank, boost, activity, drift, seed)
    scale = _scale_for_density(rng, moments, density, lambda x: 1 / (1 + x))
    moments = [_scaled(model, scale) for model in moments]
    slices = []
    for t, model in enumerate(moments):
        # Poisson events of rate log(1 + m) leave a cell empty with probability 1 / (1 + m). As
        # log(1 + m) <= m they are a thinned set of events of rate m, so no zero is ever visited.
        index = _events(rng, model)
        odds = model.values(index)
        kept = np.unique(index[rng.random(len(index)) * odds < np.log1p(odds)], axis=0)
        slices.append(Slice(kept, np.ones(len(kept)), model.shape, time=t))
    truth = KTensor(None, [*moments[-1].factors, time * scale]).normalize(norm=1, sort=False)
    return Stream(slices, "bernoulli_odds", truth, moments=tuple(moments) if drift else None)


def drift_stream(
    base: Base = "poisson",
    *,
    shape: Sequence[int] | None = None,
    n_slices: int = 200,
    rank: int = 10,
    seed: int = 0,
    **options: Any,
) -> Stream:
    """A stream whose patterns change: some components slowly, one at once, the rest not.

    Half of the components, chosen at random, go in a straight line to new columns from the first
    slice to the last; one more gets new columns all at once in the middle. `truth_at` gives the
    truth of each slice.

    Parameters
    ----------
    base
        "gaussian", "poisson" or "bernoulli".
    shape
        Shape of each slice; (100, 100), or (24, 77, 32) for "bernoulli", if not given.
    n_slices, rank, seed
        As in the base stream.
    options
        Further options of the base stream.

    Examples
    --------
    >>> stream = drift_stream("gaussian", shape=(4, 3), n_slices=5, rank=2)
    >>> bool(stream.truth_at(0).score(stream.truth_at(4)).score < 1)
    True
    """
    return _make(base, shape, n_slices=n_slices, rank=rank, drift=True, seed=seed, **options)


def outage_stream(
    base: Base = "poisson",
    *,
    shape: Sequence[int] | None = None,
    n_slices: int = 100,
    rank: int = 10,
    missing: float = 0.1,
    gap: float = 0.05,
    quiet: float = 0.05,
    seed: int = 0,
    **options: Any,
) -> Stream:
    """A stream with missing cells, slices never observed and slices in which nothing happens.

    Parameters
    ----------
    base, shape, n_slices, rank, seed, options
        As in `drift_stream`.
    missing
        Share of cells, at random, that are missing in each slice; if above 0, slices list every
        observed cell.
    gap
        Probability that a slice is missing altogether.
    quiet
        Probability that a slice is observed while the true weights are zero: no events, or
        nothing but noise.

    Examples
    --------
    >>> stream = outage_stream(shape=(4, 3), n_slices=5, rank=2, gap=1.0, n_events=50)
    >>> [x.n_observed for x in stream]
    [0, 0, 0, 0, 0]
    """
    for name, share in (("missing", missing), ("gap", gap), ("quiet", quiet)):
        if not 0 <= share <= 1:
            raise DataError(f"{name} needs to be from 0 to 1, but is {share!r}. Give a share.")
    stream = _make(base, shape, n_slices=n_slices, rank=rank, seed=seed, **options)
    assert stream.truth is not None
    # A seed of its own, so that the data underneath are those of the base stream.
    rng = np.random.default_rng([seed, 1])
    still = rng.random(n_slices) < quiet
    slices = []
    nothing = np.empty((0, len(stream.shape)), np.int32), np.empty(0), stream.shape
    for t, x in enumerate(stream):
        if still[t] and x.array is not None:
            x = Slice.dense(x.array - stream.truth_at(t).full(), time=t)
        elif still[t]:
            x = Slice(*nothing, time=t)
        if rng.random() < gap:
            x = Slice(*nothing, time=t, unlisted="missing")
        elif missing > 0:
            array = x.to_dense().copy()
            array[rng.random(x.shape) < missing] = np.nan
            x = Slice.dense(array, time=t)
        slices.append(x)
    *factors, activity = stream.truth.factors
    truth = KTensor(stream.truth.weights, [*factors, activity * ~still[:, None]])
    return replace(stream, slices=slices, truth=truth)


def load_flights(modes: Sequence[str] = ("dest", "carrier", "hour")) -> Stream:
    """Flights leaving New York in 2013: one labelled slice of counts per day, 365 in all.

    336,776 flights from 3 airports (origin) to 105 (dest) by 16 carriers, by scheduled hour of
    departure (24). The data come with the package; `onlinegcp/data/README.md` names their source.

    Parameters
    ----------
    modes
        Some of "origin", "dest", "carrier" and "hour", in the order wanted.

    Examples
    --------
    >>> flights = load_flights()
    >>> flights.shape, len(flights), flights.slices[0].time.isoformat()
    ((105, 16, 24), 365, '2013-01-01')
    """
    import polars

    known = ("origin", "dest", "carrier", "hour")
    if not modes or len(set(modes)) < len(modes) or not set(modes) <= set(known):
        raise DataError(
            f"modes needs to be different names out of {known}, but is {modes!r}. "
            'Use for example ("origin", "dest", "hour").'
        )
    with resources.files("onlinegcp").joinpath("data/flights2013.parquet").open("rb") as file:
        table = polars.read_parquet(file)
    # All hours are named, also those of the night without flights.
    names = {mode: tuple(table[mode].unique().sort()) for mode in modes}
    names["hour"] = tuple(f"{hour:02}" for hour in range(24))
    labels = tuple(names[mode] for mode in modes)
    codes = [
        table[mode] if mode == "hour" else table[mode].cast(polars.Enum(names[mode])).to_physical()
        for mode in modes
    ]
    index = np.stack([code.to_numpy() for code in codes], axis=1).astype(np.int32)
    shape = tuple(map(len, labels))
    # The table is in order of date, so a day is a run of rows.
    days = table["date"].rle().struct.unnest()
    ends = np.cumsum(days["len"].to_numpy())
    slices = [
        Slice(index[end - n : end], np.ones(n), shape, time=day)
        for day, n, end in zip(days["value"], days["len"], ends, strict=True)
    ]
    return Stream(slices, "poisson", labels=labels, mode_names=tuple(modes))


def _make(base: str, shape: Sequence[int] | None, **options: Any) -> Stream:
    makers: dict[str, Callable[..., Stream]]
    makers = {"gaussian": gaussian_stream, "poisson": poisson_stream, "bernoulli": bernoulli_stream}
    if base not in makers:
        raise DataError(
            f"base needs to be one of {list(makers)}, but is {base!r}. Use one of them."
        )
    if shape is None:
        shape = (24, 77, 32) if base == "bernoulli" else (100, 100)
    return makers[base](shape, **options)


def _check_sizes(shape: Sequence[int], n_slices: int, rank: int) -> None:
    sizes = {"len(shape)": len(shape), "n_slices": n_slices, "rank": rank}
    sizes |= {f"shape[{k}]": size for k, size in enumerate(shape)}
    for name, size in sizes.items():
        check_whole(name, size, 1)


def _sparse_moments(
    shape: Sequence[int],
    n_slices: int,
    rank: int,
    boost: float,
    activity: Activity,
    drift: bool,
    seed: int,
) -> tuple[np.random.Generator, list[KTensor], FloatArray]:
    """The truth of each slice, of total one over the stream, and its (n_slices, R) weights."""
    _check_sizes(shape, n_slices, rank)
    if not 1 <= boost < np.inf:
        raise DataError(f"boost needs to be a number from 1, but is {boost!r}. Try 100.")
    if activity not in ("steady", "bursty"):
        raise DataError(f'activity needs to be "steady" or "bursty", but is {activity!r}. Use one.')
    rng = np.random.default_rng(seed)
    factors = [_boosted(rng, size, rank, boost) for size in shape]
    time = _boosted(rng, n_slices, rank, boost if activity == "bursty" else 1.0)
    share = rng.random(rank)
    time *= share / share.sum()
    later = [_boosted(rng, size, rank, boost) for size in shape] if drift else None
    return rng, _moments(rng, factors, later, time), time


def _boosted(rng: np.random.Generator, size: int, rank: int, boost: float) -> FloatArray:
    columns = rng.random((size, rank))
    for r in range(rank):
        columns[rng.permutation(size)[: max(1, round(size / rank))], r] *= boost
    columns /= columns.sum(axis=0)
    return columns


def _moments(
    rng: np.random.Generator,
    factors: list[FloatArray],
    later: list[FloatArray] | None,
    time: FloatArray,
) -> list[KTensor]:
    """The truth of each slice: constant factors, or on their way to `later` ones."""
    n_slices, rank = time.shape
    order = rng.permutation(rank)
    moments = []
    for t in range(n_slices):
        now = factors
        if later is not None:
            moved = np.zeros(rank)
            moved[order[: rank // 2]] = t / max(n_slices - 1, 1)
            moved[order[rank // 2]] = 2 * t >= n_slices
            now = [(1 - moved) * a + moved * b for a, b in zip(factors, later, strict=True)]
        moments.append(KTensor(time[t], now))
    return moments


def _scaled(model: KTensor, scale: float) -> KTensor:
    return KTensor(model.weights * scale, model.factors)


def _events(rng: np.random.Generator, model: KTensor) -> NDArray[np.int32]:
    """Cells of a Poisson number of events with rate `model`, whose columns sum to one."""
    numbers = rng.poisson(model.weights)
    index = np.empty((numbers.sum(), model.ndim), dtype=np.int32)
    ends = np.cumsum(numbers)
    for k, factor in enumerate(model.factors):
        cumulative = np.cumsum(factor, axis=0)
        for r, (n, end) in enumerate(zip(numbers, ends, strict=True)):
            # The last sum may round to below one; the search must not run past the end.
            place = rng.random(n) * cumulative[-1, r]
            index[end - n : end, k] = np.searchsorted(cumulative[:-1, r], place, side="right")
    return index


def _scale_for_density(
    rng: np.random.Generator,
    moments: list[KTensor],
    density: float,
    thinning: Callable[[FloatArray], FloatArray],
) -> float:
    """The factor on `moments` (total one) for which a share `density` of cells is nonzero.

    The expected number of nonzeros at scale c is the sum over cells of c m thinning(c m), which
    is c times the mean of thinning(c m) over events drawn by m: few cells tell it well.
    """
    from scipy.optimize import brentq

    if not 0 < density < 1:
        raise DataError(
            f"density needs to lie between 0 and 1, but is {density!r}. "
            "Give the share of cells that are not zero, for example 0.03."
        )
    events = (_events(rng, _scaled(model, CALIBRATION_EVENTS)) for model in moments)
    m = np.concatenate([model.values(e) for model, e in zip(moments, events, strict=True)])
    wanted = density * len(moments) * float(np.prod(moments[0].shape, dtype=np.float64))

    def excess(log_scale: float) -> float:
        scale = np.exp(log_scale)
        return float(scale * thinning(scale * m).mean() - wanted)

    # thinning <= 1, so that at least `wanted` events are needed.
    low = np.log(wanted)
    high = low + np.log(1e8)
    if excess(high) < 0:
        raise DataError(
            f"density {density!r} cannot be reached by these factors, whose boosted cells take "
            "nearly all events. Lower density or boost."
        )
    return float(np.exp(brentq(excess, low, high, xtol=1e-12)))
