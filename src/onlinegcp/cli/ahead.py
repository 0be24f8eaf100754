"""A second process compiles what slices need, while this one compiles what the warm start needs.

Only where nothing is compiled yet, and where there is a second core. The two share nothing but the
folder of compiled code: a kernel that the other has stored is loaded, one that it has not is
compiled here as well. Nothing depends on it but the time of a first command.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

# Slices the second process learns: enough for every pass that an ordinary stream makes early on.
N_SLICES = 40
SHAPE = (5, 4, 3)


@contextlib.contextmanager
def compiling_ahead(loss: str) -> Iterator[None]:
    """Have the streaming kernels of a loss compiled beside what happens in this block.

    Parameters
    ----------
    loss
        Name of a built-in loss.
    """
    with contextlib.nullcontext() if is_compiled(loss) else beside("onlinegcp.cli.ahead", loss):
        yield


@contextlib.contextmanager
def beside(module: str, *words: str) -> Iterator[None]:
    """Run a module of ours in a second process, for as long as this block takes at most.

    Parameters
    ----------
    module
        The name of the module.
    *words
        The words after it.
    """
    from onlinegcp.sums.local import cores

    helper = None
    with contextlib.suppress(OSError):  # a machine without room for a process goes on alone
        if cores() > 1 and sys.executable:
            helper = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    try:
        yield
    finally:
        if helper is not None:
            helper.terminate()
            helper.wait()


def is_compiled(loss: str) -> bool:
    """Whether the streaming kernels of a loss are known to be on disk."""
    return _stamp(loss).exists()


def mark_compiled(loss: str) -> None:
    """Remember that the streaming kernels of a loss are on disk."""
    with contextlib.suppress(OSError):
        _stamp(loss).touch()


def compile_start(loss: str) -> None:
    """Find a start for a few small slices."""
    from onlinegcp.losses import get_loss
    from onlinegcp.streaming.warm_start import static_start

    chosen = get_loss(loss)
    static_start(_small_slices(2), 2, chosen, lower=chosen.lower, starts=2, seed=0)


def compile_streaming(loss: str) -> None:
    """Learn and judge a few small slices, from a start that is given."""
    import numpy as np

    from onlinegcp.anomaly import AnomalyTracker, is_counted, score_slice
    from onlinegcp.ktensor import KTensor
    from onlinegcp.losses import get_loss
    from onlinegcp.streaming import OnlineGCP

    rng = np.random.default_rng(0)
    modes = ("a", "b", "c")
    labels = [[f"{mode}{k}" for k in range(n)] for mode, n in zip(modes, SHAPE, strict=True)]
    start = KTensor(np.ones(2), [rng.random((n, 2)) for n in SHAPE])
    model, history = OnlineGCP(2, loss, init=start), AnomalyTracker(2)
    slices = _small_slices(N_SLICES)
    for x in slices:  # first what is needed first
        history.update_unscored(x, counted=is_counted(get_loss(loss)))
    for x in slices:
        model.partial_fit(x)
        model.score(x)  # as the lines of a warm start and the report do
        history.update(score_slice(model, x, labels, history=history, modes=modes))


def _small_slices(n: int) -> list[Slice]:
    import numpy as np

    from onlinegcp.slices import Slice

    rng = np.random.default_rng(0)
    # Fits counts, yes or no, amounts.
    cells = rng.integers(0, 2, (n, *SHAPE)).astype(np.float64)
    return [Slice(np.argwhere(x), x[x > 0], SHAPE) for x in cells]


def _stamp(loss: str) -> Path:
    from onlinegcp.kernels.jit import cache_directory

    return cache_directory() / f"streaming-{loss}"


if __name__ == "__main__":
    # A loss that zeros are no data of is compiled when it is used; once tried is enough.
    with contextlib.suppress(Exception):
        compile_streaming(sys.argv[1])
    mark_compiled(sys.argv[1])
