"""KTensor: a low-rank tensor kept as weights and factor matrices, never multiplied out.

Entry (i_1, ..., i_d) of the tensor is sum_r weights[r] prod_k factors[k][i_k, r].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinegcp.errors import DataError
from onlinegcp.exchange import Exchange
from onlinegcp.notebook.components import ComponentTable, component_card, component_table
from onlinegcp.slices import as_slice

# Rows of the Khatri-Rao product built at once: 8192 rows of rank 50 stay in a 4 MB cache.
ROWS_AT_ONCE = 8192

FloatArray = NDArray[np.float64]
Labels = tuple[tuple[str, ...] | None, ...]


@dataclass(frozen=True)
class Match:
    """How well the components of one K-tensor match those of a reference.

    Parameters
    ----------
    score
        Mean of `components`: 1 for a perfect match, 0 for none.
    matching
        For each component of the reference, the component matched to it, or -1 for none.
    components
        For each component of the reference, its congruence with the one matched to it.
    """

    score: float
    matching: NDArray[np.intp]
    components: FloatArray

    def __float__(self) -> float:
        return self.score


@final
class KTensor(Exchange):
    """A tensor of low rank: one weight per component and one factor matrix per mode.

    The arrays are copied, converted to float64 and made read-only; every method returns a new
    object. A KTensor unpacks as ``weights, factors = model``, so that functions of TensorLy and
    tlviz take it as it is.

    Parameters
    ----------
    weights
        Vector of length R, or None for ones.
    factors
        One (I_k, R) matrix per mode, at least one.
    labels
        For each mode the names of its I_k rows, or None; None alone when no mode has names.
    mode_names
        What the modes are called; None if they are only numbered.

    Examples
    --------
    >>> model = KTensor([2.0], [[[1.0], [3.0]], [[1.0], [10.0]]], labels=[("cat", "dog"), None])
    >>> model.full()
    array([[ 2., 20.],
           [ 6., 60.]])
    >>> model.values([[1, 0]])
    array([6.])
    >>> model.normalize(norm=1).weights
    array([88.])
    """

    __slots__ = ("_factors", "_labels", "_mode_names", "_weights")

    def __init__(
        self,
        weights: ArrayLike | None,
        factors: Sequence[ArrayLike],
        labels: Sequence[Sequence[str] | None] | None = None,
        mode_names: Sequence[str] | None = None,
    ) -> None:
        matrices = tuple(_real(a, f"factors[{k}]", 2) for k, a in enumerate(factors))
        if not matrices:
            raise DataError(
                "a KTensor needs at least one factor matrix, but factors is empty. "
                "Give one (length, rank) matrix per mode."
            )
        rank = matrices[0].shape[1]
        if rank == 0:
            raise DataError(
                f"a KTensor needs rank 1 or more, but factors[0] has shape {matrices[0].shape}. "
                "Give matrices with one column per component."
            )
        for k, matrix in enumerate(matrices):
            if matrix.shape[1] != rank:
                raise DataError(
                    f"all factor matrices need as many columns as factors[0], {rank}, but "
                    f"factors[{k}] has {matrix.shape[1]}. Give (length, rank) matrices; "
                    "transpose those that are (rank, length)."
                )
        vector = np.ones(rank) if weights is None else _real(weights, "weights", 1)
        if len(vector) != rank:
            raise DataError(
                f"weights needs one number per component, {rank} as factors have columns, but "
                f"has {len(vector)}. Give {rank} weights, or None for ones."
            )
        for array in (vector, *matrices):
            array.flags.writeable = False
        self._weights = vector
        self._factors = matrices
        self._labels = _checked_labels(labels, self.shape)
        self._mode_names = _checked_names(mode_names, len(matrices))

    @property
    def weights(self) -> FloatArray:
        """Weight of each component, (R,), read-only."""
        return self._weights

    @property
    def factors(self) -> tuple[FloatArray, ...]:
        """Factor matrix of each mode, (I_k, R), read-only."""
        return self._factors

    @property
    def labels(self) -> Labels | None:
        """Row names of each mode, or None where a mode has none."""
        return self._labels

    @property
    def mode_names(self) -> tuple[str, ...] | None:
        """What the modes are called, None if they are only numbered."""
        return self._mode_names

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self._weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each mode."""
        return tuple(len(a) for a in self._factors)

    @property
    def ndim(self) -> int:
        """Number of modes."""
        return len(self._factors)

    def __iter__(self) -> Iterator[Any]:
        yield self._weights
        yield list(self._factors)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, position: int) -> Any:
        return (self._weights, list(self._factors))[position]

    def __repr__(self) -> str:
        return f"KTensor(shape={self.shape}, rank={self.rank})"

    def components(self, modes: Sequence[str] | None = None, *, top: int = 3) -> ComponentTable:
        """The components as a small table, strongest first, with the labels that weigh most.

        Parameters
        ----------
        modes
            Names of the modes; `mode_names` by default.
        top
            Labels per mode.
        """
        named = self._mode_names if modes is None else modes
        return component_table(self._weights, self._factors, self._labels, modes=named, top=top)

    def _repr_html_(self) -> str:
        facts = f"rank {self.rank}, shape {' x '.join(f'{n:,}' for n in self.shape)}"
        return component_card("KTensor", facts, self.components())

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that unpickled arrays are read-only too.
        return KTensor, (self._weights, self._factors, self._labels, self._mode_names)

    def values(self, index: ArrayLike) -> FloatArray:
        """Entries of the tensor at the rows of an (n, d) integer array."""
        return self._values(_checked_index(index, self.shape))

    def full(self) -> FloatArray:
        """The tensor multiplied out: an array of `shape`, which may be large."""
        rows = reduce(_khatri_rao, self._factors[:-1], self._weights[None, :])
        return (rows @ self._factors[-1].T).reshape(self.shape)

    def norm(self) -> float:
        """Square root of the sum of squared entries, from the Gram matrices of the factors."""
        # Rounding can leave a tiny negative number where components cancel.
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def inner(self, other: object) -> float:
        """Sum of products of entries with those of another tensor of the same shape.

        Parameters
        ----------
        other
            A KTensor, a Slice, or anything `as_slice` takes. Missing cells count as nothing.
        """
        if isinstance(other, KTensor):
            self._check_same_shape(other.shape)
            gram = np.outer(self._weights, other._weights)
            for a, b in zip(self._factors, other._factors, strict=True):
                gram *= a.T @ b
            return float(gram.sum())
        x = as_slice(other)
        self._check_same_shape(x.shape)
        if x.array is None:
            return float(self._values(x.index) @ x.value)
        # One mode at a time from the last, so that nothing larger than size / I_d x R is formed.
        rest = x.array.reshape(-1, self.shape[-1]) @ self._factors[-1]
        for a in reversed(self._factors[:-1]):
            rest = np.einsum("pir,ir->pr", rest.reshape(-1, *a.shape), a)
        return float(rest[0] @ self._weights)

    def normalize(
        self,
        *,
        norm: Literal[1, 2] = 2,
        sort: bool = True,
        fix_signs: bool = True,
        into: Literal["weights"] | int = "weights",
    ) -> KTensor:
        """The same tensor with factor columns of norm one.

        Parameters
        ----------
        norm
            1 for columns whose magnitudes sum to one, 2 for unit length. Zero columns stay zero
            and their component gets weight zero.
        sort
            Order components by decreasing magnitude of weight.
        fix_signs
            Make the entry of largest magnitude in each column positive; what remains of a
            component's sign is carried by its weight, which can so be negative.
        into
            Where the scale goes: "weights", or the number of a mode (-1 is the last), whose
            columns then carry it while all weights are one.
        """
        if norm not in (1, 2):
            raise DataError(f"norm needs to be 1 or 2, but is {norm!r}. Use norm=2 for length one.")
        if into != "weights" and (
            not isinstance(into, int | np.integer) or not -self.ndim <= into < self.ndim
        ):
            raise DataError(
                f'into needs to be "weights" or a mode number from {-self.ndim} to '
                f"{self.ndim - 1}, but is {into!r}. Use one of those."
            )
        weights, factors = self._weights.copy(), []
        for a in self._factors:
            unit, scale = _unit_columns(a, norm)
            if fix_signs and len(a):
                peak = unit[np.abs(unit).argmax(axis=0), np.arange(self.rank)]
                sign = np.where(peak < 0, -1.0, 1.0)
                unit, scale = unit * sign, scale * sign
            factors.append(unit)
            weights *= scale
        if sort:
            order = np.argsort(-np.abs(weights), kind="stable")
            weights, factors = weights[order], [a[:, order] for a in factors]
        if into != "weights":
            factors[into] = factors[into] * weights
            weights = np.ones(self.rank)
        return KTensor(weights, factors, self._labels, self._mode_names)

    def arrange(self, order: ArrayLike) -> KTensor:
        """The components `order[0]`, `order[1]`, ..., some of which may be left out."""
        chosen = np.asarray(order)
        if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
            raise DataError(
                f"arrange needs a list of component numbers, but got {order!r}. "
                f"Give integers from 0 to {self.rank - 1}."
            )
        if chosen.min() < 0 or chosen.max() >= self.rank or len(set(chosen.tolist())) < len(chosen):
            raise DataError(
                f"arrange needs different component numbers from 0 to {self.rank - 1}, but got "
                f"{chosen.tolist()}. Leave out what is repeated or out of range."
            )
        factors = [a[:, chosen] for a in self._factors]
        return KTensor(self._weights[chosen], factors, self._labels, self._mode_names)

    def permute(self, order: Sequence[int]) -> KTensor:
        """The tensor with its modes in another order, as `numpy.transpose` of `full()`."""
        if sorted(order) != list(range(self.ndim)):
            raise DataError(
                f"permute needs each mode number from 0 to {self.ndim - 1} once, but got "
                f"{list(order)}. Give the modes in the order wanted."
            )
        labels = None if self._labels is None else [self._labels[k] for k in order]
        names = None if self._mode_names is None else [self._mode_names[k] for k in order]
        return KTensor(self._weights, [self._factors[k] for k in order], labels, names)

    def isclose(self, other: KTensor, *, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
        """Whether weights, factors and names agree; `normalize` both first to compare tensors."""
        return (
            self.shape == other.shape
            and self.rank == other.rank
            and self._labels == other._labels
            and self._mode_names == other._mode_names
            and all(
                np.allclose(a, b, rtol=rtol, atol=atol)
                for a, b in zip(
                    (self._weights, *self._factors), (other._weights, *other._factors), strict=True
                )
            )
        )

    def score(
        self, reference: KTensor, *, weight_penalty: bool = True, greedy: bool = False
    ) -> Match:
        """How well the components agree with those of a reference: 1 is perfect.

        The congruence of two components is the product over modes of the magnitudes of the
        cosines of their columns, times ``1 - |p - q| / max(p, q)`` of their norms p and q.
        Components are matched one to one so that the sum is largest (Hungarian method) and the
        sum is divided by the rank of the reference: extra components here cost nothing, missing
        ones count as 0.

        Parameters
        ----------
        reference
            K-tensor of the same shape; its rank may differ.
        weight_penalty
            Whether the norms matter, as above.
        greedy
            Match the best pair, then the best of the rest, as pyttb does.
        """
        self._check_same_shape(reference.shape)
        ours = self.normalize(sort=False, fix_signs=False)
        theirs = reference.normalize(sort=False, fix_signs=False)
        congruence = np.ones((self.rank, reference.rank))
        for a, b in zip(ours._factors, theirs._factors, strict=True):
            congruence *= np.abs(a.T @ b)
        if weight_penalty:
            p, q = np.abs(ours._weights)[:, None], np.abs(theirs._weights)[None, :]
            largest = np.maximum(p, q)
            congruence *= 1 - np.abs(p - q) / np.where(largest > 0, largest, 1.0)
        rows, columns = _greedy_pairs(congruence) if greedy else _best_pairs(congruence)
        matching = np.full(reference.rank, -1, dtype=np.intp)
        matching[columns] = rows
        components = np.zeros(reference.rank)
        components[columns] = congruence[rows, columns]
        return Match(float(components.mean()), matching, components)

    def _values(self, index: NDArray[np.integer[Any]]) -> FloatArray:
        values = np.empty(len(index))
        for start in range(0, len(index), ROWS_AT_ONCE):
            part = index[start : start + ROWS_AT_ONCE]
            rows = self._factors[0][part[:, 0]]
            for k in range(1, self.ndim):
                rows *= self._factors[k][part[:, k]]
            values[start : start + len(part)] = rows @ self._weights
        return values

    def _check_same_shape(self, shape: tuple[int, ...]) -> None:
        if shape != self.shape:
            raise DataError(
                f"two tensors of one shape are needed, but this one has {self.shape} and the "
                f"other {shape}. Use permute if only the order of modes differs."
            )


def _real(given: ArrayLike, name: str, ndim: int) -> FloatArray:
    """A float64 copy, after checks that a conversion would hide."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as problem:
        raise DataError(
            f"{name} needs to be an array, but NumPy cannot make one of it ({problem}). "
            "Give rows of equal length."
        ) from problem
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{name} needs real numbers, but has dtype {array.dtype}. Convert it to float first."
        )
    if array.ndim != ndim:
        wanted = "a (length, rank) matrix" if ndim == 2 else "a vector with one number a component"
        raise DataError(
            f"{name} needs to be {wanted}, but has shape {array.shape}. Reshape it to {ndim} axes."
        )
    array = np.array(array, dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise DataError(
            f"{name} needs finite numbers, but entry {place} is {array[place]}. Replace it, or "
            "find where the fit went wrong."
        )
    return array


def _checked_labels(
    labels: Sequence[Sequence[str] | None] | None, shape: tuple[int, ...]
) -> Labels | None:
    if labels is None:
        return None
    if len(labels) != len(shape):
        raise DataError(
            f"labels needs one entry per mode, {len(shape)}, but has {len(labels)}. "
            "Use None for a mode without names."
        )
    checked = tuple(None if names is None else tuple(names) for names in labels)
    for k, names in enumerate(checked):
        if names is None:
            continue
        if len(names) != shape[k]:
            raise DataError(
                f"labels[{k}] needs one name per row, {shape[k]}, but has {len(names)}. "
                "Give all of them, or None."
            )
        for i, name in enumerate(names):
            if not isinstance(name, str):
                raise DataError(
                    f"labels need to be strings, but labels[{k}][{i}] is {name!r}. Use str() on it."
                )
    # All None is the same as no labels: one way to say it, so that isclose compares them.
    return checked if any(names is not None for names in checked) else None


def _checked_names(names: Sequence[str] | None, ndim: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    found = () if isinstance(names, str) else tuple(names)
    texts = all(isinstance(name, str) for name in found)
    if len(found) != ndim or len(set(found)) < ndim or not texts:
        raise DataError(
            f"mode_names needs {ndim} different names, one per mode, but is {names!r}. Give all of "
            "them, or None."
        )
    return found


def _checked_index(index: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.integer[Any]]:
    array = np.asarray(index)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != len(shape):
        raise DataError(
            f"index needs to be an (n, {len(shape)}) array of integers, but has shape "
            f"{array.shape} and dtype {array.dtype}. Give one row per entry wanted."
        )
    outside = np.argwhere((array < 0) | (array >= np.asarray(shape)))
    if len(outside):
        row, k = outside[0]
        raise DataError(
            f"index needs to lie inside shape {shape}, but row {row} has {array[row, k]} in mode "
            f"{k}. Indices start at 0 and do not count from the end."
        )
    return array


def _khatri_rao(rows: FloatArray, factor: FloatArray) -> FloatArray:
    return (rows[:, None, :] * factor[None, :, :]).reshape(-1, factor.shape[1])


def _unit_columns(factor: FloatArray, norm: int) -> tuple[FloatArray, FloatArray]:
    # Dividing by the peak first: squares of entries below 1e-162 would underflow to zero.
    peak = np.abs(factor).max(axis=0, initial=0.0)
    unit = factor / np.where(peak > 0, peak, 1.0)
    length = np.linalg.norm(unit, ord=norm, axis=0)
    return unit / np.where(length > 0, length, 1.0), peak * length


def _best_pairs(congruence: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(congruence, maximize=True)
    return rows, columns


def _greedy_pairs(congruence: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    left, pairs = congruence.copy(), []
    for _ in range(min(left.shape)):
        row, column = np.unravel_index(left.argmax(), left.shape)
        pairs.append((row, column))
        left[row, :] = left[:, column] = -1.0
    rows, columns = np.array(pairs, dtype=np.intp).T
    return rows, columns
