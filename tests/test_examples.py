"""The examples run as a user would run them, and say what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_demo_names_its_patterns_in_words():
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "flights_static.py"), "--rank", "3", "--passes", "3"],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "336,776 flights" in run.stdout
    for word in ("United", "Delta", "JetBlue", "Mon", "Dec", "of the deviance explained"):
        assert word in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80
