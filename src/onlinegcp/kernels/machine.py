"""What the bits of a result depend on besides data: versions, compiled code and the processor."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import llvmlite.binding as llvm
import numba

from onlinegcp.kernels.jit import cache_directory

COMPARED = ("onlinegcp", "numpy", "scipy", "numba", "llvmlite", "distributed")


def facts() -> dict[str, str]:
    """What must be the same on two machines for their results to be."""
    settings: Any = numba.config
    found = {name: _version(name) for name in COMPARED}
    found["python"] = platform.python_version()
    found["kernels"] = cache_directory().name
    found["processor"] = settings.CPU_NAME or llvm.get_host_cpu_name()
    features = settings.CPU_FEATURES
    if features is None:
        features = "" if settings.CPU_NAME else llvm.get_host_cpu_features().flatten()
    found["processor features"] = features
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
