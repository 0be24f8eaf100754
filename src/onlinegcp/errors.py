"""The errors a user can meet, each also the builtin a user would guess.

A message has three parts: what was required, what was found and where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable


class OnlineGCPError(Exception):
    """Base of every error this package raises on purpose."""


class DataError(OnlineGCPError, ValueError):
    """The data, or an option, is not what was needed."""


class StateError(OnlineGCPError, RuntimeError):
    """The object or file is not in the state the call needs."""


class MissingFileError(StateError, FileNotFoundError):
    """A file that was to be read is not there."""


class BackendError(OnlineGCPError, RuntimeError):
    """A compute device or its compiler cannot do what was asked."""


class DivergenceWarning(UserWarning):
    """A method explains the data worse the more of them it sees."""


class RankWarning(UserWarning):
    """More components were asked for than slices of this shape can tell apart."""


class ScaleWarning(UserWarning):
    """One row, or one of the first slices, is so large that a model sees little else."""


class CancellingWarning(UserWarning):
    """Two components are huge and almost the same, with opposite signs."""


def closest(name: object, known: Iterable[str]) -> str:
    """A sentence that suggests the most similar of the known names, or nothing.

    Examples
    --------
    >>> closest("reservior", ("reservoir", "last"))
    " Did you mean 'reservoir'?"
    >>> closest("window", ("reservoir", "last"))
    ''
    """
    import difflib

    folded: dict[str, str] = {}
    for candidate in list(known)[:10_000]:  # a vocabulary may have millions
        folded.setdefault(candidate.casefold(), candidate)
    given = str(name).casefold()
    near = [given] if given in folded else difflib.get_close_matches(given, folded, n=1)
    if not near and len(given) > 1:  # shortened: dest for destination
        near = [text for text in folded if text.startswith(given) or given.startswith(text)][:1]
    return f" Did you mean {folded[near[0]]!r}?" if near else ""
