"""`onlinegcp warmup`: compile everything now, so that nothing waits for it later.

A second process walks the same list from its other end: what one of them has stored, the other
loads, and they meet in the middle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from onlinegcp.cli.options import Quiet

Case = tuple[str, Callable[[], None]]


def warmup(*, quiet: Quiet = False) -> None:
    """Compile the kernels of every loss, for sparse and dense slices; cached on disk.

    Parameters
    ----------
    quiet
        Say nothing.
    """
    from onlinegcp.cli.ahead import beside, mark_compiled
    from onlinegcp.cli.terminal import Bar, duration, say
    from onlinegcp.losses import LOSS_NAMES

    cases = _cases()
    with beside("onlinegcp.cli.warmup"), Bar(len(cases), quiet=quiet, what="compiling") as bar:
        for done, (name, compile_it) in enumerate(cases):
            bar.tell(name, done)
            compile_it()
        for loss in LOSS_NAMES:
            mark_compiled(loss)
        if not quiet:
            say(f"All kernels are compiled and cached ({duration(bar.seconds)}).")


def _cases() -> Sequence[Case]:
    """Small streams that between them use every kernel."""
    from functools import partial

    from onlinegcp.losses import LOSS_NAMES
    from onlinegcp.streaming import METHODS

    cases: list[Case] = [
        (f"{name}, {solver}", partial(_learn_loss, name, solver))
        for solver in ("auto", "sgd")
        for name in LOSS_NAMES
    ]
    # Before those of the other end: by themselves they need little.
    middle = len(LOSS_NAMES)
    methods = [(name, partial(_learn_method, name)) for name in METHODS]
    return [*cases[:middle], *methods, *cases[middle:]]


def _learn_loss(name: str, solver: str) -> None:
    import numpy as np

    from onlinegcp.losses import get_loss
    from onlinegcp.slices import Slice
    from onlinegcp.streaming import OnlineGCP

    rng = np.random.default_rng(0)
    model = OnlineGCP(2, name, solver=solver, init_slices=2, init_starts=1)  # type: ignore[arg-type]
    positive = not get_loss(name).unlisted_zeros_allowed
    for t in range(4):
        cells = rng.integers(1 if positive else 0, 2, (5, 4, 3)).astype(np.float64)
        if t % 2 or positive:
            x = Slice.dense(cells)
        else:
            x = Slice(np.argwhere(cells), cells[cells > 0], cells.shape)
        model.partial_fit([x])


def _learn_method(name: str) -> None:
    import numpy as np

    from onlinegcp.slices import Slice
    from onlinegcp.streaming import METHODS

    rng = np.random.default_rng(0)
    rival = METHODS[name](2, init_slices=2)
    for _ in range(3):
        rival.partial_fit([Slice.dense(rng.random((5, 4, 3)))])


if __name__ == "__main__":
    with contextlib.suppress(Exception):  # the process that waits for nothing meets it as well
        for _, compile_it in reversed(_cases()):
            compile_it()
