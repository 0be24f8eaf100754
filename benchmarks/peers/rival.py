"""Our end of a rival: a process that solves what it is asked and reports seconds and factors."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers.environment import rival_python
from benchmarks.timing import ONE_THREAD

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Answer:
    """What a rival did: seconds inside its solver, and the model it found."""

    seconds: float
    weights: np.ndarray
    factors: list[np.ndarray]
    note: dict[str, float]


class Rival:
    """A running rival.

    It lives in a process of its own, because its package is not in our environment, pygenten
    writes to the C++ standard output and aborts at exit. Requests and replies are JSON lines on
    two pipes; models travel as npz files.
    """

    def __init__(self, name: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        reply_end, write_end = os.pipe()
        self._process = subprocess.Popen(
            [str(rival_python()), "-m", "benchmarks.peers.worker", name, str(write_end)],
            cwd=ROOT,
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(Path(self._folder.name) / "errors.txt").open("w"),
            pass_fds=[write_end],
            text=True,
        )
        os.close(write_end)
        self._replies = os.fdopen(reply_end)

    def solve(self, task: str, problem: Path, **options: object) -> Answer:
        """Run one task of the rival's file on a problem saved as npz."""
        assert self._process.stdin is not None
        model = Path(self._folder.name) / "model.npz"
        request = {"task": task, "problem": str(problem), "model": str(model), "options": options}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the reply below is empty and says why
        line = self._replies.readline()
        if not line:
            errors = (Path(self._folder.name) / "errors.txt").read_text()[-2000:]
            raise RuntimeError(f"the rival's process ended during {task}:\n{errors}")
        reply = json.loads(line)
        with np.load(model) as arrays:
            factors = [arrays[f"factor{k}"] for k in range(len(arrays.files) - 1)]
            return Answer(reply["seconds"], arrays["weights"], factors, reply["note"])

    def close(self) -> None:
        """End the process without letting it clean up, where pygenten would abort."""
        self._process.kill()
        self._process.wait()
        self._replies.close()
        self._folder.cleanup()

    def __enter__(self) -> Rival:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
