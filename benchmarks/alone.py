"""What a process of its own measures: nothing that was loaded or compiled before counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.timing import ONE_THREAD

ROOT = Path(__file__).parent.parent


def alone(module: str, *words: object, **environment: str) -> dict[str, Any]:
    """What a benchmark prints as JSON when it is run as a program with these words."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *map(str, words)],
        env={**os.environ, **ONE_THREAD, **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def resident(field: str) -> int:
    """Bytes of memory of this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
