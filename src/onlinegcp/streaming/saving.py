"""How a streaming model is kept: as a file, or as its state in memory."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from onlinegcp.errors import StateError
from onlinegcp.forecasting import Recent
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.streaming.keeping import is_finite
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.told import Telling


class Keeping(Telling):
    """The part of every streaming model that saves it and brings it back."""

    n_slices_: int
    last_: StepRecord | None
    _seed: int
    _state: ModelState | None
    _buffer: tuple[Slice, ...]
    _past: FloatArray  # what each component held in the newest slices, for `forecast`
    _recent: Recent

    def _reset(self) -> None:
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store parameters and state in one file, all or nothing."""
        from onlinegcp.streaming.storage import save_model

        save_model(self, path)  # type: ignore[arg-type]  # every heir is a StreamingModel

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, loss: Loss | None = None) -> Self:
        """The model stored by `save`; it goes on exactly where the saved one stood.

        Parameters
        ----------
        path
            The file.
        loss
            The loss the model was saved with, where you made it yourself: files hold numbers, no
            functions.
        """
        from onlinegcp.streaming.storage import load_model

        model = load_model(path, loss, cls)  # type: ignore[arg-type]  # as above
        if not isinstance(model, cls):
            raise StateError(
                f"a saved {cls.__name__} was needed, but {path} holds a {type(model).__name__}. "
                f"Use {type(model).__name__}.load."
            )
        return model

    def get_state(self) -> dict[str, Any]:
        """Everything the next step depends on, and the last step's record."""
        self._check_fitted()
        return {
            "n_slices": self.n_slices_,
            "seed": self._seed,
            "state": self._state,
            "buffer": self._buffer,
            "last": self.last_,
            "past": self._past,
            "recent": self._recent,
            "names": self._names,
        }

    def set_state(self, saved: dict[str, Any]) -> Self:
        """Go on from what `get_state` returned, on a model with the same parameters."""
        if saved["state"] is not None and not is_finite(saved["state"]):
            raise StateError("a state of finite numbers was needed, but it has others. Fit again.")
        self._reset()
        self.n_slices_ = int(saved["n_slices"])
        self._seed = int(saved["seed"])
        self._state = saved["state"]
        self._buffer = tuple(saved["buffer"])
        self.last_ = saved["last"]
        self._past = np.asarray(saved.get("past", self._past))
        self._recent = saved.get("recent", self._recent)
        self._names = saved.get("names", self._names)
        return self

    @property
    def state_bytes_(self) -> int:
        """Memory the model takes between slices, waiting slices included."""
        self._check_fitted()
        waiting = sum(x.value.nbytes for x in self._buffer)
        return waiting + (0 if self._state is None else self._state.nbytes)
