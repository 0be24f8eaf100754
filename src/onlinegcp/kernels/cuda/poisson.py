"""A step of the conjugate past for Poisson slices without missing cells, in one recording or two.

It finds the weights and what the slice says about the forgetting, decides how much to forget,
moves the factors, absorbs the slice and evaluates the loss. Only short vectors travel, in inboxes
and outboxes that are part of the recording. Where the weights need more looks at the cells than
were recorded, the host sees it in the end and plays the rest again.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from onlinegcp.kernels.cuda import newton, rows
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.cells import STOPPED
from onlinegcp.kernels.cuda.lanes import THREADS
from onlinegcp.kernels.cuda.launches import Launches
from onlinegcp.kernels.cuda.matrices import Place
from onlinegcp.kernels.cuda.plan import (
    Plan,
    size_class,
)
from onlinegcp.kernels.cuda.questions import Answer, Learned, Lesson, Question
from onlinegcp.kernels.cuda.shares import fixed_scale
from onlinegcp.kernels.cuda.slice_cells import SliceCells

Array = NDArray[Any]

# Looks at the cells per recording: the first and three Newton steps; more, where steps had to be
# tried again of late. Looks that are not needed cost little, too few a second play of the rest.
ROUNDS = (4, 8, 16)
# Cells up to which weights are found and learned in one recording. Above, a look too few would
# cost more than the host does between two.
AT_ONCE = 1 << 18
CALMING = 0.25  # looks fewer that are expected after every slice that needed fewer


class PoissonStep(Launches):
    """The phases, for models of one layout."""

    def __init__(self, card: Card, plan: Plan) -> None:
        super().__init__(card, plan)
        self._rounds, self._looks = ROUNDS[0], 0.0

    # ---- the phases

    def solve(self, at: Place, cells: SliceCells, asked: Question) -> Answer:
        """Weights of the loaded slice under the factors of `at`."""
        how, made = self._ask_solve(cells, asked)
        self._find(at, cells, asked, how, made)
        return self._answer(asked)

    def log_sum(self, at: Place, cells: SliceCells, weights: Array, floor: float) -> float:
        """Sum of x log max(m, floor) over the loaded slice."""
        inbox, made = self._inbox, size_class(cells.n)
        inbox["start"][:], inbox["about"][:] = weights, (0.0, floor)
        self._counted[2:4] = cells.n, 1

        def whole() -> None:
            inbox.send()
            given, about = inbox.card("start"), inbox.card("about")
            self._listed(at, cells, made, self._all, given, self._never, about)
            self._add(self._blocks(made), self.plan.width + 1, self._board.card("looked"))
            self._board.receive()

        self._play(("log sum", made), (at.serial,), whole)
        return float(self._board["looked"][self.plan.width])

    def _find(
        self,
        at: Place,
        cells: SliceCells,
        asked: Question,
        how: tuple[Any, ...],
        made: tuple[int, int],
        *,
        ends: bool = True,
    ) -> None:
        """Look at the cells until the weights are found."""

        def whole() -> None:
            self._solve(at, cells, asked, made)

        def more() -> None:
            self._go_on(at, cells, asked, made)

        self._play(("solve", *how), (at.serial,), whole, ends=ends)
        while not self._controls[STOPPED]:
            self._play(("more", *how), (at.serial,), more, begins=False, ends=ends)

    def step(
        self, at: Place, to: Place, cells: SliceCells, asked: Question, lesson: Lesson
    ) -> tuple[Answer, Learned]:
        """Solve for the weights of the loaded slice and learn it: `to` becomes `at` after it.

        Parameters
        ----------
        at, to
            Matrices before and after; `at` stays as it is.
        cells
            The slice.
        asked, lesson
            How it is solved and learned.
        """
        inbox, width, modes = self._inbox, self.plan.width, self.plan.modes
        how, made = self._ask_solve(cells, asked)
        inbox["mass"][:], inbox["events"][0] = lesson.mass, lesson.events
        self._memory.ask(lesson)
        how, places = (*how, lesson.share, lesson.sweeps), (at.serial, to.serial)

        def learn() -> None:
            self._learn(at, to, cells, lesson)

        def alone() -> None:
            learn()
            self._board.receive()

        if cells.n <= AT_ONCE:
            self._play(("step", *how), places, lambda: self._solve(at, cells, asked, made, learn))
            while not self._controls[STOPPED]:
                self._play(
                    ("rest", *how), places, lambda: self._go_on(at, cells, asked, made, learn)
                )
        else:
            # Responsibilities wait in the sums in between.
            self._find(at, cells, asked, how, made, ends=False)
            self._play(("learn", *how), places, alone, begins=False)
        board = self._board
        absorbed = board["absorbed"].reshape(modes, rows.ABSORB_SUMS, width)
        weights = board["phi_sums"][:width].copy()
        # Columns sum to one, so that the model's total is the sum of its weights.
        total = float(weights[: self.plan.rank].sum())
        return self._answer(asked), Learned(
            weights=weights,
            prior=absorbed[0, rows.PRIOR].copy(),
            counts=weights,
            local=total - float(board["found"][width]),
            health=rows.health_of(absorbed),
            kept=self._memory.decided(lesson),
        )

    def _ask_solve(
        self, cells: SliceCells, asked: Question
    ) -> tuple[tuple[Any, ...], tuple[int, int]]:
        """Fill the inbox; what a recording depends on, and the sizes it is made for."""
        inbox = self._inbox
        inbox["start"][:] = asked.start
        inbox["given"][:] = asked.total, asked.tolerance, asked.max_steps
        given = asked.column_sums is not None
        if asked.column_sums is not None:
            inbox["sums"][:], inbox["given"][0] = asked.column_sums, 0.0
        inbox["scale"][0] = fixed_scale(asked.total)
        self._counted[:4] = asked.looked_at, asked.every, cells.n, 1
        made = (size_class(asked.looked_at), size_class(cells.n))
        self._pick(cells, asked.looked_at, asked.every)  # makes room before anything is recorded
        how = (*made, self._rounds, asked.em_steps, asked.learned, asked.every > 1, given)
        return how, made

    def _answer(self, asked: Question) -> Answer:
        board, numbers, width = self._board, self._board["numbers"], self.plan.width
        self._looks = max(float(self._controls[newton.LOOKS]), self._looks - CALMING)
        self._rounds = next((n for n in ROUNDS if n >= self._looks), ROUNDS[-1])
        vectors = board["vectors"].reshape(newton.VECTORS, width)
        logs = board["slopes"][2 * width + 1] if asked.learned else board["looked"][width]
        return Answer(
            weights=vectors[newton.WEIGHTS].copy(),
            column_sums=vectors[newton.COLUMN_SUMS].copy(),
            objective=float(numbers[newton.OBJECTIVE]),
            steps=int(self._controls[newton.STEPS]),
            optimality=float(numbers[newton.WORST]),
            logs=float(logs),
        )

    # ---- what they consist of

    def _solve(
        self,
        at: Place,
        cells: SliceCells,
        asked: Question,
        made: tuple[int, int],
        then: Callable[[], None] | None = None,
    ) -> None:
        plan, board, inbox, stream = self.plan, self._board, self._inbox, self.card.stream
        inbox.send()
        sums, modes = inbox.card("sums"), 1
        if asked.column_sums is None:
            sums, modes = board.card("column_sums"), plan.modes
            self._column_sums(at)
        newton.begin_kernel()[1, THREADS, stream, 8 * plan.width](
            plan.rank, plan.width, modes, asked.em_steps, inbox.card("start"), sums,
            inbox.card("given"), self._control, board.card("numbers"), board.card("vectors"),
        )  # fmt: skip
        picked = self._pick(cells, asked.looked_at, asked.every)
        self._picks(cells, picked, made[0])
        for _ in range(asked.em_steps):
            self._listed(
                at, picked, made[0], self._looked, self._vector(newton.TRIAL), self._control
            )
            self._add(self._blocks(made[0]), plan.width + 1, self._found, self._control, STOPPED)
            self._judge()
        self._go_on(at, cells, asked, made, then)

    def _go_on(
        self,
        at: Place,
        cells: SliceCells,
        asked: Question,
        made: tuple[int, int],
        then: Callable[[], None] | None = None,
    ) -> None:
        """Look at the cells until the weights are found, and then do something else."""
        picked = self._pick(cells, asked.looked_at, asked.every)
        for _ in range(self._rounds):
            trial = self._vector(newton.TRIAL)
            self._curved(at, picked, made[0], trial, self._control, self._found)
            self._judge()
        if asked.learned:
            self._slopes(at, cells, made[1])
        elif asked.every > 1 and asked.column_sums is None:
            weights = self._vector(newton.WEIGHTS)
            self._listed(at, cells, made[1], self._all, weights, self._never)
            self._add(self._blocks(made[1]), self.plan.width + 1, self._board.card("looked"))
        if then is not None:
            then()
        self._board.receive()

    def _learn(self, at: Place, to: Place, cells: SliceCells, lesson: Lesson) -> None:
        """Learn the slice with the weights on the card; nothing is shared out before they are."""
        plan, board, inbox, stream = self.plan, self._board, self._inbox, self.card.stream
        width, phi, made = plan.width, self._room("phi"), size_class(cells.n)
        counts, learned = board.card("phi_sums", 0, width), lesson.learned
        if learned:
            self._memory.decide(board.card("slopes"), board.card("slopes"), 0)
        lam, lift = self._memory.factors(learned)
        for sweep in range(lesson.sweeps):
            if sweep > 0:
                rows.unscaled_kernel()[1, THREADS, stream](
                    counts, board.card("column_sums"), width, plan.modes, board.card("unscaled")
                )
                self._shares(to, cells, made, board.card("unscaled"))
            elif not learned:
                self._shares(at, cells, made, self._vector(newton.WEIGHTS))
            rows.settle_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, plan.row_bytes](
                self._room("fixed"), width, plan.chunks, plan.modes_of, 0,
                plan.offsets, plan.bases, plan.copies, inbox.card("scale"), 0, phi, self._parts,
            )  # fmt: skip
            self._add_modes(width, board.card("phi_sums"))
            rows.blend_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, plan.row_bytes](
                at.factors, phi, at.rate, lam, counts, True, width, plan.chunks, 0,
                to.factors, self._parts,
            )  # fmt: skip
            # The columns are divided by their sums when they are written next.
            self._add_modes(width, board.card("column_sums"))
        floors = board.card("floors")
        rows.floors_kernel()[1, THREADS, stream](
            plan.rank, width, plan.modes, inbox.card("mass"), counts, inbox.card("events"),
            lesson.share, plan.lengths, floors,
        )  # fmt: skip
        absorb_bytes = rows.ABSORB_SUMS * plan.row_bytes
        rows.absorb_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, absorb_bytes](
            at.factors, phi, at.rate, lam, counts, True, width, plan.chunks,
            plan.modes_of, 0, self._ones, board.card("column_sums"), lift, floors,
            learned, at.sensitivity, to.factors, to.rate, to.sensitivity, self._parts,
        )  # fmt: skip
        self._add_modes(rows.ABSORB_SUMS * width, board.card("absorbed"))
        rows.finish_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream](
            board.card("absorbed"), floors, learned, width, plan.chunks, plan.modes_of, 0,
            to.factors, to.sensitivity,
        )  # fmt: skip
        self._listed(to, cells, made, self._all, counts, self._never)
        self._add(self._blocks(made), width + 1, board.card("found"))
