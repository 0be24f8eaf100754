"""Exchange: how a K-tensor travels, as a file and to and from other packages.

KTensor inherits these methods; here only weights, factors and labels are known.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinegcp.errors import DataError, StateError
from onlinegcp.storage.archive import read_archive, write_archive

_KIND = "ktensor"

FloatArray = NDArray[np.float64]


class Exchange(ABC):
    """Conversions of a K-tensor given its weights, factors and labels."""

    __slots__ = ()

    @abstractmethod
    def __init__(
        self,
        weights: ArrayLike | None,
        factors: Sequence[ArrayLike],
        labels: Sequence[Sequence[str] | None] | None = None,
        mode_names: Sequence[str] | None = None,
    ) -> None: ...

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """Weight of each component, (R,)."""

    @property
    @abstractmethod
    def factors(self) -> tuple[FloatArray, ...]:
        """Factor matrix of each mode, (I_k, R)."""

    @property
    @abstractmethod
    def labels(self) -> tuple[tuple[str, ...] | None, ...] | None:
        """Row names of each mode."""

    @property
    @abstractmethod
    def mode_names(self) -> tuple[str, ...] | None:
        """What the modes are called."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file (npz without pickle); an older file is replaced in one step."""
        arrays = {f"factor_{k}": a for k, a in enumerate(self.factors)}
        record: dict[str, Any] = {"n_modes": len(self.factors), "labels": self.labels}
        if self.mode_names is not None:
            record["mode_names"] = self.mode_names
        write_archive(path, _KIND, {"weights": self.weights, **arrays}, record)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file written by `save`."""
        try:
            arrays, record = read_archive(path, _KIND)
            factors = [arrays[f"factor_{k}"] for k in range(record["n_modes"])]
            return cls(arrays["weights"], factors, record["labels"], record.get("mode_names"))
        except StateError:
            raise
        except Exception as problem:  # which of a dozen it is depends on the damaged byte
            raise StateError(
                f"a file written by KTensor.save was needed, but {os.fspath(path)!r} contradicts "
                f"itself ({problem}). It is damaged: save it again, or use an earlier copy."
            ) from problem

    def to_tensorly(self, *, labelled: bool = False) -> Any:
        """A TensorLy CPTensor, or the labelled form of tlviz.

        Parameters
        ----------
        labelled
            Return ``(weights, [pandas.DataFrame, ...])`` with row names, as tlviz draws them.
        """
        if labelled:
            import pandas  # type: ignore[import-untyped]

            labels = self.labels or (None,) * len(self.factors)
            frames = [
                pandas.DataFrame(a.copy(), index=None if names is None else list(names))
                for a, names in zip(self.factors, labels, strict=True)
            ]
            return self.weights.copy(), frames
        import tensorly

        factors = [tensorly.tensor(a.copy()) for a in self.factors]
        return tensorly.cp_tensor.CPTensor((tensorly.tensor(self.weights.copy()), factors))

    @classmethod
    def from_tensorly(cls, other: Any) -> Self:
        """From a CPTensor or any ``(weights, factors)``, with row names from DataFrame factors."""
        weights, factors = other
        labels = [
            # pandas numbers the rows of a frame without names by a RangeIndex.
            [str(name) for name in a.index]
            if hasattr(a, "columns") and type(a.index).__name__ != "RangeIndex"
            else None
            for a in factors
        ]
        arrays = [a.detach().cpu() if hasattr(a, "detach") else a for a in (weights, *factors)]
        return cls(arrays[0], arrays[1:], labels)

    def to_pyttb(self) -> Any:
        """A pyttb ktensor."""
        import pyttb

        # pyttb wants Fortran order and warns when it must copy to get it.
        factors = [np.array(a, order="F") for a in self.factors]
        return pyttb.ktensor(factors, self.weights.copy(), copy=False)  # type: ignore[attr-defined]

    @classmethod
    def from_pyttb(cls, other: Any) -> Self:
        """From a pyttb ktensor."""
        return cls(other.weights, other.factor_matrices)

    def to_xarray(self, names: Sequence[str] | None = None) -> Any:
        """An xarray Dataset: `weights`, and `factor_<name>` for each mode, labels as coordinates.

        Parameters
        ----------
        names
            One dimension name per mode; by default what they are called, else mode_0, mode_1, ...
        """
        import xarray

        n_modes = len(self.factors)
        named = self.mode_names if names is None else names
        names = [f"mode_{k}" for k in range(n_modes)] if named is None else list(named)
        if len(names) != n_modes or len({*names, "component"}) != n_modes + 1:
            raise DataError(
                f'names needs {n_modes} different names other than "component", but is '
                f"{names}. Give one per mode."
            )
        labels = self.labels or (None,) * n_modes
        variables: dict[str, Any] = {"weights": ("component", self.weights.copy())}
        for name, a in zip(names, self.factors, strict=True):
            variables[f"factor_{name}"] = ((name, "component"), a.copy())
        coordinates = {
            # As objects: NumPy strings would lose a trailing NUL.
            n: (n, np.array(l, dtype=object))
            for n, l in zip(names, labels, strict=True)
            if l is not None
        }
        return xarray.Dataset(variables, coords=coordinates)

    @classmethod
    def from_xarray(cls, dataset: Any) -> Self:
        """From a Dataset as `to_xarray` makes: modes in the order of its variables."""
        factors = [v for name, v in dataset.data_vars.items() if name != "weights"]
        labels = [
            [str(label) for label in v.coords[v.dims[0]].values] if v.dims[0] in v.coords else None
            for v in factors
        ]
        dims = [str(v.dims[0]) for v in factors]
        names = None if dims == [f"mode_{k}" for k in range(len(dims))] else dims
        return cls(dataset["weights"].values, [v.values for v in factors], labels, names)

    def to_dataframe(self, library: Literal["polars", "pandas"] = "polars") -> Any:
        """A tidy table: one row per entry of a factor matrix.

        Columns: mode, mode_name and label (null where there are no names), index, component
        (counted from 1, as everywhere a person reads it), weight, value.

        Parameters
        ----------
        library
            Whose DataFrame to make.
        """
        if library not in ("polars", "pandas"):
            raise DataError(
                f'library needs to be "polars" or "pandas", but is {library!r}. Use one of those.'
            )
        shape, rank = [len(a) for a in self.factors], len(self.weights)
        labels = self.labels or (None,) * len(shape)
        names = [n or (None,) * size for n, size in zip(labels, shape, strict=True)]
        called = zip(self.mode_names or (None,) * len(shape), shape, strict=True)
        columns = {
            "mode": np.repeat(np.arange(len(shape)), [size * rank for size in shape]),
            "mode_name": [name for name, size in called for _ in range(size * rank)],
            "index": np.concatenate([np.repeat(np.arange(size), rank) for size in shape]),
            "label": [name for mode in names for name in mode for _ in range(rank)],
            "component": np.tile(np.arange(1, rank + 1), sum(shape)),
            "weight": np.tile(self.weights, sum(shape)),
            "value": np.concatenate([a.ravel() for a in self.factors]),
        }
        if library == "pandas":
            import pandas

            return pandas.DataFrame(columns)
        import polars

        return polars.DataFrame(
            columns, schema_overrides=dict.fromkeys(("mode_name", "label"), polars.String)
        )

    @classmethod
    def from_dataframe(cls, frame: Any) -> Self:
        """From a table as `to_dataframe` makes, polars or pandas, rows in any order."""
        missing = {"mode", "index", "label", "component", "weight", "value"} - set(frame.columns)
        if missing:
            raise DataError(
                f"a tidy factor table needs the columns of KTensor.to_dataframe, but "
                f"{sorted(missing)} are missing. Add them, or build KTensor(weights, factors)."
            )
        mode, index, component = (_numbers(frame, n) for n in ("mode", "index", "component"))
        if len(component) and component.min() > 0:  # tables of older versions count from 0
            component = component - 1
        n_modes, rank = int(mode.max(initial=-1)) + 1, int(component.max(initial=-1)) + 1
        weights, factors, labels, called = np.full(rank, np.nan), [], [], []
        weights[component] = frame["weight"].to_numpy()
        for k in range(n_modes):
            rows = np.flatnonzero(mode == k)
            # Cells the table leaves out stay NaN and are refused with their place.
            factor = np.full((int(index[rows].max(initial=-1)) + 1, rank), np.nan)
            factor[index[rows], component[rows]] = frame["value"].to_numpy()[rows]
            names = dict(zip(index[rows].tolist(), frame["label"].to_numpy()[rows], strict=True))
            named = [names.get(i) for i in range(len(factor))]
            labels.append([n for n in named if isinstance(n, str)] or None)
            factors.append(factor)
            called.append(_called(frame, rows))
        return cls(weights, factors, labels, None if None in called else called)


def _called(frame: Any, rows: NDArray[np.intp]) -> Any:
    """The name of a mode in the rows of a tidy table that tell of it; tables may lack it."""
    if "mode_name" not in set(frame.columns) or not rows.size:
        return None
    name = frame["mode_name"].to_numpy()[rows[0]]
    return name if isinstance(name, str) else None


def _numbers(frame: Any, name: str) -> NDArray[np.int64]:
    column = np.asarray(frame[name].to_numpy())
    if column.dtype.kind not in "iu" or column.min(initial=0) < 0:
        raise DataError(
            f"column {name!r} needs whole numbers from 0, but has dtype {column.dtype} and "
            f"starts {column[:3].tolist()}. Number the {name} values from 0."
        )
    return column.astype(np.int64)
