"""Small runs on files of events, for tests of what is read again."""

from __future__ import annotations

import datetime

import numpy as np

from onlinegcp import runlog
from onlinegcp.run import Run
from onlinegcp.streaming import OnlineGCP

START = datetime.date(2018, 1, 1)
SETTINGS = {"time": "when", "every": "1d", "modes": ["pu", "when:weekday"]}


def write_days(path, first, end, header=True):
    """Some events per day; more and more places are known."""
    rows = ["when,pu"] if header else []
    for day in range(first, end):
        rng = np.random.default_rng(day)
        date = START + datetime.timedelta(days=day)
        rows += [f"{date}T08:00,z{pu}" for pu in rng.integers(0, 2 + day // 4, rng.poisson(30) + 1)]
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def create(path):
    model = OnlineGCP(2, "poisson", init_slices=4, init_starts=1, random_state=0)
    return Run.create(path, model, modes=SETTINGS["modes"], events=SETTINGS)


def learn(path, source, stop_after=None, **options):
    """Fit or update; perhaps only some slices of it."""
    left = [stop_after]

    def stop():
        left[0] = None if left[0] is None else left[0] - 1
        return left[0] == 0

    with Run.open(path) if (path / runlog.RUN).exists() else create(path) as run:
        run.learn(run.stream(source, **options), stop=stop)
