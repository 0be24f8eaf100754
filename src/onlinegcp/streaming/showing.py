"""How a streaming model shows what it has learned: as a table, in a notebook, as figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.forecasting import Forecast, Recent, forecast
from onlinegcp.ktensor import KTensor
from onlinegcp.notebook.components import ComponentTable, component_card
from onlinegcp.notebook.html import card
from onlinegcp.streaming.state import FloatArray
from onlinegcp.streaming.told import Telling
from onlinegcp.streaming.using import Using

# Slices whose weights a model keeps for its forecasts: older ones have no weight left.
PAST = 256


def remember(past: FloatArray, held: FloatArray, order: Sequence[int] | None = None) -> FloatArray:
    """The past with what each component held in the newest slices, whatever its columns' scale.

    Parameters
    ----------
    past, held
        Rows of both, oldest first.
    order
        Where components were before; new ones (-1) held nothing.
    """
    if order is not None and past.size:
        at = np.array(order)
        past = np.where(at >= 0, past[:, at], 0.0)
    if past.shape[1:] != held.shape[1:]:
        past = held[:0]
    return np.concatenate([past[max(0, len(past) + len(held) - PAST) :], held])


def _names(labels: Any, shape: Sequence[int]) -> list[Any]:
    """The labels of each mode that a caller or a stream gave, for the rows there are."""
    named = getattr(labels, "labels", labels)
    if isinstance(named, str) or getattr(named, "__len__", int)() != len(shape):
        raise DataError(
            f"labels must be a stream, or a list with the names of the rows of each of "
            f"{len(shape)} modes, but {named!r:.80} was found. Give [['a', 'b', ...], ...]."
        )
    # A stream may know labels the model has not met yet.
    pairs = zip(named, shape, strict=True)
    return [None if names is None else names[:length] for names, length in pairs]


class Showing(Telling, Using):
    """What a model can show of what it was told and can answer."""

    gathers: ClassVar[str | None]
    n_slices_: int
    _past: FloatArray
    _recent: Recent

    @property
    def rank_(self) -> int:
        """Number of components the model has now."""
        return len(self._ready().weights)

    def to_ktensor(self, labels: Any = None) -> KTensor:
        """The model of the newest slice.

        Parameters
        ----------
        labels
            Names of the rows of each mode, or the stream they came from; by default those the
            data came with.
        """
        state = self._ready()
        named = self.row_labels_ if labels is None else _names(labels, state.shape)
        return KTensor(state.weights, state.factors, named, self.mode_names_)

    def components(
        self, labels: Any = None, *, modes: Sequence[str] | None = None, top: int = 3
    ) -> ComponentTable:
        """The patterns as a small table, strongest in the newest slice first.

        Parameters
        ----------
        labels
            Names of the rows of each mode, or the stream they came from; by default those the
            data came with.
        modes
            Names of the modes; those of the stream or of the data by default.
        top
            Labels to show per mode.
        """
        modes = getattr(labels, "mode_names", None) if modes is None else modes
        return self.to_ktensor(labels).components(modes, top=top)

    def forecast(
        self, steps: int, labels: Any = None, *, period: int | None = None, level: float = 0.8
    ) -> Forecast:
        """The next slices: weights carried on by seasonal exponential smoothing.

        Single cells are drawn towards what they held in the newest slices, as far as that would
        have helped lately.

        Parameters
        ----------
        steps
            How many slices.
        labels
            Names of the rows of each mode, or the stream they came from.
        period
            Slices after which weights repeat; by default what fits the past best.
        level
            Share of totals that should lie in their interval.
        """
        model = self.to_ktensor()
        if self.gathers is not None:
            raise DataError(
                f"A forecast needs the weights of every slice, but {type(self).__name__} learns "
                "several slices together and keeps those of the last. Use OnlineGCP."
            )
        return forecast(
            self._past,
            model.factors,
            self.loss_,
            steps,
            labels=model.labels if labels is None else _names(labels, model.shape),
            period=period,
            level=level,
            recent=self._recent,
        )

    def _repr_html_(self) -> str:
        fitted = self.__sklearn_is_fitted__()
        rank = len(self._ready().weights) if fitted else self.rank
        facts = f"rank {rank}, loss {self.loss_.name}"
        if not fitted:
            return card(type(self).__name__, f"{facts}, not fitted")
        return component_card(
            type(self).__name__, f"{facts}, {self.n_slices_:,} slices", self.components()
        )

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Instead of scikit-learn's diagram, which says nothing about what was learned."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def plot_components(self, labels: Any = None, **options: Any) -> Any:
        """The patterns as a plotly figure; see `onlinegcp.drawing.charts.plot_components`."""
        from onlinegcp.drawing.charts import plot_components

        return plot_components(self.to_ktensor(labels), **options)

    def plot_activations(self, x: Any, times: Any = None) -> Any:
        """How strong each pattern is in each of several slices, as a plotly figure."""
        from onlinegcp.drawing.charts import plot_activations

        return plot_activations(np.atleast_2d(self.transform(x)), times)
