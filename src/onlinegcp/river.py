"""A streaming model behind river's methods: learn_one, transform_one, score_one."""

from __future__ import annotations

import copy
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, final, get_args

import numpy as np
from sklearn.base import clone

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, Unlisted, as_slice
from onlinegcp.solvers.objective import least_loss, slice_loss
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.state import FloatArray

Unknown = Literal["error", "ignore"]


@final
class RiverAdapter:
    """Lets a streaming model take part in river's pipelines and evaluations.

    An observation is a slice (or anything `as_slice` takes), or river's dictionary of features,
    which is a 1-way slice with one cell per feature. The features are fixed by `features` or by
    the first dictionary: a model cannot grow. River itself is not needed; where it is imported
    before the adapter is made, its pipelines accept the adapter at any place.

    Parameters
    ----------
    model
        The streaming model; it is used as it is, not copied.
    features
        Names of the features, in the order of the model's rows; those of the first dictionary
        learned by default.
    unlisted
        What a feature is that a dictionary leaves out: "zero" or "missing". None and NaN are
        always missing.
    unknown
        What to do with a feature that is not among `features`: "error" or "ignore".

    Examples
    --------
    >>> from onlinegcp.streaming import OnlineCP
    >>> detector = RiverAdapter(OnlineCP(1, init_slices=3))
    >>> for size in (1.0, 2.0, 1.5, 3.0, 2.5):
    ...     detector.learn_one({"in": 2 * size, "out": size})
    >>> round(detector.score_one({"in": 4.0, "out": 2.0}), 6)
    0.0
    >>> detector.score_one({"in": 2.0, "out": 4.0}) > 1.0
    True
    """

    # What river asks of every estimator.
    _supervised = False

    def __init__(
        self,
        model: StreamingModel,
        *,
        features: Iterable[Hashable] | None = None,
        unlisted: Unlisted = "zero",
        unknown: Unknown = "error",
    ) -> None:
        if unlisted not in get_args(Unlisted) or unknown not in get_args(Unknown):
            raise DataError(
                f"unlisted must be 'zero' or 'missing' and unknown 'error' or 'ignore', but got "
                f"{unlisted!r} and {unknown!r}. Choose among these."
            )
        self.model = model
        self.unlisted = unlisted
        self.unknown = unknown
        self._places: dict[Hashable, int] | None = None
        self._given = None if features is None else tuple(features)
        if self._given is not None:
            self._places = {name: place for place, name in enumerate(self._given)}
            if len(self._places) < len(self._given):
                twice = [name for name in self._places if self._given.count(name) > 1]
                raise DataError(
                    f"features must have different names, but {twice[0]!r} is there "
                    f"{self._given.count(twice[0])} times. Name each once."
                )
        _introduce()

    @property
    def features(self) -> tuple[Hashable, ...] | None:
        """Names of the features in order, None while unknown or where slices come in."""
        return None if self._places is None else tuple(self._places)

    def clone(
        self, new_params: Mapping[str, Any] | None = None, include_attributes: bool = False
    ) -> RiverAdapter:
        """An adapter with the same parameters, as river's models offer; its model is a clone, too.

        Parameters
        ----------
        new_params
            Parameters that replace those of this adapter.
        include_attributes
            Whether to copy what was learned as well.
        """
        kept: dict[str, Any] = {
            "model": copy.deepcopy(self.model) if include_attributes else clone(self.model),
            "features": self.features if include_attributes else self._given,
            "unlisted": self.unlisted,
            "unknown": self.unknown,
        }
        return RiverAdapter(**(kept | dict(new_params or {})))

    def learn_one(self, x: Any) -> None:
        """Learn one observation."""
        places = self._places
        if places is None and isinstance(x, Mapping):
            places = {name: place for place, name in enumerate(x)}
        self.model.partial_fit(self._slice(x, places))
        self._places = places  # only now: a refused observation fixes nothing

    def transform_one(self, x: Any) -> dict[int, float]:
        """Weights of an observation by component; zeros before anything was learned."""
        if not self.model.__sklearn_is_fitted__():
            # A rank that is found in the data is not known before there are any.
            known = 0 if self.model.changes_rank else self.model.rank
            return dict.fromkeys(range(known), 0.0)
        weights = self.model.transform(self._slice(x, self._places))
        return {r: float(weight) for r, weight in enumerate(weights)}

    def score_one(self, x: Any) -> float:
        """How badly an observation fits: mean deviance per observed cell, high for anomalies.

        0 is a perfect fit, so that small and large observations can be compared; a loss of your
        own without `minimum` gives its mean value instead. 0 before anything was learned.
        """
        if not self.model.__sklearn_is_fitted__():
            return 0.0
        part = self._slice(x, self._places)
        loss = self.model.loss_
        if loss.minimum is None:
            return -float(self.model.score_samples(part))
        if part.n_observed == 0:
            return 0.0
        factors, weights = self.model.factors_, self.model.transform(part)
        listed = loss.deviance(part.value, KTensor(weights, factors).values(part.index))
        return (float(np.sum(listed)) + _zeros(part, factors, weights, loss)) / part.n_observed

    def _slice(self, x: Any, places: dict[Hashable, int] | None) -> Slice:
        if not isinstance(x, Mapping):
            return as_slice(x)
        if places is None:
            raise DataError(
                "this model has learned slices, but a dictionary of features came in. Pass a "
                "slice, or name the features when you make the adapter."
            )
        cells, values, holes = [], [], []
        for name, value in x.items():
            if name not in places:
                if self.unknown == "ignore":
                    continue
                raise DataError(
                    f"the {len(places)} features fixed at the start were needed, but {name!r} is "
                    f"not among them. Name all features when you make the adapter, or pass "
                    f"unknown='ignore'."
                )
            if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
                holes.append(places[name])
            else:
                cells.append(places[name])
                values.append(value)
        shape = (len(places),)
        if self.unlisted == "missing" or not holes:
            return Slice(np.array(cells, dtype=np.int64), values, shape, unlisted=self.unlisted)
        dense = np.zeros(shape)
        dense[cells] = values
        dense[holes] = np.nan
        return Slice.dense(dense)


def _zeros(x: Slice, factors: Sequence[FloatArray], weights: FloatArray, loss: Loss) -> float:
    """Deviance of the cells that are not listed, which may be too many to look at."""
    if x.n_unlisted_zeros == 0:
        return 0.0
    as_data = Slice(x.index, x.value, x.shape, unlisted="missing")
    value = slice_loss(x, factors, weights, loss) - slice_loss(as_data, factors, weights, loss)
    least = least_loss(x, loss) - least_loss(as_data, loss)
    return max(0.0, loss.traits.deviance_factor * (value - least))


def _introduce() -> None:
    """Tell river, if the caller uses it, that the adapter is a transformer."""
    river = sys.modules.get("river.base")
    if river is not None:
        river.Transformer.register(RiverAdapter)
