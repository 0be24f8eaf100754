"""The command line: one thin file per verb, and here what they share: the app and exit codes.

Exit codes
----------
0
    Done.
1
    Something unexpected; a bug, or a machine in trouble. ``--debug`` shows the traceback.
2
    The command or its data are not as needed: unknown option, missing column, bad file.
3
    The run directory is not in the state the command needs: missing, locked, damaged, full disk.
4
    Alarms were found and ``--fail-on-alarm`` was given.
130
    Interrupted by Ctrl-C; what was learned is kept.
"""

from __future__ import annotations

import contextlib
import enum
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["Exit", "call", "main", "make_app"]

# The parser takes a lone dash for an option; this file name means the same.
STANDARD_INPUT = "/dev/stdin"

# Said here, because listing them should not load them.
COMMANDS = {
    "demo": "A year of flights: patterns, odd days and a report, in seconds.",
    "fit": "Learn a table of events into a new run directory.",
    "update": "Go on with a run: new data, or the same after an interruption.",
    "report": "Write a run as one HTML file.",
    "watch": "Serve a live page of a run.",
    "anomalies": "List the oddest slices of a run, and why.",
    "score": "Score every event of a table by what a run has seen.",
    "components": "Show the patterns of a run, with labels.",
    "name": "Name a pattern of a run.",
    "diff": "Compare the patterns of two runs.",
    "forecast": "Say what the next slices of a run will hold.",
    "compare": "Let several methods predict the same stream.",
    "rank": "Find out how many patterns there are.",
    "inspect": "Show what a run directory holds.",
    "export": "Write factors, activations or anomalies to a file.",
    "warmup": "Compile everything now, so that nothing waits for it later.",
}


class Exit(enum.IntEnum):
    """What the command tells the shell; see the top of this file."""

    DONE = 0
    UNEXPECTED = 1
    BAD_INPUT = 2
    BAD_STATE = 3
    ALARM = 4
    INTERRUPTED = 130


def main() -> None:
    """Run the command the shell asked for."""
    from onlinegcp.cli.loading import lazily_swept

    lazily_swept()
    raise SystemExit(int(call(sys.argv[1:])))


def call(tokens: Sequence[str]) -> Exit:
    """Run a command and say how it went.

    Parameters
    ----------
    tokens
        The words after ``onlinegcp``.

    Examples
    --------
    >>> call(["--version"])
    0.1.0
    <Exit.DONE: 0>
    """
    try:
        with _plain_warnings():
            return _run(tokens)
    except KeyboardInterrupt:
        _complain("Interrupted.")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader, such as head, has seen enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return Exit.DONE
    except Exception as error:
        if "--debug" in tokens:
            raise
        return _failed(error)


def _run(tokens: Sequence[str]) -> Exit:
    from onlinegcp.errors import DataError

    words = [STANDARD_INPUT if word == "-" else word for word in tokens if word != "--debug"]
    for word in words:
        if "\0" in word:
            raise DataError(
                f"the words of a command must be text, but {word!r} has a character of value 0. "
                "Leave it out."
            )
    if STANDARD_INPUT in words and sys.stdin is None:
        raise DataError("standard input was to be read, but it is closed. Name a file.")
    outcome = make_app()(
        words or ["--help"],
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    sys.stdout.flush()
    return outcome if isinstance(outcome, Exit) else Exit.DONE


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Tell a warning as it is said, without the line of ours that Python would quote."""

    def told(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        if not issubclass(category, UserWarning):
            return usual(message, category, filename, lineno, line)
        from onlinegcp.cli.terminal import as_options

        return f"Warning: {as_options(str(message))}\n"

    usual = warnings.formatwarning
    warnings.formatwarning = told
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _failed(error: Exception) -> Exit:
    """Say what went wrong; whose fault it is decides the code."""
    from cyclopts import CycloptsError

    from onlinegcp.errors import BackendError, DataError, StateError

    if isinstance(error, CycloptsError | DataError):
        _complain(str(error))
        return Exit.BAD_INPUT
    if isinstance(error, StateError):
        _complain(str(error))
        return Exit.BAD_STATE
    if isinstance(error, BackendError):
        _complain(str(error))
        return Exit.UNEXPECTED
    if isinstance(error, MemoryError):
        _complain(
            f"The command needs more memory than there is ({error}). Use a smaller --rank, fewer "
            "labels (--top), or shorter time bins."
        )
        return Exit.BAD_INPUT
    if isinstance(error, OSError):
        # A full disk or a closed pipe, perhaps standard output itself; Python must not try again.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _complain(
            f"A file could not be read or written: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}. Free some space, or check the "
            "path and its permissions."
        )
        return Exit.BAD_STATE
    _complain(
        f"Something unexpected happened ({type(error).__name__}: {error}). Run the command "
        "again with --debug to see where, and report it, please."
    )
    return Exit.UNEXPECTED


def _complain(text: str) -> None:
    from onlinegcp.cli.terminal import say_error

    with contextlib.suppress(OSError):
        say_error(text)


def make_app() -> App:
    """The parser of all commands."""
    from cyclopts import App

    from onlinegcp import __version__

    app = App(
        name="onlinegcp",
        help="Patterns in data that keep arriving: learn them, follow them, be told of change.",
        help_epilogue="Exit codes: 0 done, 1 unexpected, 2 bad input, 3 bad run directory, "
        "4 alarms (--fail-on-alarm), 130 interrupted. --debug shows tracebacks.",
        version=__version__,
        suppress_keyboard_interrupt=False,
    )
    for position, (name, summary) in enumerate(COMMANDS.items()):
        # Loaded when called.
        app.command(f"onlinegcp.cli.{name}:{name}", name=name, help=summary, sort_key=position)
    return app
