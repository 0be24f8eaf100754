"""The course of an experiment: warm start, every method, claims, files, figure."""

from __future__ import annotations

import datetime
import hashlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.claims import Claim, mean_loss
from experiments.console import HERE, Options, ProgressReport
from experiments.data import MissingData
from experiments.figures import draw
from experiments.protocol import (
    Problem,
    Run,
    StreamingMethod,
    run_frozen,
    run_static,
    run_streaming,
    unit_columns,
)
from experiments.store import Store, summary_path, write_summary
from onlinegcp import __version__
from onlinegcp.ktensor import KTensor
from onlinegcp.static.result import Progress, StaticFit

CURVE_POINTS = 200  # points per curve in the committed summaries

Solve = Callable[[Callable[[Progress], object]], StaticFit]


@dataclass(frozen=True)
class Static:
    """A static method and the settings that identify its result."""

    name: str
    settings: dict[str, Any]
    solve: Solve


@dataclass(frozen=True)
class Streaming:
    """A streaming method and its settings; the common warm start comes as `init`."""

    name: str
    method: Callable[..., StreamingMethod]
    settings: dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """All there is to one experiment."""

    problem: Problem
    warm_start: Static
    static: Sequence[Static]
    streaming: Sequence[Streaming]
    claims: Callable[[dict[str, Run]], list[Claim]]
    title: str


def conduct(name: str, options: Options, make_plan: Callable[[Options], Plan]) -> int:
    """Run an experiment; the exit status is 1 if a claim broke at small scale."""
    from threadpoolctl import threadpool_limits

    console = Console()
    console.print(f"[bold]{name}[/bold], scale {options.scale}, seed {options.seed}")
    try:
        plan = make_plan(options)
    except MissingData as missing:
        console.print(f"SKIPPED: the data of this experiment are absent: {missing}", soft_wrap=True)
        console.print("Say where they are with --data FOLDER or ONLINEGCP_DATA.", soft_wrap=True)
        return 0
    report = ProgressReport(console)
    with threadpool_limits(1):
        start, store = _warm_start(name, options, plan, report)
        runs = _all_runs(options, plan, start, store, report)
    claims = plan.claims(runs)
    summary = summarise(name, options, plan.problem, runs, claims)
    summary["title"] = plan.title
    _show(console, summary)
    if options.publish or not options.only:
        write_summary(summary_path(name, options.scale, store.folder), summary)
        figure = store.folder / f"{name}.png"
        draw(plan.problem, runs, plan.title, figure)
        console.print(f"results in {store.folder}", soft_wrap=True)
        if options.publish:
            write_summary(summary_path(name, options.scale), summary)
            draw(plan.problem, runs, plan.title, HERE.parent / "docs" / "figures" / f"{name}.png")
    broken = [c for c in claims if c.required and c.holds is False]
    return 1 if broken and options.scale == "small" else 0


def _warm_start(
    name: str, options: Options, plan: Plan, report: ProgressReport
) -> tuple[KTensor, Store]:
    """The common start, stored as other results are, and the store of everything that follows."""
    problem = plan.problem
    folder = options.out / f"{name}-{options.scale}"
    identity = f"{problem.facts()}|{options.seed}"
    store = Store(folder, identity, fresh=options.fresh)
    store.describe("warm start", plan.warm_start.settings)
    stored = store.finished("warm start")
    if stored is None:
        report.begin("warm start", None)
        fit = plan.warm_start.solve(
            lambda news: report.advance(news.iteration, f"objective {news.objective:.6g}")
        )
        start = unit_columns(fit.ktensor)
        stacked = np.concatenate(start.factors)
        columns = {f"component_{r}": stacked[:, r] for r in range(problem.rank)}
        store.finish("warm start", columns, {"objective": fit.objective})
        report.end(f"objective {fit.objective:.6g}")
    else:
        stacked = np.stack([stored[0][f"component_{r}"] for r in range(problem.rank)], axis=1)
    shape = (*problem.slices[0].shape, problem.warm)
    start = KTensor(None, np.split(stacked, np.cumsum(shape)[:-1]))
    digest = hashlib.sha256(np.ascontiguousarray(stacked).tobytes()).hexdigest()
    return start, Store(folder, f"{identity}|{digest}", fresh=options.fresh)


def _all_runs(
    options: Options, plan: Plan, start: KTensor, store: Store, report: ProgressReport
) -> dict[str, Run]:
    runs: dict[str, Run] = {}

    def add(method: str, kind: Any, settings: object, measure: Callable[[], Run]) -> None:
        if options.only and method not in options.only and kind != "frozen":
            return
        store.describe(method, settings)
        stored = store.finished(method)
        if stored is not None:
            arrays, details = stored
            runs[method] = Run(method, kind, details=details, **arrays)
            report.begin(method, None)
            report.end("stored result, not run again (--fresh runs it)")
            return
        run = measure()
        curves = ("local", "overall", "prequential", "score", "cpu")
        store.finish(method, {curve: getattr(run, curve) for curve in curves}, run.details)
        runs[method] = run

    problem = plan.problem
    add("frozen warm start", "frozen", "", partial(run_frozen, problem, start, report))
    for streaming in plan.streaming:
        model = streaming.method(init=start, **streaming.settings)
        add(
            streaming.name,
            "streaming",
            streaming.settings,
            partial(run_streaming, problem, streaming.name, model, start, store, report),
        )
    for static in plan.static:
        add(
            static.name,
            "static",
            static.settings,
            partial(run_static, problem, static.name, static.solve, report),
        )
    return runs


def summarise(
    name: str, options: Options, problem: Problem, runs: dict[str, Run], claims: list[Claim]
) -> dict[str, Any]:
    """The numbers of an experiment, small enough to be committed."""
    return {
        "experiment": name,
        "scale": options.scale,
        "seed": options.seed,
        "data": problem.facts()
        | {"least_loss": _rounded(float(problem.least[problem.streamed].mean()))},
        "version": __version__,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}, one thread",
        "methods": {method: _numbers(problem, run) for method, run in runs.items()},
        "claims": [vars(claim) for claim in claims],
    }


def _numbers(problem: Problem, run: Run) -> dict[str, Any]:
    streamed_score = run.score[problem.streamed]
    return {
        "kind": run.kind,
        "local": _rounded(mean_loss(problem, run, "local")),
        "global": _rounded(mean_loss(problem, run, "overall")),
        "prequential": _rounded(mean_loss(problem, run, "prequential")),
        "score_without_time": _rounded(streamed_score[-1] if len(streamed_score) else np.nan),
        "cpu_seconds_per_slice": _rounded(float(np.nanmedian(run.cpu))) if _any(run.cpu) else None,
        "cpu_seconds": _rounded(float(np.nansum(run.cpu))) if _any(run.cpu) else None,
        **run.details,
        "curves": {
            "local": _thinned(run.local),
            "global": _thinned(run.overall),
            "score": _thinned(run.score),
        },
    }


def _any(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).any())


def _rounded(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _thinned(values: np.ndarray) -> list[float | None]:
    """Means of consecutive slices, at most `CURVE_POINTS` of them; empty if there is nothing."""
    if not _any(values):
        return []
    parts = np.array_split(values, min(CURVE_POINTS, len(values)))
    return [_rounded(float(np.nanmean(p))) if _any(p) else None for p in parts]


def _show(console: Console, summary: dict[str, Any]) -> None:
    table = Table(title=summary["title"])
    for column in ("method", "local", "global", "prequential", "score", "CPU s / slice"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, numbers in summary["methods"].items():
        keys = ("local", "global", "prequential", "final_score", "cpu_seconds_per_slice")
        cells = (numbers.get(key) for key in keys)
        table.add_row(method, *("" if cell is None else f"{cell:.5g}" for cell in cells))
    console.print(table)
    for claim in summary["claims"]:
        word = {True: "holds", False: "DOES NOT HOLD", None: "UNDECIDED"}[claim["holds"]]
        console.print(f"{word}: {claim['text']}: {claim['evidence']}", soft_wrap=True)


def shortened(slices: int | None, default: int, least: int) -> int:
    """Number of slices asked for, but enough for the warm start and one more."""
    return default if slices is None else max(min(slices, default), least + 1)


def docs_figure(name: str) -> Path:
    """Where the published figure of an experiment lies."""
    return HERE.parent / "docs" / "figures" / f"{name}.png"
