"""Packages that not everybody needs: imported when asked for, or an error says how to get them."""

from __future__ import annotations

import importlib
from typing import Any

from onlinegcp.errors import DataError


def needed(module: str, extra: str, what: str) -> Any:
    """A module of an optional package.

    Parameters
    ----------
    module
        Its name.
    extra
        The extra of onlinegcp it comes with.
    what
        What needs it, for the error.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(
            f"{what} needs the package {module.partition('.')[0]}, but it cannot be imported: "
            f"{error}. Install it with: pip install 'onlinegcp[{extra}]'"
        ) from error
