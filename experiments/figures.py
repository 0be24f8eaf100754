"""Figures laid out like the paper's: local loss, global loss and K-tensor score, slice by slice.

The second row shows the same losses relative to the first static method (where none was run,
the first of all), counted from the least loss there can be: the loss of a slice depends on the
slice far more than on the method.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.protocol import Kind, Problem, Run

# Okabe and Ito's colours, told apart by the colour-blind; one per method in every figure.
STYLES: dict[str, dict[str, Any]] = {
    "OnlineGCP": {"color": "#0072B2", "linestyle": "-"},
    "auto": {"color": "#D55E00", "linestyle": "-"},
    "OnlineSGD": {"color": "#009E73", "linestyle": "-"},
    "OnlineCP": {"color": "#CC79A7", "linestyle": "-"},
    "CPStream": {"color": "#56B4E9", "linestyle": "-"},
    "CP-ALS": {"color": "#000000", "linestyle": "--"},
    "CP-APR": {"color": "#000000", "linestyle": "--"},
    "GCP": {"color": "#E69F00", "linestyle": "--"},
    "frozen warm start": {"color": "#777777", "linestyle": ":"},
}
SMOOTHED_ABOVE = 1000  # slices; longer streams show a running mean
WINDOW = 30


def draw(problem: Problem, runs: dict[str, Run], title: str, path: Path) -> None:
    """Write the figure of an experiment as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    synthetic = problem.truth is not None
    columns = 3 if synthetic else 2
    drawn = {name: run for name, run in runs.items() if run.kind != "frozen"}
    static = [run for run in drawn.values() if run.kind == "static"]
    reference = next(iter([*static, *drawn.values()]), None)
    figure, axes = pyplot.subplots(
        2, columns, figsize=(4.6 * columns, 5.6), sharex=True, squeeze=False, layout="constrained"
    )
    for column, (which, label) in enumerate((("local", "local loss"), ("overall", "global loss"))):
        top, below = axes[0, column], axes[1, column]
        top.set(title=label, ylabel="loss / ||X||²")
        below.set(xlabel="slice")
        for name, run in drawn.items():
            _line(top, name, getattr(run, which), problem, run.kind)
            if reference is not None:
                base = getattr(reference, which)
                gap = 100 * (getattr(run, which) - base) / (base - problem.least)
                _line(below, name, gap, problem, run.kind)
        if reference is not None:
            below.set_ylabel(f"above {reference.method}, %")
        _mark_warm_start(top, problem)
        _mark_warm_start(below, problem)
    if synthetic:
        top, below = axes[:, 2]
        for name, run in runs.items():
            _line(top, name, run.score, problem, run.kind)
            _line(below, name, run.score, problem, run.kind)
        top.set(title="K-tensor score (time mode left out)", ylabel="score", ylim=(-0.03, 1.03))
        below.set(ylabel="score, enlarged", xlabel="slice")
        _mark_warm_start(top, problem)
        _mark_warm_start(below, problem)
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=6, frameon=False
    )
    figure.suptitle(title + (f"\n{problem.note}" if problem.note else ""), fontsize=12)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _line(axis: Any, name: str, values: np.ndarray, problem: Problem, kind: Kind) -> None:
    """One curve; in long streams the running mean, with the slices themselves behind it."""
    shown = np.isfinite(values)
    if not shown.any():
        return
    style = STYLES.get(name, {"color": "#444444", "linestyle": "-."})
    times = np.arange(len(values))[shown]
    values = values[shown]
    if len(problem.slices) > SMOOTHED_ABOVE:
        axis.plot(times, values, color=style["color"], linewidth=0.3, alpha=0.12)
        kernel = np.ones(WINDOW) / WINDOW
        values = np.convolve(values, kernel, mode="valid")
        times = times[WINDOW // 2 :][: len(values)]
        # The slices behind must not stretch the axis: one odd day would flatten all curves.
        axis.set_ylim(*_widened(axis, values))
    # Static methods lie behind and the paper's own on top: it must not vanish where curves agree.
    width, order = (1.4, 3) if kind == "streaming" else (2.0, 2)
    order += name == "OnlineGCP"
    axis.plot(times, values, label=name, linewidth=width, zorder=order, **style)


def _widened(axis: Any, values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low) or 1e-12
    bounds = getattr(axis, "shown_bounds", (np.inf, -np.inf))
    widened = min(bounds[0], low - margin), max(bounds[1], high + margin)
    axis.shown_bounds = widened  # the axis remembers, as it does its limits
    return widened


def _mark_warm_start(axis: Any, problem: Problem) -> None:
    axis.axvspan(-0.5, problem.warm - 0.5, color="#000000", alpha=0.06, linewidth=0)
    axis.set_xlim(-0.5, len(problem.slices) - 0.5)
