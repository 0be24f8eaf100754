"""`onlinegcp warmup`: compile everything now, so that nothing waits for it later."""

from __future__ import annotations

from typing import Any

from onlinegcp.cli.options import Quiet


def warmup(*, quiet: Quiet = False) -> None:
    """Compile the kernels of every loss, for sparse and dense slices; cached on disk.

    Parameters
    ----------
    quiet
        Say nothing.
    """
    import numpy as np

    from onlinegcp.cli.ahead import mark_compiled
    from onlinegcp.cli.terminal import Bar, duration, say
    from onlinegcp.losses import LOSS_NAMES
    from onlinegcp.slices import Slice
    from onlinegcp.streaming import METHODS, OnlineGCP

    rng = np.random.default_rng(0)
    cases: list[tuple[str, Any]] = [
        (name, solver) for solver in ("auto", "sgd") for name in LOSS_NAMES
    ]
    with Bar(len(cases) + len(METHODS), quiet=quiet, what="compiling") as bar:
        for done, (name, solver) in enumerate(cases):
            bar.tell(f"{name}, {solver}", done)
            model = OnlineGCP(2, name, solver=solver, init_slices=2, init_starts=1)
            positive = name in ("gamma", "rayleigh", "zero_truncated_poisson")
            for t in range(4):
                cells = rng.integers(1 if positive else 0, 2, (5, 4, 3)).astype(np.float64)
                if t % 2 or positive:
                    x = Slice.dense(cells)
                else:
                    x = Slice(np.argwhere(cells), cells[cells > 0], cells.shape)
                model.partial_fit([x])
            mark_compiled(name)
        for done, method in enumerate(METHODS.values(), len(cases)):
            bar.tell(method.__name__, done)
            rival = method(2, init_slices=2)
            for _ in range(3):
                rival.partial_fit([Slice.dense(rng.random((5, 4, 3)))])
        if not quiet:
            say(f"All kernels are compiled and cached ({duration(bar.seconds)}).")
