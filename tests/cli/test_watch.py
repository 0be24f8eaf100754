"""`watch` as a shell runs it: it serves this computer, ends when told, and says what is wrong."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

import fake_run
from cli_tools import PROGRAM
from onlinegcp import runlog
from onlinegcp.cli import Exit

HERE = Path(__file__).parent
PATIENCE = 60  # seconds; the machine may be busy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("watched") / "flights [2013].run"
    return fake_run.write_run(path, n_days=20, rank=2, n_iterations=2)


class Watch:
    """The command in a process of its own, with what it says."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [PROGRAM, "watch", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        self.first = self.process.stdout.readline() if ready else ""
        found = re.search(r"http://\S+/", self.first)
        self.address = found.group() if found else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self, number):
        """Send a signal; exit code, what else was said, complaints, and seconds it took."""
        start = time.monotonic()
        self.process.send_signal(number)
        out, complaints = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, complaints, time.monotonic() - start


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
def test_a_run_is_served_until_a_signal_ends_it(run, number):
    with Watch(run, "--port", 0) as watch:
        assert watch.first.startswith(f"Following {run} at http://127.0.0.1:")
        assert "EventSource" in get(watch.address)
        # A reader is still there when it ends, as a browser would be.
        with urllib.request.urlopen(f"{watch.address}events", timeout=PATIENCE) as answer:
            lines = iter(answer.readline, b"")
            assert next(line for line in lines if line.startswith(b"event")) == b"event: snapshot\n"
            payload = json.loads(next(lines).removeprefix(b"data: "))
            assert payload["steps"]["count"] == 20
            assert payload["name"] == run.name
            code, out, complaints, seconds = watch.end(number)
        assert (code, out, complaints) == (Exit.DONE, "Stopped.\n", "")
        assert seconds < 10


def test_it_follows_a_run_that_grows_and_writes_nothing(run, tmp_path):
    factors, labels, modes, steps = fake_run.make_steps(n_days=14, rank=2, n_iterations=2)
    path = tmp_path / "r"
    fake_run.start(path, modes, 2)
    for step in steps[:12]:
        fake_run.store(path, factors, labels, step)
        runlog.append_lines(path, [runlog.encode_step(step)])
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with Watch(path, "--port", 0) as watch:
        with urllib.request.urlopen(f"{watch.address}events", timeout=PATIENCE) as answer:
            lines = iter(answer.readline, b"")
            next(line for line in lines if line == b"event: status\n")
            assert {file.name: file.read_bytes() for file in path.iterdir()} == before
            runlog.append_lines(path, [runlog.encode_step(steps[12])])
            next(line for line in lines if line == b"event: update\n")
            assert json.loads(next(lines).removeprefix(b"data: "))["rows"][0]["n"] == 13
        assert watch.end(signal.SIGTERM)[0] == Exit.DONE


def test_only_this_computer_is_served_unless_told_otherwise(run):
    with Watch(run, "--port", 0) as watch:
        port = int(watch.address.rstrip("/").rpartition(":")[2])
        assert _listening(port) == {"0100007F"}  # 127.0.0.1 as the kernel writes it
        # A page of another site that points its name here gets nothing.
        request = urllib.request.Request(watch.address, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(request, timeout=PATIENCE)
        for name in ("run.json", "steps.jsonl", "..%2f..%2fetc%2fpasswd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                get(watch.address + name)
        watch.end(signal.SIGINT)


def _listening(port):
    """Addresses on which this port is listened to."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            address, _, place = local.partition(":")
            if state == "0A" and int(place, 16) == port:
                found.add(address)
    return found


def test_a_directory_without_a_run_is_refused(tmp_path):
    for path, words in ((tmp_path, "has no run.json"), (tmp_path / "no", "is no directory")):
        done = subprocess.run(
            [PROGRAM, "watch", str(path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == Exit.BAD_STATE
        assert (done.stdout, words in done.stderr) == ("", True)
        assert done.stderr.startswith("Error: a run directory was needed")


def test_a_port_that_is_taken_is_named_with_a_way_out(run):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = subprocess.run(
            [PROGRAM, "watch", str(run), "--port", str(port)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"COLUMNS": "500"},
        )
    assert done.returncode == Exit.BAD_STATE
    assert done.stdout == ""
    assert f"127.0.0.1 port {port} cannot be used: Address already in use" in done.stderr
    assert "Choose another port, or 0 for any free one." in done.stderr
