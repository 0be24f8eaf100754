"""Seeded inputs of the benchmarks.

The five cases of `sgd_iteration` are those of kernels.md: A and E have the size of the paper's
synthetic slices, B of a day of taxi rides, C of a day of Chicago crimes, D fits into no cache.
Static problems are saved as npz files, from which rivals read the same data and the same start.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

BUILD = Path(__file__).parent / "build"


@dataclass(frozen=True)
class Case:
    """One streaming factor solve: a slice, a model, a folded history and the sample counts."""

    name: str
    loss: str
    index: np.ndarray | None  # (listed, d) int32; None: the slice is dense and `value` its array
    value: np.ndarray
    shape: tuple[int, ...]
    draws: int  # listed cells per iteration; at least the number of listed cells means all of them
    zeros: int  # unlisted zeros per iteration
    factors: tuple[np.ndarray, ...]
    old_factors: tuple[np.ndarray, ...]
    weights: np.ndarray  # (R,) time row of the slice
    history: np.ndarray  # (R, R) sum of w_h s_h s_h' over the window
    lower: float
    iterations: int  # per timed call
    target: float  # largest allowed ratio of our time to the twin's

    @property
    def rank(self) -> int:
        return len(self.weights)


def sgd_case(name: str) -> Case:
    """Case A, B, C, D or E."""
    rng = np.random.default_rng(ord(name))
    # name: loss, shape, listed, draws, zeros, rank, iterations, target
    table = {
        "A": ("poisson", (300, 300), 2_900, 2_900, 10_000, 20, 200, 1.7),
        "B": ("poisson", (263, 263, 24), 63_000, 10_000, 10_000, 50, 40, 1.3),
        "C": ("bernoulli_odds", (24, 77, 32), 950, 950, 1_000, 50, 200, 1.3),
        "D": ("poisson", (100_000, 100_000, 1_000), 5_000_000, 100_000, 100_000, 64, 2, 1.4),
        "E": ("gaussian", (300, 300), 90_000, 10_000, 0, 20, 200, 1.4),
    }
    loss, shape, listed, draws, zeros, rank, iterations, target = table[name]
    nonnegative = loss != "gaussian"
    truth = _unit_factors(rng, shape, rank, nonnegative)
    if nonnegative:
        index, value = _cells(rng, shape, listed)
        if loss == "poisson":
            value = 1.0 + rng.poisson(0.6, listed)
        total = value.sum()
        norms = [np.abs(a).sum(axis=0) for a in truth]
        weights = total / rank / np.prod(norms, axis=0) * rng.uniform(0.5, 1.5, rank)
    else:
        weights = rng.uniform(0.5, 1.5, rank) * np.sqrt(np.prod(shape))
        clean = np.einsum("r,ir,jr->ij", weights, *truth)
        index, value = None, clean + 0.2 * rng.standard_normal(shape)
    past = weights * rng.uniform(0.5, 1.5, (50, rank))
    return Case(
        name,
        loss,
        index,
        value,
        shape,
        draws,
        zeros,
        tuple(_near(rng, a) for a in truth),
        truth,
        weights,
        past.T @ past,
        0.0 if nonnegative else -np.inf,
        iterations,
        target,
    )


def _unit_factors(
    rng: np.random.Generator, shape: tuple[int, ...], rank: int, nonnegative: bool
) -> tuple[np.ndarray, ...]:
    draw = rng.random if nonnegative else rng.standard_normal
    factors = (np.ascontiguousarray(draw((n, rank))) for n in shape)
    return tuple(a / np.linalg.norm(a, axis=0) for a in factors)


def _near(rng: np.random.Generator, factor: np.ndarray) -> np.ndarray:
    return factor * rng.uniform(0.8, 1.2, factor.shape)


def _cells(
    rng: np.random.Generator, shape: tuple[int, ...], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """`count` distinct cells in C order, all of value one."""
    size = int(np.prod(shape, dtype=np.int64))
    cells = np.unique(rng.integers(size, size=count + count // 8 + 16))
    while len(cells) < count:
        cells = np.union1d(cells, rng.integers(size, size=count))
    cells = np.sort(rng.permutation(cells)[:count])
    index = np.stack(np.unravel_index(cells, shape), axis=1).astype(np.int32)
    return np.ascontiguousarray(index), np.ones(count)


@dataclass(frozen=True)
class StaticProblem:
    """A sparse count tensor and the factors every solver starts from."""

    path: Path
    index: np.ndarray
    value: np.ndarray
    shape: tuple[int, ...]
    start: tuple[np.ndarray, ...]

    @property
    def rank(self) -> int:
        return int(self.start[0].shape[1])


def poisson_tensor(
    name: str, shape: tuple[int, ...], n_slices: int, rank: int, density: float
) -> StaticProblem:
    """Chi and Kolda's Poisson tensor, saved for the rivals.

    The start is random, with the data's total, and its columns have one length in all modes: the
    rivals would rescale them to that anyway.
    """
    from onlinegcp.problems import poisson_stream
    from onlinegcp.slices import stack

    x = stack(poisson_stream(shape, n_slices, rank=rank, density=density, seed=1).slices)
    rng = np.random.default_rng(2)
    start = [rng.random((n, rank)) + 0.1 for n in x.shape]
    start = [a / np.linalg.norm(a, axis=0) for a in start]
    share = x.total / rank / np.prod([a.sum(axis=0) for a in start], axis=0)
    start = [np.ascontiguousarray(a * share ** (1 / len(start))) for a in start]
    BUILD.mkdir(exist_ok=True)
    path = BUILD / f"{name}.npz"
    named = {f"start{k}": a for k, a in enumerate(start)}
    np.savez(path, index=x.index, value=x.value, shape=np.array(x.shape), **named)
    return StaticProblem(path, x.index, x.value, x.shape, tuple(start))


def paper_tensor() -> StaticProblem:
    """The paper's synthetic Poisson tensor: 300 x 300 x 200, rank 20, 577 thousand nonzeros."""
    return poisson_tensor("poisson", (300, 300), 200, 20, 577_000 / 18_000_000)


def small_tensor() -> StaticProblem:
    """60 x 50 x 40, rank 5, 12 thousand nonzeros: small enough for pyttb's CP-APR."""
    return poisson_tensor("poisson-small", (60, 50), 40, 5, 0.1)
