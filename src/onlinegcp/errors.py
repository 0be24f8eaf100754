"""The errors a user can meet, each also the builtin a user would guess.

A message has three parts: what was required, what was found and where, and what to do.
"""

from __future__ import annotations


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
