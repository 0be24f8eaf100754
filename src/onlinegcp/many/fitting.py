"""One call that learns many streams."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from onlinegcp.errors import DataError
from onlinegcp.many.streams import ManyStreams, Progress
from onlinegcp.run.settings import OF_THE_SOURCE
from onlinegcp.streaming import StreamingModel


def fit_many(
    streams: Any,
    model: StreamingModel,
    path: str | os.PathLike[str],
    *,
    by: str | None = None,
    modes: Sequence[Any] | None = None,
    labels: Sequence[Sequence[object]] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    level: float = 0.01,
    period: int | None = None,
    longer: bool = False,
    holidays: str | None = None,
    hold_flagged: bool = False,
    overwrite: bool = False,
    **events: Any,
) -> ManyStreams:
    """Learn one independent model per stream, over all cores, into one run directory.

    Parameters
    ----------
    streams
        A table of events with a column that tells its streams apart, as `from_events` takes it; or
        a mapping from names to slices.
    model
        What every stream begins with; not fitted yet.
    path
        The run directory to make.
    by
        The column, for a table.
    modes
        Names of the modes of slices; for a table as in `from_events`.
    labels
        Names of the rows of each mode, where slices are given.
    n_jobs
        Processes to use; all cores by default. The result does not depend on it.
    progress
        Called with all `many.News` so far, several times a second.
    level, period, longer, holidays, hold_flagged, overwrite
        As for `Run.create`, the same for all streams.
    **events
        Arguments of `from_events`: time, every, value, ...

    Returns
    -------
    many
        The run, to be read; `ManyStreams.open` goes on with it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from onlinegcp import OnlineGCP, Slice
    >>> rng = np.random.default_rng(0)
    >>> shops = {
    ...     name: [Slice.dense(rng.poisson(3.0, (4, 3)), time=t) for t in range(6)]
    ...     for name in ("north", "south")
    ... }
    >>> model = OnlineGCP(1, "poisson", init_slices=3)
    >>> many = fit_many(shops, model, f"{tempfile.mkdtemp()}/shops.run", n_jobs=1)
    >>> {facts.stream: facts.account.slices for facts in many.facts()}
    {'north': 6, 'south': 6}
    """
    of_source = {name: events.pop(name) for name in OF_THE_SOURCE if name in events}
    settings = None if by is None else {**events, "modes": modes or ()}
    if by is None and (events or of_source):
        raise DataError(
            f"{', '.join(sorted({**events, **of_source}))} say how a table is read, but there is "
            "no by=... to tell its streams apart. Name the column, or give slices only."
        )
    with ManyStreams.create(
        path,
        model,
        modes=None if by is not None else [str(mode) for mode in modes or ()],
        labels=labels,
        by=by,
        events=settings,
        level=level,
        period=period,
        longer=longer,
        holidays=holidays,
        hold_flagged=hold_flagged,
        overwrite=overwrite,
    ) as many:
        many.learn(streams, n_jobs=n_jobs, progress=progress, **of_source)
    return ManyStreams.open(path, write=False, loss=many.loss)
