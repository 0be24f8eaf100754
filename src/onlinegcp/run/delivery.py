"""Alarms sent elsewhere: a command that reads JSON, or a web address, never in the way of learning.

Messages wait in a queue of bounded length that another thread works off, with retries. One is sent
when an alarm begins and one when it ends; an alarm that goes on is silent.
"""

from __future__ import annotations

import http.client
import json
import logging
import queue
import shlex
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Self, final

from onlinegcp.errors import DataError
from onlinegcp.kernels.shares import PATIENCE
from onlinegcp.runlog.line import plain
from onlinegcp.storage.secrets import hidden_address

WAITING = 100  # messages at most; the oldest gives way
TRIES = 5  # with the pauses between them a quarter of a minute
PAUSE = 1.0  # second before the first retry, doubled from one to the next
COMMAND_SECONDS, WEB_SECONDS = 60.0, 10.0
LAST_WORDS = 4096  # bytes of what a command says that are looked at
FAREWELL = 10.0  # seconds that the end of a run waits for what is left
_LOG = logging.getLogger("onlinegcp")


def message_of(step: Mapping[str, Any] | None, run: str) -> dict[str, Any] | None:
    """What is sent about a slice: where an alarm begins or ends, else nothing.

    Parameters
    ----------
    step
        The slice's line; None during a warm start.
    run
        Name of the run.

    Examples
    --------
    >>> step = {"number": 9, "time": "2013-02-08", "anomaly": {"flagged": False, "ended": 2}}
    >>> message_of(step, "flights")["event"], message_of(None, "flights")
    ('ends', None)
    >>> message_of({**step, "anomaly": {"flagged": False, "ended": 3}}, "flights")["lasted"]
    True
    """
    anomaly = (step or {}).get("anomaly")
    if step is None or not anomaly:
        return None
    begins = anomaly.get("flagged") and anomaly.get("alarm", 1) == 1
    if not begins and not anomaly.get("ended"):
        return None
    known = ("severity", "kind", "p", "score", "sentence")
    message = {
        "event": "begins" if begins else "ends",
        "run": run,
        "number": step["number"],
        "time": step["time"],
        **{name: anomaly.get(name) for name in known},
    }
    if begins:
        return {**message, "anomaly": anomaly}
    # What lasts so long is learned: the alarm ends, whether or not what it told of did.
    return {**message, "slices": anomaly["ended"], "lasted": anomaly["ended"] >= PATIENCE}


@final
class Delivery:
    """Sends messages in the background; use it as a context manager.

    Parameters
    ----------
    command
        Started for every message, which it reads as JSON from its standard input. Split into words
        as a shell would, but run without one.
    webhook
        Address that every message is posted to as JSON.
    """

    def __init__(self, command: str | None = None, webhook: str | None = None) -> None:
        self._words = [] if command is None else _checked_command(command)
        self._webhook = None if webhook is None else _checked_address(webhook)
        self._queue: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self.n_lost = 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Put a message into the queue and return at once."""
        if not self._words and self._webhook is None:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="alarms", daemon=True)
            self._thread.start()
        text = json.dumps(plain(message)).encode()
        while True:
            try:
                return self._queue.put_nowait(text)
            except queue.Full:
                self._drop_oldest()

    def close(self, seconds: float = FAREWELL) -> None:
        """Wait a while for what is left, then give up."""
        if self._thread is None:
            return
        if self._queue.full():
            self._drop_oldest()
        self._queue.put_nowait(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._closing.set()
            self.n_lost += self._queue.qsize()
        self._thread = None
        if self.n_lost:
            _LOG.warning("%d messages about alarms could not be delivered", self.n_lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drop_oldest(self) -> None:
        try:
            self._queue.get_nowait()
            self.n_lost += 1
        except queue.Empty:
            pass

    def _work(self) -> None:
        while (text := self._queue.get()) is not None:
            if self._words:
                self._run(text)
            if self._webhook is not None and not self._post(text):
                self.n_lost += 1

    def _run(self, text: bytes) -> None:
        # A file, because what the command leaves behind in the background may hold a pipe open.
        try:
            with tempfile.TemporaryFile() as said:
                done = subprocess.run(
                    self._words, input=text, timeout=COMMAND_SECONDS, check=False,
                    stdout=subprocess.DEVNULL, stderr=said,
                )  # fmt: skip
                said.seek(max(said.tell() - LAST_WORDS, 0))
                told = said.read().decode(errors="replace").strip().splitlines()[-1:]
        except (OSError, subprocess.TimeoutExpired) as error:
            self.n_lost += 1
            _LOG.warning("the command for alarms failed: %s", _without(error, self._words))
            return
        if done.returncode:
            _LOG.warning("the command for alarms ended with %d %s", done.returncode, *told or [""])

    def _post(self, text: bytes) -> bool:
        assert self._webhook is not None
        request = urllib.request.Request(
            self._webhook, data=text, headers={"Content-Type": "application/json"}
        )
        problem: Exception | None = None
        for attempt in range(TRIES):
            if attempt and self._closing.wait(PAUSE * 2.0 ** (attempt - 1)):
                return False
            try:
                with _OPENER.open(request, timeout=WEB_SECONDS):
                    return True
            except urllib.error.HTTPError as error:
                problem = error
                error.close()
                if error.code < 500 and error.code != 429:
                    break  # it will not like the message better the next time
            except (OSError, ValueError, http.client.HTTPException) as error:
                problem = error
        host = hidden_address(self._webhook)
        told = str(problem).replace(self._webhook, host)
        _LOG.warning("the webhook %s did not take an alarm: %s", host, told)
        return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another address would be asked without the message, and its answer taken for thanks."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _checked_command(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise DataError(
            f"on_alarm must be a command, but {_program(command)!r} and what follows cannot be "
            f"split into words ({error}). Close its quotes."
        ) from error
    if not words or shutil.which(words[0]) is None:
        raise DataError(
            f"on_alarm must be a command that can be run, but {_program(command)!r} is none. Check "
            "its name and that it is executable."
        )
    return words


def _without(error: Exception, words: list[str]) -> str:
    """What went wrong with a command, without its arguments."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{words[0]} took longer than {error.timeout:.0f} seconds"
    return str(error)


def _program(command: str) -> str:
    """The first word of a command: the others may hold keys."""
    return command.split()[0] if command.split() else command


def _checked_address(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise DataError(
            "webhook must be an address that begins with http:// or https://, but is "
            f"{hidden_address(address)!r}. Correct it."
        )
    return address
