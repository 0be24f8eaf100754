"""Small runs on slices and on files of events, and what makes two runs the same."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np

from onlinegcp import runlog
from onlinegcp.run import Run
from onlinegcp.runlog.labels import LABELS
from onlinegcp.slices import Slice
from onlinegcp.storage.archive import read_archive
from onlinegcp.streaming import OnlineGCP

START = datetime.date(2018, 1, 1)
SETTINGS = {
    "time": "when",
    "every": "1d",
    "modes": ["pu", "do", "when:weekday"],
    "share": [("pu", "do")],
}


def small_model(**parameters):
    return OnlineGCP(**({"rank": 2, "loss": "poisson", "init_slices": 4} | parameters))


def make_slices(n=12, shape=(5, 4), seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.gamma(1.0, 1.0, (shape[0], 2)), rng.gamma(1.0, 1.0, (shape[1], 2))
    return [
        Slice.dense(
            rng.poisson(4 * (a * rng.uniform(0.5, 1.5, 2)) @ b.T).astype(float),
            time=START + datetime.timedelta(days=t),
        )
        for t in range(n)
    ]


def write_events(path, n_days=30, seed=0, first=0):
    """A CSV file whose places are known only bit by bit."""
    rng = np.random.default_rng(seed)
    rows = ["when,pu,do"]
    for day in range(n_days):
        known = min(4 + day // 4, 9)
        for _ in range(rng.poisson(40)):
            pu, do = rng.integers(0, known, 2)
            hour = rng.integers(0, 24)
            date = START + datetime.timedelta(days=day)
            if day >= first:
                rows.append(f"{date}T{hour:02}:15,z{pu},z{do}")
    path.write_text("\n".join(rows) + "\n")
    return path


def steps_of(path):
    steps = [json.loads(line) for line in (Path(path) / runlog.STEPS).read_text().splitlines()]
    return [
        {name: value for name, value in step.items() if name not in ("seconds", "crc")}
        for step in steps
    ]


def without_seconds(value):
    # The same rows in two files are two sources.
    left_out = ("seconds", "n_sources")
    if isinstance(value, dict):
        return {k: without_seconds(part) for k, part in value.items() if k not in left_out}
    return [without_seconds(part) for part in value] if isinstance(value, list) else value


def assert_same_run(found, wanted):
    assert steps_of(found) == steps_of(wanted)
    ours = read_archive(Path(found) / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND)
    theirs = read_archive(Path(wanted) / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND)
    assert sorted(ours[0]) == sorted(theirs[0])
    for name, array in ours[0].items():
        assert array.dtype == theirs[0][name].dtype, name
        assert array.tobytes() == theirs[0][name].tobytes(), name
    assert without_seconds(ours[1]) == without_seconds(theirs[1])
    if ours[1]["labels"] is not None:
        labels = [(Path(path) / LABELS).read_bytes() for path in (found, wanted)]
        assert labels[0] == labels[1]


def learn_slices(path, slices, **options):
    with Run.create(path, small_model(), modes=["a", "b"]) as run:
        return run.learn(slices, **options)


def files_of(path):
    return {file.name: file.read_bytes() for file in Path(path).iterdir() if file.is_file()}


def learn_events(path, source, *, stop=None, **options):
    if (Path(path) / runlog.RUN).exists():
        run = Run.open(path)
    else:
        run = Run.create(path, small_model(), modes=SETTINGS["modes"], events=SETTINGS)
    with run:
        return run.learn(run.stream(source, **options), stop=stop)
