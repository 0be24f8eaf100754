"""Results on disk: finished runs, interrupted ones, and the small summaries that are committed.

`experiments/out/<experiment>-<scale>/` holds one .npz and one .csv per finished run and the last
state of an unfinished one. A finished run is not repeated unless its settings or data changed.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent


class Store:
    """Folder of one experiment at one scale.

    Parameters
    ----------
    folder
        Where to write; made if absent.
    identity
        All that the results depend on besides the method: data, warm start, seed.
    fresh
        Whether to ignore what is there.
    """

    def __init__(self, folder: Path, identity: str, *, fresh: bool = False) -> None:
        self.folder = folder
        self.identity = identity
        self.fresh = fresh
        self.parameters: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def describe(self, method: str, parameters: object) -> None:
        """Tell what a method's results depend on; call it before anything else about it."""
        self.parameters[method] = repr(parameters)

    def finished(self, method: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        """Arrays and details of a finished run with the same settings, if there is one."""
        path = self._path(method, ".npz")
        if self.fresh or not path.exists():
            return None
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        if str(arrays.pop("identity")) != self._fingerprint(method):
            return None
        return arrays, json.loads(str(arrays.pop("details")))

    def finish(
        self, method: str, arrays: dict[str, NDArray[np.float64]], details: dict[str, Any]
    ) -> None:
        """Keep a finished run, for us as .npz and for others as .csv."""
        described = {"details": np.array(json.dumps(details)), **arrays}
        self._write(method, ".npz", described)
        with self._path(method, ".csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["slice", *arrays])
            for t, row in enumerate(zip(*arrays.values(), strict=True)):
                table.writerow([t, *(f"{number:.8g}" for number in row)])
        self._forget(method)

    def pause(
        self,
        method: str,
        done: int,
        save: Callable[[Path], None],
        arrays: dict[str, NDArray[Any]],
    ) -> None:
        """Keep the state after `done` slices so that an interrupted run is not lost."""
        model = self._path(method, f".{done}.ogcp")
        save(model)
        # The arrays name the model they belong to and are replaced last, so that a kill at any
        # moment leaves a matching pair.
        self._write(method, ".paused.npz", {"done": np.array(done), **arrays})
        for old in self.folder.glob(f"{self._path(method, '').name}.*.ogcp"):
            if old != model:
                old.unlink()

    def resume(
        self, method: str, load: Callable[[Path], Any]
    ) -> tuple[int, Any, dict[str, NDArray[Any]]] | None:
        """Slices done, model and arrays of an interrupted run with the same settings."""
        path = self._path(method, ".paused.npz")
        if self.fresh or not path.exists():
            return None
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        if str(arrays.pop("identity")) != self._fingerprint(method):
            return None
        done = int(arrays.pop("done"))
        return done, load(self._path(method, f".{done}.ogcp")), arrays

    def _write(self, method: str, ending: str, arrays: dict[str, Any]) -> None:
        path = self._path(method, ending)
        temporary = path.with_name(path.name + ".part")
        everything: dict[str, Any] = {"identity": np.array(self._fingerprint(method)), **arrays}
        with temporary.open("wb") as file:
            np.savez(file, **everything)
        temporary.replace(path)

    def _forget(self, method: str) -> None:
        stem = self._path(method, "").name
        self._path(method, ".paused.npz").unlink(missing_ok=True)
        for old in self.folder.glob(f"{stem}.*.ogcp"):
            old.unlink()

    def _path(self, method: str, ending: str) -> Path:
        name = "".join(c if c.isalnum() else "_" for c in method)
        return self.folder / f"{name}{ending}"

    def _fingerprint(self, method: str) -> str:
        text = f"{self.identity}|{method}|{self.parameters.get(method, '')}"
        return hashlib.sha256(text.encode()).hexdigest()


def summary_path(experiment: str, scale: str, folder: Path | None = None) -> Path:
    """Where the committed summary of an experiment lies."""
    return (folder or HERE / "results") / f"{experiment}-{scale}.json"


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary with sorted keys, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(summary, indent=1) + "\n")
    temporary.replace(path)
