"""Several methods on the same stream: same start, same slices, one loss, one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from onlinegcp.checks import check_choice
from onlinegcp.errors import DataError, OnlineGCPError
from onlinegcp.evaluate.common_loss import expected_loss, expects_itself
from onlinegcp.evaluate.measures import factor_match
from onlinegcp.evaluate.prequential import prequential
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice, widened
from onlinegcp.streaming import METHODS, StreamingModel
from onlinegcp.streaming.inputs import aligned
from onlinegcp.streaming.warm_start import static_start

Methods: TypeAlias = Sequence[str | StreamingModel] | Mapping[str, StreamingModel]
Tell: TypeAlias = Callable[[str, int, int], None]

# Share of the mean cell at which expectations are kept away from the ends of a loss's range.
FLOOR = 1e-3


@dataclass(frozen=True)
class Contender:
    """How one method did.

    Attributes
    ----------
    name
        What it was called.
    refusal
        Why it could not take part, or not to the end; None if it did.
    prequential, local, overall
        Mean loss per observed cell of the slices after the warm start: predicted before they were
        learned; after each was learned; and with the final model, of all slices (the global loss).
    score
        Agreement of the final factors with the true ones, 1 for a perfect match; None where no
        truth is known.
    milliseconds
        Time to learn a slice, mean.
    megabytes
        Most memory it held between slices.
    curve
        Prequential loss per cell, slice by slice.
    """

    name: str
    refusal: str | None = None
    prequential: float | None = None
    local: float | None = None
    overall: float | None = None
    score: float | None = None
    milliseconds: float | None = None
    megabytes: float | None = None
    curve: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Comparison:
    """The table of a comparison, the best prediction first.

    Attributes
    ----------
    loss
        Name of the loss all were scored in.
    n_slices, warm_start
        Slices in all, and those the start was made from.
    contenders
        One entry per method; those that could not take the stream come last.
    """

    loss: str
    n_slices: int
    warm_start: int
    contenders: tuple[Contender, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, texts, lists and dictionaries; `overall` is called "global"."""
        found = asdict(self)
        for contender in found["contenders"]:
            contender["global"] = contender.pop("overall")
        return found

    def plot(self) -> Any:
        """The running mean of the prequential losses as a plotly figure."""
        from onlinegcp.drawing.charts import plot_comparison

        curves = {c.name: c.curve for c in self.contenders if c.curve}
        return plot_comparison(curves, first=self.warm_start + 1, loss=self.loss)


def compare(
    stream: Iterable[Any],
    methods: Methods | None = None,
    *,
    rank: int = 10,
    loss: str | Loss | None = None,
    warm_start: int = 10,
    seed: int = 0,
    seconds: float | None = None,
    tell: Tell | None = None,
) -> Comparison:
    """Let methods learn the same stream from the same start and score all in one loss.

    A method's expectation is what is scored, so that methods of different losses stand in one
    table; expectations outside the range of the loss are moved inside. A method that cannot take
    the stream (missing cells, size, values) is listed with the reason.

    Parameters
    ----------
    stream
        The slices; a `problems.Stream` brings its loss and its truth along. They are held in
        memory: every method and the global loss read them again. Where modes grow, all have the
        final shape from the start; labels of frames say where their rows belong.
    methods
        Names in `streaming.METHODS`, models, or models by name; all methods by default. Models
        are cloned.
    rank
        Number of components of methods given by name, and of the common start.
    loss
        The loss to score in; the stream's own, or gaussian.
    warm_start
        Slices the common start is made from. A model of another rank, or whose values are no
        expectations (odds), makes its own from the same slices.
    seed
        Seed of start and methods.
    seconds
        Most seconds a method may learn for; slower ones are broken off and listed.
    tell
        Called with a method's name and how many of how many slices it has learned.

    Examples
    --------
    >>> from onlinegcp.problems import gaussian_stream
    >>> stream = gaussian_stream((8, 7), 24, rank=2)
    >>> table = compare(stream, ["online_cp", "olstec"], rank=2)
    >>> [c.name for c in table.contenders], table.contenders[0].score > 0.9
    (['online_cp', 'olstec'], True)
    """
    slices = list(aligned(stream))
    if len(slices) <= warm_start:
        raise DataError(
            f"more slices than the warm start takes, {warm_start}, were needed, but there are "
            f"{len(slices)}. Use a smaller warm_start, or a longer stream."
        )
    slices = widened(slices)
    common = get_loss(getattr(stream, "loss", "gaussian") if loss is None else loss)
    models = _models(methods, rank, common, warm_start, seed)
    race = _Race(slices, warm_start, common, rank, seed, seconds, tell, _truth(stream))
    found = [race.run(name, model) for name, model in models.items()]
    found.sort(key=lambda c: np.inf if c.prequential is None else c.prequential)
    return Comparison(common.name, len(slices), warm_start, tuple(found))


class _Race:
    """The same course for every method."""

    def __init__(
        self,
        slices: list[Slice],
        warm_start: int,
        common: Loss,
        rank: int,
        seed: int,
        seconds: float | None,
        tell: Tell | None,
        truth: KTensor | None,
    ) -> None:
        self.first, self.rest = slices[:warm_start], slices[warm_start:]
        self.common, self.rank, self.seed = common, rank, seed
        self.seconds, self.tell, self.truth = seconds, tell, truth
        cells = sum(x.n_observed for x in self.first)
        size = sum(float(np.abs(x.value).sum()) for x in self.first) / max(cells, 1)
        self.floor = FLOOR * size if size > 0.0 else FLOOR
        self._starts: dict[float, KTensor] = {}

    def run(self, name: str, model: StreamingModel) -> Contender:
        """One method from start to end, or why not."""
        try:
            self._start(model)
            return self._learn(name, model)
        except (OnlineGCPError, np.linalg.LinAlgError) as error:
            return Contender(name, refusal=str(error))

    def _start(self, model: StreamingModel) -> None:
        if model.rank != self.rank or not expects_itself(model.loss_):
            model.set_params(init_slices=len(self.first)).partial_fit(self.first)
            return
        # A method that keeps to nonnegative numbers needs such a start; others do with it.
        lower = max(float(self.common.lower), float(model.loss_.lower), _bound(model))
        if lower not in self._starts:
            fitted = self.common if expects_itself(self.common) else get_loss("gaussian")
            start = static_start(
                self.first, self.rank, fitted, lower=lower, starts=3, seed=self.seed
            )
            self._starts[lower] = KTensor(None, [*start.factors, start.rows])
        model.start_from(self._starts[lower], self.first)

    def _learn(self, name: str, model: StreamingModel) -> Contender:
        curve, cells, spent, held = [], [], 0.0, model.state_bytes_
        local, waiting = 0.0, []
        for turn in prequential(model, self.rest, lambda number, x: self._loss(model, x)):
            curve.append(float(turn.verdict or 0.0))
            cells.append(turn.x.n_observed)
            spent += turn.seconds
            held = max(held, model.state_bytes_)
            waiting.append(turn.x)
            if model.n_waiting_ == 0:
                local += sum(self._loss(model, x) for x in waiting)
                waiting = []
            if self.tell is not None:
                self.tell(name, turn.number, len(self.rest))
            if self.seconds is not None and spent > self.seconds:
                raise DataError(
                    f"broken off after {turn.number} of {len(self.rest)} slices, which took "
                    f"{spent:.1f} of the {self.seconds:g} seconds allowed."
                )
        learned = sum(cells) - sum(x.n_observed for x in waiting)
        everything = [*self.first, *self.rest]
        overall = sum(self._loss(model, x) for x in everything)
        return Contender(
            name,
            prequential=sum(curve) / max(sum(cells), 1),
            local=local / max(learned, 1),
            overall=overall / max(sum(x.n_observed for x in everything), 1),
            score=None if self.truth is None else factor_match(model.factors_, self.truth.factors),
            milliseconds=1e3 * spent / len(self.rest),
            megabytes=held / 1e6,
            curve=tuple(lost / max(n, 1) for lost, n in zip(curve, cells, strict=True)),
        )

    def _loss(self, model: StreamingModel, x: Slice) -> float:
        weights = model.weigh(x)
        return expected_loss(x, model.factors_, weights, model.loss_, self.common, self.floor)


def _models(
    methods: Methods | None, rank: int, common: Loss, warm_start: int, seed: int
) -> dict[str, StreamingModel]:
    if isinstance(methods, Mapping):
        return {name: clone(model) for name, model in methods.items()}
    models: dict[str, StreamingModel] = {}
    for method in list(METHODS) if methods is None else methods:
        if not isinstance(method, str):
            models[str(method)] = clone(method)
            continue
        check_choice("method", method, tuple(METHODS))
        cls = METHODS[method]
        options: dict[str, Any] = {"init_slices": warm_start, "random_state": seed}
        if "loss" in cls._get_param_names():
            options["loss"] = common
        models[method] = cls(rank, **options)
    return models


def _bound(model: StreamingModel) -> float:
    lower = getattr(model, "lower", None)
    nonnegative = bool(getattr(model, "nonnegative", False))
    return 0.0 if nonnegative or (lower is not None and lower >= 0.0) else -np.inf


def _truth(stream: Any) -> KTensor | None:
    """What the last slice was drawn from, where that is known."""
    known = getattr(stream, "truth", None) is not None or getattr(stream, "moments", None)
    truth: KTensor | None = stream.truth_at(len(stream) - 1) if known else None
    return truth
