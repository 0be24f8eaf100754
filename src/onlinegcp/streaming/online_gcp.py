"""OnlineGCP: streaming GCP with a tuning-free default solver and the paper's own beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, final

from onlinegcp.checks import LARGEST_RANK, check_choice, check_jobs, check_whole
from onlinegcp.errors import BackendError, DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto.held_out import Parts
from onlinegcp.solvers.auto.solver import is_bounded
from onlinegcp.solvers.devices import engine_for
from onlinegcp.streaming import auto_solver, paper_solver
from onlinegcp.streaming.inputs import with_next
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.paper_solver import Surroundings
from onlinegcp.streaming.rank_study import most_told_apart, study_path
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scaling import check_scale, in_units, units
from onlinegcp.streaming.second_opinion import MOST_LOOKED_AT, sure_start
from onlinegcp.streaming.sgd import SGD
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.warm_start import WarmStart
from onlinegcp.streaming.workers import engine_of
from onlinegcp.sums.local import engine


@final
class OnlineGCP(StreamingModel):
    """Streaming generalized CP decomposition.

    A slice is explained by weights s_t and factor matrices A_k through
    m_i = sum_r s_tr prod_k A_k[i_k, r]. When it arrives, the weights are solved with the factors
    held fixed, then the factors move a little, as far as the past allows.

    The default solver, "auto", needs a rank and a loss and nothing else: weights by Newton's
    method, factors by closed-form or Fisher-scoring updates whose history has the units of the
    loss, forgetting learned from how well each next slice is predicted (docs/solver.md). Modes may
    get new rows along the stream.

    `SGD` is the paper's method (Algorithms 1 to 6): stochastic gradients for the weights, then for
    the factors, under a history term that keeps the model of past slices where it was:

        sum_i f(x_i, m_i) + 1/2 sum_h w theta^(t-h) ||Mbar_h - M_h||^2
            + lambda/2 sum_k ||A_k||^2 + mu/2 |s|^2,   A_k, s >= lower

    Parameters
    ----------
    rank
        Number of components (R), or "auto": found by a study of the first slices, then grown and
        shrunk along the stream wherever that predicts better (docs/solver.md).
    loss
        Name of a loss, or a `Loss` (f).
    solver
        "auto", or the paper's method: `SGD(...)` with settings of its own, "sgd" with the usual
        ones.
    forget
        For "auto": "auto" learns along the stream how much of the past to keep, 1.0 keeps all of
        it, a larger number is a half-life in slices.
    lower
        Bound on factors and weights (l); None takes the loss's own. "auto" takes 0, which makes
        any model nonnegative, with exact zeros.
    scale
        For squared losses: number or name of a mode whose rows have units of their own, such as
        variables. Each counts in units of its usual size in the warm start; losses of step
        records are those of the scaled data, factors and predictions keep the data's units.
    max_rank
        Largest rank that "auto" may choose; never more than `init_slices` slices tell apart.
    init
        Start from this model: d modes, or d + 1 with the weights of past slices as the last,
        which then fill the history. Without them it must prove itself beside a static fit of the
        first slices (not under a fixed `forget`). None: from a static fit.
    init_slices, init_starts
        The static fit: CP-ALS, CP-APR or GCP, as the loss asks, on the first `init_slices` slices
        (H_init), best of `init_starts`.
    random_state
        Seed; None draws one.
    n_jobs
        Threads; None takes every core where slices are large enough for that to pay. The result
        is the same for any number.
    cluster
        A `distributed.Client`, or the address of a Dask scheduler, whose workers do the passes over
        the cells of large slices (solver "auto"; docs/cores-and-cluster.md), with the same result.
        It is not stored with the model.
    device
        Where to compute: "cpu"; "cuda", an NVIDIA card (docs/gpu.md says what it takes over, all
        else stays on the CPU); "auto", the card where there is one and slices are large enough
        to gain; or, for `SGD` only, "reference": plain NumPy.
    ndim, mode_names
        How many modes slices have, or what these are called: with two, a bare matrix is a slice.
        Without either the first slice must say it.

    Attributes
    ----------
    factors_ : tuple of (I_k, R) arrays
        One matrix per mode.
    weights_ : (R,) array
        Weights of the newest slice.
    n_slices_ : int
        Slices seen, warm start included.
    last_ : StepRecord or None
        Account of the newest slice; None until the warm start is over.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((8, 2)), rng.random((7, 2))
    >>> model = OnlineGCP(2, loss="poisson", init_slices=5)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(rng.poisson(20 * a * rng.random(2) @ b.T)))
    >>> model.n_slices_, [factor.shape for factor in model.factors_]
    (8, [(8, 2), (7, 2)])
    """

    rank: int | Literal["auto"]  # type: ignore[assignment]

    takes_missing = True
    finds_rank = True
    tells_order = True
    most_models = 4  # in use, on trial, challenging, and resting after a change
    state_limit = math.inf  # factors and their past alone: whoever has room for the data has it

    def __init__(
        self,
        rank: int | Literal["auto"] = 10,
        loss: str | Loss = "gaussian",
        *,
        solver: Literal["auto", "sgd"] | SGD = "auto",
        forget: float | Literal["auto"] = "auto",
        lower: float | None = None,
        scale: int | str | None = None,
        max_rank: int = 50,
        init: KTensor | None = None,
        init_slices: int = 10,
        init_starts: int = 3,
        random_state: int | None = 0,
        n_jobs: int | None = None,
        cluster: Any = None,
        device: str = "cpu",
        ndim: int | None = None,
        mode_names: Sequence[str] | None = None,
    ) -> None:
        self.rank: Any = rank  # "auto", too, which no other method takes
        self.init = init
        self.init_slices = init_slices
        self.init_starts = init_starts
        self.random_state = random_state
        self.ndim = ndim
        self.mode_names = mode_names
        self.loss = loss
        self.solver = solver
        self.forget = forget
        self.lower = lower
        self.scale = scale
        self.max_rank = max_rank
        self.n_jobs = n_jobs
        self.cluster = cluster
        self.device = device

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; ``solver__factor_rate`` and the like belong to the paper's solver."""
        solver = parameters.get("solver", self.solver)
        nested = [name for name in parameters if name.startswith("solver__")]
        if nested and not isinstance(solver, SGD):
            if solver != "sgd":
                raise DataError(
                    f"{nested[0]} belongs to the paper's solver, but the solver is {solver!r}. "
                    f"Pass solver=SGD(...), or leave it out."
                )
            parameters["solver"] = SGD()
        super().set_params(**parameters)
        return self

    def predict_halves(self, x: Any, *, number: int = 0) -> Parts:
        """Predict either half of the cells of a slice from the other; more weights cannot fake it.

        Only the default solver can; nothing is changed.

        Parameters
        ----------
        x
            The slice.
        number
            Says how its cells are halved, so that several models can face the same task.
        """
        if self._paper() is not None:
            raise DataError(
                "halves of a slice are predicted by solver='auto', but the paper's solver was "
                "chosen. Leave it out."
            )
        part = self._one(x)
        return auto_solver.predict_halves(self._ready(), part, self.loss_, self._seed, number)

    # ---- hooks of the protocol

    @property
    def changes_rank(self) -> bool:  # type: ignore[override]
        """Whether components come and go."""
        return bool(self.rank == "auto")

    @property
    def bounded_by(self) -> str | None:  # type: ignore[override]
        """The parameter that says how far the state may grow."""
        return "max_rank" if self.changes_rank else None

    @property
    def loss_(self) -> Loss:
        """The loss the model minimises."""
        return get_loss(self.loss)

    def _check_parameters(self) -> None:
        loss, paper = self.loss_, self._paper()
        if self.device not in ("cpu", "cuda", "auto", "reference"):
            raise BackendError(
                f"device must be 'cpu', 'cuda', 'auto' or 'reference', but got {self.device!r}. "
                "Choose one."
            )
        check_jobs(self.n_jobs)
        if self.cluster is not None:
            engine_of(self)  # refuses a scheduler that does not answer
        check_whole("max_rank", self.max_rank, 1, LARGEST_RANK)
        if self.changes_rank and paper is not None:
            raise DataError(
                "rank='auto' belongs to solver='auto', but the paper's solver was chosen. Give it "
                "a number; the command `onlinegcp rank` helps to find one."
            )
        forgetting.parse(self.forget)
        check_scale(self.scale, loss, auto=paper is None, given=self.init is not None)
        if paper is None:
            if self.device == "reference":
                raise BackendError(
                    "solver='auto' computes on device='cpu', 'cuda' or 'auto', but got "
                    "'reference'. Leave it out, or pass solver='sgd'."
                )
            engine_for(self.device)  # refuses where there is no card
            is_bounded(loss, self.lower)  # refuses a bound this solver does not know
        else:
            if self.forget != "auto":
                raise DataError(
                    f"forget belongs to solver='auto', but the paper's solver was chosen and "
                    f"forget={self.forget!r} given. Use SGD(history_decay=...), or leave it out."
                )
            engine_for(self.device)  # refuses where there is no card
            paper_solver.check_options(paper, loss, self.lower)

    def _paper(self) -> SGD | None:
        """The settings of the paper's solver, None if it is not the one chosen."""
        if isinstance(self.solver, SGD):
            return self.solver
        check_choice("solver", self.solver, ("auto", "sgd"), " or SGD(...)")
        return SGD() if self.solver == "sgd" else None

    def _most(self, shape: Sequence[int]) -> int | None:
        """The largest rank that "auto" may take; None where the rank stays."""
        if not self.changes_rank:
            return None
        return min(int(self.max_rank), most_told_apart(shape, int(self.init_slices)))

    def _largest_state(self, shape: tuple[int, ...]) -> int | None:
        if not self.changes_rank:
            return None
        # Each of the models may have a twin on trial; slices are kept to make new ones from.
        models = 2 * self.most_models * auto_solver.largest_model(shape, int(self.max_rank))
        return models + 16 * (MOST_LOOKED_AT + 1) * int(self.init_slices) * math.prod(shape)

    def _first_rank(self, slices: Sequence[Slice]) -> int:
        if not self.changes_rank:
            return int(self.rank)
        most = self._most(slices[0].shape)
        assert most is not None
        return study_path(
            slices, self.loss_, lower=self._get_lower(), most=most, seed=self._seed
        ).rank

    def _static_start(self, slices: Sequence[Slice]) -> WarmStart:
        if self._paper() is not None or self.forget != "auto":
            return super()._static_start(slices)  # whoever starts this way is never replaced
        return sure_start(
            slices,
            self._first_rank(slices),
            self.loss_,
            lower=self._get_lower(),
            starts=self.init_starts,
            seed=self._seed,
        )

    def _get_lower(self) -> float:
        return float(self.loss_.lower if self.lower is None else self.lower)

    def _may_grow(self) -> bool:
        return self._paper() is None

    def _settled(self) -> dict[str, Any]:
        paper = "auto" if self._paper() is None else "sgd"
        return {"solver": paper, "scale": self.scale, **super()._settled()}

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        paper = self._paper()
        if paper is None:
            scale = self._units(self._buffer or start.slices)
            if scale is not None and not self._buffer:  # a start that was given is in the data's
                start = _in_units(start, *scale)
            return auto_solver.begin(
                start,
                self.loss_,
                self.forget,
                self.lower,
                seed,
                scale,
                self._most([len(a) for a in start.factors]),
                full=self.init_slices,
            )
        return paper_solver.begin(paper, start, self._get_lower(), seed)

    def _prepared(self, slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
        scale = self._units(slices)
        return slices if scale is None else tuple(in_units(x, *scale) for x in slices)

    def _units(self, slices: tuple[Slice, ...]) -> auto_solver.Scale | None:
        """The mode to scale and what its rows are divided by, from the first slices."""
        if self.scale is None:
            return None
        mode, ndim = self.scale, slices[0].ndim
        if isinstance(mode, str):
            names = self.mode_names_ or ()
            check_choice("scale", mode, names, " or the number of a mode")
            mode = names.index(mode)
        if mode >= ndim:
            raise DataError(
                f"scale must be a mode from 0 to {ndim - 1}, but is {mode}. Choose one of them."
            )
        return mode, units(slices, mode)

    def _expect(self, x: Slice | None) -> None:
        if x is not None and self.device != "cpu" and self._paper() is None:
            engine = engine_for(self.device)
            if engine is not None:
                engine.expect(x)

    def coming(self, stream: Iterable[Any]) -> Iterable[Any]:
        if self.device == "cpu":
            yield from stream
            return
        for x, after in with_next(stream):
            self._expect(after if isinstance(after, Slice) else None)
            yield x

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        paper, loss = self._paper(), self.loss_
        if paper is None:
            return auto_solver.learn(
                state,
                x,
                loss,
                number,
                seed,
                forget=self.forget,
                lower=self.lower,
                init_slices=self.init_slices,
                init_starts=self.init_starts,
                card=engine_for(self.device),
                most=self._most(x.shape),
            )
        return paper_solver.learn(paper, self._surroundings(number, seed), state, x, loss)

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        paper, loss = self._paper(), self.loss_
        if paper is None:
            return auto_solver.weigh(state, x, loss, seed, tolerance)
        # Slice number 0 is never learned, so these draws belong to no step.
        return paper_solver.weigh(paper, self._surroundings(0, seed), state, x, loss)[0]

    def _as_recorded(self, x: Slice) -> tuple[Slice, Sequence[FloatArray]]:
        state = self._ready()
        return (x, state.factors) if self.scale is None else auto_solver.as_recorded(state, x)

    def _surroundings(self, number: int, seed: int) -> Surroundings:
        return Surroundings(self._get_lower(), number, seed, self.device, engine().jobs)


def _in_units(start: WarmStart, mode: int, sizes: FloatArray) -> WarmStart:
    """A start from the data, in which the rows of a mode have units of their own."""
    factors = tuple(a / sizes[:, None] if k == mode else a for k, a in enumerate(start.factors))
    slices = tuple(in_units(x, mode, sizes) for x in start.slices)
    return replace(start, factors=factors, slices=slices)
