"""No search for garbage while a command loads what it needs.

Modules make a few hundred thousand objects that stay. Python would look through them for garbage
again and again, which is a fourteenth of the time of a short command.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

# Objects that may be made before anybody looks: more than any command loads.
_MANY = 500_000
_USUAL = gc.get_threshold()


def lazily_swept() -> None:
    """From here on objects are loaded: look for garbage when there are very many, or `loaded`."""
    gc.set_threshold(_MANY, *_USUAL[1:])
    gc.callbacks.append(_first_search)


def loaded() -> None:
    """What there is now stays; from here on garbage is looked for as usual."""
    if _first_search in gc.callbacks:
        gc.callbacks.remove(_first_search)
        gc.freeze()
        gc.set_threshold(*_USUAL)


def _first_search(phase: str, _: Mapping[str, Any]) -> None:
    if phase == "stop":
        loaded()
