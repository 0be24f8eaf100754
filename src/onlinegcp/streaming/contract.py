"""scikit-learn's contract: what it asks of an estimator besides fit and transform."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from onlinegcp.errors import closest
from onlinegcp.streaming.state import ModelState


class Contract(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """The part of every streaming model that scikit-learn asks."""

    takes_missing: ClassVar[bool]
    changes_rank: bool
    rank: int
    n_jobs: int | None = None  # threads; None for as many as pay

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Name the parameter that was meant, which Python does not."""
        known = inspect.signature(cls.__init__).parameters if given else {}
        wrong = next((name for name in given if name not in known), None)
        if wrong is not None and all(p.kind != p.VAR_KEYWORD for p in known.values()):
            names = [name for name in known if name != "self"]
            raise TypeError(
                f"{cls.__name__} takes no parameter {wrong!r}.{closest(wrong, names)} Choose one "
                f"of {', '.join(names)}."
            )
        model: Self = super().__new__(cls)
        return model

    def _ready(self) -> ModelState:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.takes_missing
        return tags

    @property
    def _n_features_out(self) -> int:
        if not getattr(self, "n_slices_", 0):
            raise AttributeError("the columns of transform are known once the model is fitted")
        return len(self._ready().weights) if self.changes_rank else int(self.rank)
