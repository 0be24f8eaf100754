"""The paper's claims as tests on the measured runs: what is said, whether it holds, the numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.protocol import Problem, Run

# "Comparable" is not defined in the paper. Here: mean loss over the streamed slices at most 5 %
# above the static method's, counted from the least loss there can be, and a score at most 0.05
# below.
LOSS_TOLERANCE = 0.05
SCORE_TOLERANCE = 0.05


@dataclass(frozen=True)
class Claim:
    """One claim, with the tolerance it was judged by in the words of `evidence`."""

    text: str
    holds: bool | None  # None: a run that is needed to tell has not been made
    evidence: str
    required: bool = True  # `--scale small` fails if this one does not hold
    by_paper: bool = True  # False: our own check, not said in the paper


def comparable_loss(
    problem: Problem,
    run: Run,
    other: Run,
    which: str,
    tolerance: float = LOSS_TOLERANCE,
    *,
    required: bool = True,
    by_paper: bool = True,
) -> Claim:
    """`run` has a local or global loss comparable to that of `other`."""
    ours, theirs = mean_loss(problem, run, which), mean_loss(problem, other, which)
    gap = (ours - theirs) / (theirs - problem.least[problem.streamed].mean())
    name = "global" if which == "overall" else which
    return Claim(
        f"{run.method}: {name} loss comparable to {other.method}",
        bool(gap <= tolerance),
        f"{ours:.5g} against {theirs:.5g}, {gap:+.1%} (tolerance {tolerance:+.0%})",
        required,
        by_paper,
    )


def comparable_score(
    run: Run,
    other: Run,
    tolerance: float = SCORE_TOLERANCE,
    *,
    required: bool = True,
    by_paper: bool = True,
) -> Claim:
    """`run` has a K-tensor score comparable to that of `other`."""
    ours, theirs = run.details["final_score"], other.details["final_score"]
    return Claim(
        f"{run.method}: K-tensor score comparable to {other.method}",
        bool(ours >= theirs - tolerance),
        f"{ours:.3f} against {theirs:.3f} (tolerance -{tolerance:g})",
        required,
        by_paper,
    )


def undecided(text: str, missing: str) -> Claim:
    """A claim that cannot be judged because the run called `missing` has not been made."""
    return Claim(text, None, f"no result of {missing}", required=False)


def our_checks(problem: Problem, runs: dict[str, Run], static: str) -> list[Claim]:
    """What the paper does not ask: has anything been learned, and how is the default solver?"""
    frozen = runs["frozen warm start"]
    found = [learned(problem, runs[name], frozen) for name in ("OnlineGCP", "auto") if name in runs]
    if "auto" in runs and static in runs:
        options = {"required": False, "by_paper": False}
        found.append(comparable_loss(problem, runs["auto"], runs[static], "local", **options))
        found.append(comparable_loss(problem, runs["auto"], runs[static], "overall", **options))
        if problem.truth is not None:
            found.append(comparable_score(runs["auto"], runs[static], **options))
    return found


def learned(problem: Problem, run: Run, frozen: Run) -> Claim:
    """`run` explains new slices better than the warm start it came from (not in the paper)."""
    judged = np.isfinite(frozen.prequential)
    ours, theirs = run.prequential[judged].mean(), frozen.prequential[judged].mean()
    gap = (ours - theirs) / (theirs - problem.least[judged].mean())
    return Claim(
        f"{run.method} predicts better than its own warm start left alone",
        bool(gap < 0),
        f"prequential loss {ours:.5g} against {theirs:.5g}, {gap:+.1%}, "
        f"on {int(judged.sum())} slices",
        required=False,
        by_paper=False,
    )


def mean_loss(problem: Problem, run: Run, which: str) -> float:
    """Mean over the streamed slices of "local", "overall" or "prequential"."""
    values = getattr(run, which)[problem.streamed]
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
