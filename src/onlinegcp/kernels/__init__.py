"""Compute kernels: one interface, several implementations, chosen by name."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from onlinegcp.errors import BackendError

# Name -> module; all hold the same function names, but for the card's, which has an engine only,
# and the plain one, which has none.
# Imported on first use (Numba takes 0.3 s).
_MODULES = {
    "cpu": "onlinegcp.kernels.sgd.cpu",
    "cuda": "onlinegcp.kernels.cuda.sgd.engine",
    "reference": "onlinegcp.kernels.sgd.reference",
}


def get_kernels(name: str = "cpu") -> ModuleType:
    """Give the module that holds the kernels of one implementation.

    Parameters
    ----------
    name
        "cpu" (compiled), "cuda" (an NVIDIA card) or "reference" (plain NumPy, slow, the oracle of
        the tests).

    Examples
    --------
    >>> get_kernels("reference").__name__
    'onlinegcp.kernels.sgd.reference'
    """
    if name not in _MODULES:
        raise BackendError(
            f"kernels must be one of {sorted(_MODULES)}, got {name!r}; choose one of those."
        )
    return import_module(_MODULES[name])
