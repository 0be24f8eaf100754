"""What most commands are tried on: a small table of events, and the run it makes."""

from __future__ import annotations

import pytest

from cli_tools import fit, write_events


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    return write_events(tmp_path_factory.mktemp("events") / "events.jsonl")


@pytest.fixture(scope="module")
def run(events, tmp_path_factory):
    return fit(events, tmp_path_factory.mktemp("runs") / "small.run")
