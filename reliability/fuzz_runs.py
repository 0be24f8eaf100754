"""Damaged run directories: noticed and told, never a traceback, never a wrong answer in silence."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np

from onlinegcp import runlog
from onlinegcp.errors import OnlineGCPError
from onlinegcp.report import make_report
from onlinegcp.run import Run
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP


@functools.cache
def _whole() -> dict[str, bytes]:
    """The files of a small run."""
    rng = np.random.default_rng(0)
    slices = [Slice.dense(rng.poisson(3.0, (4, 3)).astype(float), time=t) for t in range(9)]
    folder = Path(tempfile.mkdtemp(prefix="fuzz-run-")) / "r"
    labels = [tuple("abcd"), tuple("xyz")]
    model = OnlineGCP(2, "poisson", init_slices=3)
    with Run.create(folder, model, modes=["m", "n"], labels=labels) as run:
        run.learn(slices)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def play(rng: np.random.Generator, folder: Path) -> None:
    """One file of a run is damaged: whoever reads says so, or reads what was written."""
    files = _whole()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    names = [name for name in files if name != runlog.LOCK]
    name = names[int(rng.integers(0, len(names)))]
    data = bytearray(files[name])
    if rng.random() < 0.2:
        del data[int(rng.integers(0, len(data))) :]
    else:
        data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
    (folder / name).write_bytes(data)
    text = name.endswith((".json", ".jsonl"))
    # A last line that is not whole is what a kill leaves; the checkpoint has it.
    if text and data != files[name]:
        whole = {verdict.file: verdict.whole for verdict in runlog.verify(folder)}
        cut_at_line = name.endswith(".jsonl") and (not data or data.endswith(b"\n"))
        assert not whole[name] or cut_at_line, f"a changed byte of {name} goes unnoticed"
    try:
        view = runlog.read_run(folder)
        make_report(folder, global_loss=False).write(folder / "report.html")
        with Run.open(folder) as run:
            assert np.isfinite(run.model.weights_).all()
    except OnlineGCPError:
        return
    assert len(view.steps) in (8, 9) or data[-1:] == b"\n"
