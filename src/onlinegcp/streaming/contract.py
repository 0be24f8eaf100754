"""scikit-learn's contract: what it asks of an estimator besides fit and transform."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

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
