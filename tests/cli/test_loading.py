"""Garbage is left alone while a command loads, and looked for as usual once it works."""

from __future__ import annotations

import subprocess
import sys

import pytest

SWEEPS = """
import gc
usual = gc.get_threshold()
from onlinegcp.cli.loading import lazily_swept, loaded
searches = []
gc.callbacks.append(lambda phase, info: searches.append(phase))
lazily_swept()
kept = [[] for _ in range({made})]
during = len(searches)
{then}
assert gc.get_threshold() == usual, gc.get_threshold()
frozen = gc.get_freeze_count()
kept += [[] for _ in range(10_000)]
print(during, frozen, len(searches) > during)
"""


@pytest.mark.parametrize(
    ("made", "then", "searched"),
    [(100_000, "loaded()", False), (600_000, "", True)],
    ids=["told that all is loaded", "never told, and very many objects"],
)
def test_nobody_looks_before_the_command_works_and_somebody_does_after(made, then, searched):
    done = subprocess.run(
        [sys.executable, "-c", SWEEPS.format(made=made, then=then)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    during, frozen, after = done.stdout.split()
    assert (int(during) > 0) is searched
    assert int(frozen) > 100_000  # what was loaded is never looked through again
    assert after == "True"


def test_a_program_that_only_calls_a_command_keeps_its_own_ways():
    code = """
import gc
gc.set_threshold(321)
from onlinegcp.cli.loading import loaded
frozen = gc.get_freeze_count()  # newer Pythons begin with some
loaded()
print(gc.get_threshold()[0], gc.get_freeze_count() - frozen)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["321", "0"]
