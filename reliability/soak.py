"""A run killed a hundred times and out of disk twice equals one that nobody touched.

    python -m reliability.soak --slices 1000000 --kills 100

Each slice is small, so that a million of them take an hour or two rather than a week; what is
tested is the run, not the solver. Both runs are learned side by side. The one that is disturbed
lies in a file system of its own, which is filled to the last byte while it learns (where none can
be mounted, files that may not grow stand for it, and that is said). The result is told as a table:
time per slice and memory in each tenth of the stream, and whether both runs are equal to the last
bit.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onlinegcp import runlog
from onlinegcp.errors import StateError
from onlinegcp.run import Run
from onlinegcp.slices import Slice
from onlinegcp.storage.archive import read_archive
from onlinegcp.streaming import OnlineGCP

SHAPE = (4, 3)
Act = Callable[[subprocess.Popen[bytes]], None]  # done to a process that is learning
Marks = list[list[float]]  # slices learned, seconds since the mark before, peak of memory
Ended = tuple[int, Marks]  # how a process ended and what it told
SAMPLE = 2_000  # slices that tell how long a line is
FLAT = 1.25  # how much more the last tenth may take than the third


def slices(first: int, last: int) -> Iterator[Slice]:
    """Slices by number: any process makes the same ones."""
    for number in range(first, last):
        rng = np.random.default_rng(number)
        level = 3.0 + 2.0 * np.sin(number / 7.0)
        yield Slice.dense(rng.poisson(level, SHAPE).astype(float), time=number)


def learn(folder: Path, n_slices: int, limit: int | None) -> None:
    """What the process does that is killed: begin a run or go on with it."""
    if limit is not None:
        # A disk that is full refuses to make a file longer; so does this, if less of it.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if (folder / runlog.RUN).exists():
        run = Run.open(folder)
    else:
        run = Run.create(folder, OnlineGCP(2, "poisson", init_slices=5), modes=["a", "b"])
    with run:
        first = 0 if run.last_time is None else int(run.last_time) + 1
        every = max(1, n_slices // 100)
        began = time.process_time()

        def tell(news: object) -> None:
            nonlocal began
            if (run.n_steps + run.warming_up) % every == 0:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                now = time.process_time()
                print(json.dumps([run.n_steps, now - began, peak]), flush=True)
                began = now

        run.learn(slices(first, n_slices), progress=tell)


def main() -> int:
    """Run the soak test; 0 if all of it held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--full", type=int, default=2, help="times that the disk is full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary one by default")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        try:
            learn(given.child, given.slices, given.limit)
        except StateError as error:
            print(error, file=sys.stderr)
            return 3
        return 0
    folder = given.folder or Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        return _soak(folder, given)
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _soak(folder: Path, given: argparse.Namespace) -> int:
    began = time.monotonic()
    sample = min(SAMPLE, given.slices)
    code, _ = _child(folder / "sample", sample)  # compiles, and tells how long a line is
    assert code == 0, "the sample failed"
    length = _length(folder / "sample") * given.slices // sample
    rng = random.Random(given.seed)
    events = ["kill"] * given.kills + ["full"] * given.full
    rng.shuffle(events)
    # All over the stream, by how long its file of lines has become.
    places = sorted(rng.randrange(length) for _ in events)
    with concurrent.futures.ThreadPoolExecutor(1) as beside:  # each run is a process of its own
        untouched = beside.submit(_child, folder / "whole", given.slices)
        marks = _disturb(folder, given, length, list(zip(events, places, strict=True)), untouched)
    print(f"{given.kills} kills and {given.full} full disks later: equal to the last bit")
    print(f"both runs of {given.slices:,} slices took {time.monotonic() - began:,.0f} s")
    return _flat(marks)


def _disturb(
    folder: Path,
    given: argparse.Namespace,
    length: int,
    events: list[tuple[str, int]],
    untouched: concurrent.futures.Future[Ended],
) -> Marks:
    """Learn and be disturbed; then equal the run that nobody touches, whose marks are returned."""
    rng = random.Random(given.seed + 1)
    with _own_disk(folder / "disk", 2 * length + 64_000_000) as disk:
        print("full disks are", "real" if disk.real else "limits on files: nothing can be mounted")
        target = disk.folder / "touched"
        for number, (event, place) in enumerate(events, 1):
            if event == "kill":
                after = rng.uniform(0.0, 0.05)
                code, _ = _child(target, given.slices, place, _kill_after(after))
                assert code in (0, -signal.SIGKILL), f"a run that was killed ended with {code}"
            elif disk.real:
                room = rng.randrange(20_000)
                code, _ = _child(target, given.slices, place, disk.filler(room))
                assert code in (0, 3), f"a run with a full disk ended with {code}"
                disk.empty()
            else:
                # Room for a checkpoint, but for no line after that place.
                code, _ = _child(target, given.slices, limit=max(place, 65_536))
                assert code in (0, 3), f"a run with a full disk ended with {code}"
            kept = f"{_n_steps(target):,} slices are kept"
            print(f"{number:>4} {event}: ended with {code}, {kept}", flush=True)
        code, _ = _child(target, given.slices)
        assert code == 0, f"the last run ended with {code}"
        whole, marks = untouched.result()
        assert whole == 0, f"the run that nobody touches ended with {whole}"
        damaged = [v for v in runlog.verify(target) if not v.whole]
        assert not damaged, damaged
        _compare(target, folder / "whole")
    return marks


@dataclass
class Disk:
    """A file system of its own, which can be filled to the last byte."""

    folder: Path
    real: bool

    def filler(self, room: int) -> Act:
        """What leaves this many bytes free, while a process writes."""

        def fill(process: subprocess.Popen[bytes]) -> None:
            with contextlib.suppress(OSError), (self.folder / "filler").open("wb") as file:
                piece = bytes(1 << 20)
                while (free := shutil.disk_usage(self.folder).free - room) > 0:
                    file.write(piece[:free])
                    file.flush()

        return fill

    def empty(self) -> None:
        """Make room again."""
        (self.folder / "filler").unlink(missing_ok=True)


@contextlib.contextmanager
def _own_disk(folder: Path, n_bytes: int) -> Iterator[Disk]:
    """A file system in memory, if one may be mounted."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "soak", str(folder)]
    mounted = (
        shutil.which("mount") is not None
        and not subprocess.run(
            words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
    )
    try:
        yield Disk(folder, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def _kill_after(seconds: float) -> Act:
    def act(process: subprocess.Popen[bytes]) -> None:
        time.sleep(seconds)
        process.kill()

    return act


def _child(
    folder: Path,
    n_slices: int,
    place: int | None = None,
    act: Act | None = None,
    *,
    limit: int | None = None,
) -> Ended:
    """Start a run or go on with it; do something once its lines reach `place`."""
    words = [sys.executable, "-m", "reliability.soak", "--child", str(folder)]
    words += ["--slices", str(n_slices), *([] if limit is None else ["--limit", str(limit)])]
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(words, stdout=told, stderr=subprocess.DEVNULL, env=os.environ)
        while place is not None and act is not None and process.poll() is None:
            if _length(folder) > place:
                act(process)
                break
            time.sleep(0.005)
        process.wait()
        told.seek(0)
        lines = [line for line in told.read().splitlines() if line.endswith("]")]
    return process.returncode, [json.loads(line) for line in lines]


def _length(folder: Path) -> int:
    try:
        return (folder / runlog.STEPS).stat().st_size
    except OSError:
        return 0


def _n_steps(folder: Path) -> int:
    try:
        return sum(line.endswith(b"\n") for line in (folder / runlog.STEPS).open("rb"))
    except OSError:
        return 0


def _compare(touched: Path, whole: Path) -> None:
    own = ("seconds", "crc")
    with (touched / runlog.STEPS).open("rb") as ours, (whole / runlog.STEPS).open("rb") as theirs:
        for number, (one, two) in enumerate(zip(ours, theirs, strict=True), 1):
            first, second = (
                {k: v for k, v in json.loads(line).items() if k not in own} for line in (one, two)
            )
            assert first == second, f"line {number} differs"
    kind = runlog.CHECKPOINT_KIND
    arrays, _ = read_archive(touched / runlog.CHECKPOINT, kind)
    wanted, _ = read_archive(whole / runlog.CHECKPOINT, kind)
    assert arrays.keys() == wanted.keys()
    for name, array in wanted.items():
        assert arrays[name].tobytes() == array.tobytes(), f"{name} differs"


def _flat(marks: Marks) -> int:
    """Whether neither time per slice nor memory grows along the stream."""
    tenth = max(1, len(marks) // 10)
    rows = []
    for start in range(0, len(marks), tenth):
        part = marks[start : start + tenth]
        seconds = sorted(seconds for _, seconds, _ in part)
        rows.append((part[-1][0], seconds[len(seconds) // 2], part[-1][2]))
    for n_steps, seconds, peak in rows:
        print(f"{n_steps:>12,.0f} slices  {seconds:8.3f} s per hundredth  {peak:6,.0f} MB at most")
    early, late = rows[min(2, len(rows) - 1)], rows[-1]
    flat = late[1] <= FLAT * early[1] and late[2] <= FLAT * early[2]
    print("time and memory are flat" if flat else "time or memory GROWS")
    return 0 if flat else 1


if __name__ == "__main__":
    raise SystemExit(main())
