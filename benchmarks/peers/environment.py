"""The environment of the rivals: pinned versions, made on first use, never mixed with ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PINS = ["pygenten==0.1.5", "pyttb==1.8.6", "tensorly==0.10.0"]
FOLDER = Path(__file__).parent.parent / ".venv-rivals"


def rival_python() -> Path:
    """Interpreter of the rivals' environment, which `ONLINEGCP_RIVALS` may name instead."""
    folder = Path(os.environ.get("ONLINEGCP_RIVALS", FOLDER))
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PINS], check=True)
    return python
