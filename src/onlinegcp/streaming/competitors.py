"""Who competes to explain a stream: the model in use, a challenger, and one that rests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.slices import Slice, widen
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto import state as stored
from onlinegcp.solvers.auto.model import AutoState
from onlinegcp.streaming.misfit import Misfit
from onlinegcp.streaming.short_memory import ShortMemory
from onlinegcp.streaming.surprise import Surprise

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass
class Regimes:
    """The model in use, those that compete with it, and what decides between them.

    Attributes
    ----------
    current
        The model in use.
    challenger
        A model of the newest slices only, while it is on trial.
    before
        The model as it was when slices began to surprise: what it was in its own regime.
    rested
        The model that was replaced last, as it was in its own regime.
    surprise
        The detector.
    misfit
        The watch over a model that is new.
    brief
        The watch over how much the model remembers.
    mending
        Whether the present challenge is because of one of them, and no change that was noticed.
    buffer, losses
        Slices that surprised, and the loss of the model in use on each before it learned it.
    recent
        The newest slices, where new components are to be made from them.
    gathering
        Whether slices are being collected for a challenger.
    look
        Slices that a second look at how the model began takes; 0 where there is none.
    patient
        Whether the first challenger is made from as many slices as a warm start takes.
    changed
        Whether an early challenger of this alarm has taken over already.
    gains
        Number, sum and sum of squares of the challenger's prequential gains.
    age
        Slices learned.
    surprised_at
        Age at which the slices of `buffer` began to surprise.
    next_alarm, failures, rested_at
        When the next challenge may begin, failures in a row, and when `rested` was replaced.
    """

    current: AutoState
    challenger: AutoState | None = None
    before: AutoState | None = None
    rested: AutoState | None = None
    surprise: Surprise = field(default_factory=Surprise)
    misfit: Misfit = field(default_factory=Misfit)
    brief: ShortMemory = field(default_factory=ShortMemory)
    mending: bool = False
    buffer: tuple[Slice, ...] = ()
    recent: tuple[Slice, ...] = ()
    losses: FloatArray = field(default_factory=lambda: np.zeros(0))
    gathering: bool = False
    look: int = 0
    changed: bool = False
    patient: bool = False
    gains: FloatArray = field(default_factory=lambda: np.zeros(3))
    age: int = 0
    surprised_at: int = 0
    next_alarm: int = 0
    failures: int = 0
    rested_at: int = 0

    @staticmethod
    def begun(live: AutoState, look: int, slices: tuple[Slice, ...] = ()) -> Regimes:
        """Regimes of a model that has just begun.

        Parameters
        ----------
        live
            The model.
        look
            Slices in which its patterns shall be looked for again, by a rival from these alone; 0
            where it is sure of them.
        slices
            Those of them that it began with.
        """
        recent = () if live.ranks is None else slices
        if not look:
            return Regimes(live, recent=recent)
        return Regimes(live, gathering=True, mending=True, look=look, buffer=slices, recent=recent)

    @property
    def factors(self) -> Any:
        """The factors of the model in use."""
        return self.current.factors

    def to_dict(self, *, own: bool = True) -> dict[str, Any]:
        """Everything but the slices as a flat mapping of names to arrays and scalars.

        Arrays are copies or, if not `own`, long ones are as they lie there, to be read only.
        """
        flat: dict[str, Any] = {"n_recent": len(self.recent)}
        for name in _PLAIN:
            value = getattr(self, name)
            flat[name] = value.copy() if isinstance(value, np.ndarray) else value
        flat |= {f"surprise.{name}": part for name, part in self.surprise.to_dict().items()}
        flat |= {f"misfit.{name}": part for name, part in self.misfit.to_dict().items()}
        flat |= {f"brief.{name}": part for name, part in self.brief.to_dict().items()}
        for name in _MODELS:
            model = getattr(self, name)
            if model is not None:
                held = stored.to_dict(model, own=own)
                flat |= {f"{name}.{part}": value for part, value in held.items()}
        return flat

    @staticmethod
    def from_dict(flat: dict[str, Any], slices: tuple[Slice, ...]) -> Regimes:
        """Rebuild what `to_dict` gave; the next step is the same to the last bit."""
        first = len(slices) - int(flat.get("n_recent", 0))

        def part(prefix: str) -> dict[str, Any]:
            found = f"{prefix}."
            return {n.removeprefix(found): v for n, v in flat.items() if n.startswith(found)}

        plain = {name: kind(flat[name]) for name, kind in _PLAIN.items() if name in flat}
        plain |= {name: stored.from_dict(part(name)) for name in _MODELS if part(name)}
        plain["surprise"] = Surprise.from_dict(part("surprise"))
        plain["misfit"] = Misfit.from_dict(part("misfit"))
        plain["brief"] = ShortMemory.from_dict(part("brief"))
        return Regimes(buffer=slices[:first], recent=slices[first:], **plain)

    @property
    def slices(self) -> tuple[Slice, ...]:
        """All slices that are held."""
        return self.buffer + self.recent


_MODELS = ("current", "challenger", "before", "rested")
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "losses": np.array,
    "gathering": bool,
    "look": int,
    "changed": bool,
    "mending": bool,
    "patient": bool,
    "gains": np.array,
    "age": int,
    "surprised_at": int,
    "next_alarm": int,
    "failures": int,
    "rested_at": int,
}


def grown(regimes: Regimes, shape: tuple[int, ...]) -> Regimes:
    """All models and slices with as many rows as the newest slice has."""
    if regimes.current.factors.shape == shape:
        return regimes
    for name in _MODELS:
        model = getattr(regimes, name)
        if model is not None:
            setattr(regimes, name, auto.grow(model, shape))
    regimes.buffer = tuple(widen(x, shape) for x in regimes.buffer)
    regimes.recent = tuple(widen(x, shape) for x in regimes.recent)
    return regimes
