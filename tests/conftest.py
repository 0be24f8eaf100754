"""`--quick` leaves out the tests that took long when they were last measured; `--measure` measures.

One rule instead of a judgement: whatever took more than `LIMIT` of processor time is in long.txt,
which `make measure` writes, on a busy machine, too; or the second option, for some files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

LONG = Path(__file__).with_name("long.txt")
LIMIT = 0.1  # seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("onlinegcp")
    group.addoption("--quick", action="store_true", help="leave out the tests of long.txt")
    group.addoption("--measure", action="store_true", help="write long.txt, for the tests run")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.measure:
        config.pluginmanager.register(Measure())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.quick:
        long = set(LONG.read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in long])
        items[:] = [item for item in items if item.nodeid not in long]


class Measure:
    """How long tests take, with the processes they start."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = sum(os.times()[:4])
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = sum(os.times()[:4]) - before

    def pytest_sessionfinish(self) -> None:
        long = set(LONG.read_text().splitlines()) - self.seconds.keys()
        long |= {name for name, seconds in self.seconds.items() if seconds > LIMIT}
        LONG.write_text("".join(f"{name}\n" for name in sorted(long)))
