"""The protocol every streaming method follows, and all that the methods share.

A method is a final class with declarations and a few hooks: which loss it minimises, which
parameters it refuses, how it starts from a warm start, how it learns one slice and how it weighs
one without learning it. The state is a value that a step replaces, so that a step that fails leaves
the model as it was.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from onlinegcp.checks import LARGEST_RANK, check_whole
from onlinegcp.errors import DataError
from onlinegcp.forecasting.recent import Recent
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice, widen
from onlinegcp.streaming.admission import admit, tell_rank
from onlinegcp.streaming.cancelling import tell_cancelling
from onlinegcp.streaming.inputs import is_stream, read_one, read_slices, refuse_whole_tensor
from onlinegcp.streaming.keeping import begun, kept, learning, tell_left_out
from onlinegcp.streaming.naming import Names
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.saving import Keeping
from onlinegcp.streaming.scaling import tell_scale
from onlinegcp.streaming.settled import check_settled
from onlinegcp.streaming.showing import Showing, remember
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.told import Told, check_told
from onlinegcp.streaming.undo import undone_on_error
from onlinegcp.streaming.walking import Walk, within_reach
from onlinegcp.streaming.warm_start import WarmStart, given_start, static_start
from onlinegcp.streaming.workers import with_workers


@dataclass(eq=False, repr=False)
class StreamingModel(Showing, Keeping):
    """A CP model that is kept up to date while slices arrive.

    Its fields are the parameters that all methods share; a method adds its own.

    Parameters
    ----------
    rank
        Number of components.
    init, init_slices, init_starts
        Start from this model, or from CP-ALS on the first `init_slices` slices, best of
        `init_starts`.
    random_state
        Seed of the warm start.
    ndim, mode_names
        How many modes slices have, or what these are called: with two, a bare matrix is a slice.
        Without either the first slice must say it.
    """

    # What a class declares about itself; the suite in `onlinegcp.testing` holds it to that.
    takes_missing: ClassVar[bool]  # it is defined on slices with missing cells
    dense_only: ClassVar[bool] = False  # complete slices are written out before it sees them
    changes_rank = False  # components come and go; `rank` is where it starts
    finds_rank: ClassVar[bool] = False  # "auto" is one of its ranks
    tells_order: ClassVar[bool] = False  # and its records say which went where
    walks: ClassVar[bool] = False  # several slices may be learned in one call, by `_walk`
    gathers: ClassVar[str | None] = None  # parameter: how many slices are learned together
    bounded_by: ClassVar[str | None] = None  # parameter: how far its state may grow
    most_models: ClassVar[int] = 2  # itself and rivals on trial, which it may hold for a while

    rank: int
    _: KW_ONLY
    init: KTensor | None = None
    init_slices: int = 10
    init_starts: int = 3
    random_state: int | None = 0
    ndim: int | None = None
    mode_names: Sequence[str] | None = None

    # ---- hooks of a method

    @property
    def loss_(self) -> Loss:
        """The loss the model minimises: gaussian, unless a method has others."""
        return get_loss("gaussian")

    @abc.abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that are out of range."""

    def _get_lower(self) -> float:
        """The bound on factors and weights, -inf for none."""
        return -np.inf

    def _may_grow(self) -> bool:
        """Whether modes may get new rows along the stream."""
        return False

    def _settled(self) -> dict[str, Any]:
        """Parameters that must stay as they were at the first slice, by name."""
        return {"rank": self.rank, "loss": self.loss_, "lower": self._get_lower()}

    @abc.abstractmethod
    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        """The state after the warm start."""

    def _prepared(self, slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
        """The first slices as the method sees them."""
        return slices

    @abc.abstractmethod
    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        """The state after slice `number`, and the account of it."""

    def _walk(self, state: ModelState, slices: Sequence[Slice], number: int, seed: int) -> Walk:
        """Learn slices from `number` on: the first, or as many as the method can at once (`walks`).

        What makes the model other than finite, or a mode of it zeros, comes first or not at all.
        """
        found, record = self._learn(state, slices[0], number, seed)
        return Walk(found, record, (found.weights * found.magnitudes)[None, :])

    @abc.abstractmethod
    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        """Weights of a slice under the present factors; changes nothing.

        No closer than to `tolerance` if one is given and the method can stop early.
        """

    def _first_rank(self, slices: Sequence[Slice]) -> int:
        """The rank of the model that these first slices get."""
        return int(self.rank)

    def _static_start(self, slices: Sequence[Slice]) -> WarmStart:
        """A model of the first slices."""
        how: dict[str, Any] = {"lower": self._get_lower(), "starts": self.init_starts}
        return static_start(slices, self._first_rank(slices), self.loss_, seed=self._seed, **how)

    def _learn_batch(
        self, state: ModelState, batch: Sequence[Slice], number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        """The state after slices up to `number`, and the account of the newest (`gathers`)."""
        raise NotImplementedError(f"{type(self).__name__} gathers slices but cannot learn them")

    def _largest_state(self, shape: tuple[int, ...]) -> int | None:
        """Most bytes the state may take for slices of this shape; None: as the factors do."""
        return None

    # ---- learning

    def fit(self, stream: Any, y: Any = None) -> Self:
        """Forget everything and learn a whole stream.

        An error or Ctrl-C leaves a model of the slices before.

        Parameters
        ----------
        stream
            Iterable of slices (or of anything `as_slice` takes), or a table whose rows are 1-way
            slices. A generator is read slice by slice and never held as a whole.
        y
            Ignored; part of scikit-learn's contract.
        """
        refuse_whole_tensor(stream, self._declared())
        self._reset()
        if is_stream(stream):
            for x in self.coming(stream):
                with undone_on_error(self):
                    one, self._names = read_one(x, told=self._told())
                    self._absorb([one])
        else:
            with undone_on_error(self):
                self._take(stream, told=self._told(table=self._declared() in (None, 1)))
        if self.n_slices_ == 0:
            raise DataError(
                "a stream of at least one slice was needed, but it was empty. Check its source."
            )
        self._finish_warm_start()
        self._learn_gathered()
        return self

    def partial_fit(self, x: Any, y: Any = None, *, time: Any = None) -> Self:
        """Learn the next slice, or several: in a list, small ones take less time than one by one.

        Either everything passed in is learned, or an error leaves the model as it was.

        Parameters
        ----------
        x
            A slice, a list of slices, or a table whose rows are 1-way slices. A bare matrix could
            be either: it is one slice under ``ndim=2``, two `mode_names` or after an explicit one
            (``[matrix]``), a table under ``ndim=1``, after `fit` to a table or where `y` comes
            along; else it is refused. Labels of rows (pandas, xarray) say where rows belong.
        y
            Not learned from. As part of scikit-learn's contract it says that `x` is a table.
        time
            Time of the slice (one per slice where several come in); kept in the records.
        """
        with undone_on_error(self):
            if not hasattr(self, "n_slices_"):
                self._reset()
            self._take(x, time, told=self._told(table=y is not None))
        return self

    def start_from(self, init: KTensor, slices: Any) -> Self:
        """Forget everything and begin from a given model of the first slices.

        Nothing is rescaled. With the parameter ``init`` those slices are gone; here methods that
        need more than the model (OnlineCP, RLST, SDT) see the data, as their authors' codes do.

        Parameters
        ----------
        init
            A model with a last mode of time: its row t, times the weights, is for slice t.
        slices
            The slices, as for `partial_fit`.
        """
        with undone_on_error(self):
            self._reset()
            read, _, self._names = read_slices(self, slices, told=self._told())
            held = self._check_slices(read, may_grow=True)
            self._start_given(init, held[-1].shape, held)
        return self

    # ---- what was learned

    @property
    def started_(self) -> bool:
        """Whether the warm start is over, so that each slice is predicted before it is learned."""
        return getattr(self, "_state", None) is not None

    @property
    def shape_(self) -> tuple[int, ...]:
        """Lengths of the modes, as far as they were seen."""
        return self._ready().shape

    @property
    def factors_(self) -> tuple[FloatArray, ...]:
        """One matrix (I_k, R) per mode."""
        return tuple(a.copy() for a in self._ready().factors)

    @property
    def weights_(self) -> FloatArray:
        """Weights of the newest slice that was learned."""
        return self._ready().weights.copy()

    @property
    def n_waiting_(self) -> int:
        """Slices of `n_slices_` that are not learned yet: a warm start, or a batch, fills up."""
        self._check_fitted()
        return len(self._buffer)

    def aligned(self, x: Any) -> tuple[Slice, Names | None]:
        """One slice, its rows where the model has their labels, and the names known after it."""
        return read_one(x, told=self._told())

    # ---- keeping it

    def check_parameters(self) -> None:
        """Refuse parameters that no data could make right; the first slice does the same."""
        rank: Any = self.rank
        if not (self.finds_rank and isinstance(rank, str) and rank == "auto"):
            or_auto = " or 'auto'," if self.finds_rank else ""
            check_whole("rank", rank, 1, LARGEST_RANK, or_auto)
        for name in ("init_slices", "init_starts", self.gathers):
            if name is not None:
                check_whole(name, getattr(self, name), 1)
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0)
        check_told(self.ndim, self.mode_names)
        self._check_parameters()

    # ---- inner workings

    def _reset(self) -> None:
        self.check_parameters()
        if self.random_state is None:
            self._seed = int(np.random.SeedSequence().generate_state(1)[0])
        else:
            self._seed = int(self.random_state)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        self.n_slices_ = 0
        self.last_ = None
        self._began_with = self._settled()
        self._names = self._first_names()
        self._past, self._recent = np.empty((0, 0)), Recent()
        self._state = None
        self._buffer = ()
        self._provisional: tuple[ModelState, list[int]] | None = None  # during the warm start

    def _take(self, x: Any, time: Any = None, *, told: Told) -> None:
        """Learn what came in, under the names it came with."""
        slices, _, self._names = read_slices(self, x, time, told=told)
        self._absorb(slices)

    def _shape(self) -> tuple[int, ...] | None:
        """What the next slice to learn is compared with: waiting slices may have grown."""
        if self._buffer:
            return self._buffer[-1].shape
        return None if self._state is None else self._state.shape

    def _read(self, x: Any) -> tuple[list[Slice], bool]:
        self._check_fitted()
        slices, single, _ = read_slices(self, x, told=self._told(may_grow=False))
        return self._check_slices(slices, may_grow=False), single

    @with_workers
    def _weigh_all(self, slices: Sequence[Slice], tolerance: float | None = None) -> FloatArray:
        state = self._ready()
        with one_blas_thread():
            return np.array([self._weigh(state, x, self._seed, tolerance) for x in slices])

    def _check_slices(self, slices: Sequence[Slice], *, may_grow: bool) -> list[Slice]:
        """The slices in the model's shape, or what it will have grown to; refuses bad ones."""
        self._check_parameters()  # which may have been changed since the last slice
        check_settled(self)
        shape = self._shape()
        if not may_grow and self._state is not None:  # slices that wait may have grown
            shape = self._state.shape
        return admit(self, slices, shape, may_grow=may_grow)

    @with_workers
    def _absorb(self, slices: Sequence[Slice]) -> None:
        """Check all slices, then learn them one by one, or as many together as are gathered."""
        enough = 1 if self.gathers is None else int(getattr(self, self.gathers))
        checked, at, new = self._check_slices(slices, may_grow=True), 0, 0
        while at < len(checked):
            x = checked[at]
            self._expect(checked[at + 1] if at + 1 < len(checked) else None)
            if self._state is None and self.init is not None:
                self._start_given(self.init, x.shape)
            if self._state is not None and enough == 1:
                done = self._advance(within_reach(self, checked, at), self._state)
                at, new = at + done, new + done
                continue
            at += 1
            self._buffer = (*(widen(old, x.shape) for old in self._buffer), x)
            self.n_slices_ += 1
            self._provisional = None
            if self._state is None and len(self._buffer) >= self.init_slices:
                self._finish_warm_start()
            elif self._state is not None and len(self._buffer) >= enough:
                self._learn_gathered()
        if new:  # learned one by one or in walks, which come last
            self._recent = self._recent.after(*checked[len(checked) - new :])

    def _advance(self, slices: Sequence[Slice], state: ModelState) -> int:
        """Learn the first of the slices, or more of them at once; how many."""
        with learning(slices[:1]):
            walk = self._walk(state, slices, self.n_slices_ + 1, self._seed)
        self._state, self.last_ = kept(walk.state, state, slices[:1]), walk.record
        self.n_slices_ += len(walk.held)
        order = None if walk.record is None else walk.record.order
        unseen = [x.unlisted == "missing" and not len(x.value) for x in slices[: len(walk.held)]]
        held = np.where(np.array(unseen)[:, None], np.nan, walk.held)
        self._past = remember(self._past, held, order)
        tell_cancelling(self, self._state)
        return len(walk.held)

    def _start_given(
        self, init: KTensor, shape: tuple[int, ...], slices: Sequence[Slice] = ()
    ) -> None:
        rank = None if self.changes_rank else self.rank
        start = given_start(init, shape, rank, self._get_lower(), slices)
        self._state = self._begin(start, self._seed)
        self.n_slices_ = start.n_rows

    def _finish_warm_start(self) -> None:
        if self._state is None and self._buffer:
            self._state = self._ready()
            assert self._provisional is not None
            tell_left_out(self._buffer, self._provisional[1])
            tell_rank(self, self._buffer[0].size)
            tell_scale(self, self._buffer)
            self._buffer = ()
            self._provisional = None

    def _learn_gathered(self) -> None:
        """Learn the slices that wait, be they a whole batch or what is left of the stream."""
        if self._state is not None and self._buffer:
            batch, number = self._buffer, self.n_slices_
            with learning(batch):
                found, record = self._learn_batch(self._state, batch, number, self._seed)
            self._state, self.last_ = kept(found, self._state, batch), record
            self._buffer = ()

    def _ready(self) -> ModelState:
        """The state, or during the warm start what it would be if the stream ended here."""
        state: ModelState | None = getattr(self, "_state", None)
        return self._ended_here() if state is None else state

    @with_workers
    def _ended_here(self) -> ModelState:
        self._check_fitted()
        if self._provisional is None:
            self._provisional = begun(
                self._prepared(self._buffer),
                lambda some: self._begin(self._static_start(some), self._seed),
            )
        return self._provisional[0]
