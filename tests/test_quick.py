"""What `--quick` leaves out is there, and is left out; what is measured is written down."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LINES = (HERE / "long.txt").read_text().splitlines()


def test_tests_that_are_left_out_exist():
    for line in LINES:
        file, name = line.split("[")[0].split("::", 1)
        path, last = HERE.parent / file, re.split(r"\.|::", name)[-1]
        assert re.search(rf"(def|class) {last}\b", path.read_text()), (
            f"{line} is gone. Take it out of tests/long.txt, or run make measure."
        )


SLEEPER = """
import time

def test_long():
    end = time.process_time() + 0.25
    while time.process_time() < end:
        pass

def test_short():
    pass
"""


@pytest.mark.slow
def test_measured_once_and_left_out_from_then_on(tmp_path):
    (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (tmp_path / "test_some.py").write_text(SLEEPER)
    long = tmp_path / "long.txt"
    long.write_text("test_some.py::test_short\ntest_gone.py::test_other\n")

    def run(option):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", option]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert "1 passed, 1 deselected" in run("--quick").stdout
    assert "2 passed" in run("--measure").stdout
    assert long.read_text() == "test_gone.py::test_other\ntest_some.py::test_long\n"
    assert "1 passed, 1 deselected" in run("--quick").stdout
