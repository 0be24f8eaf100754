"""Parameters that a model has built into what it learned, and so cannot change along the stream.

scikit-learn lets anyone change any parameter at any time. Most act from the next slice on. A few
say what the numbers of a model mean: under another of them its state would be misread.
"""

from __future__ import annotations

from typing import Any

from onlinegcp.errors import DataError


def check_settled(model: Any) -> None:
    """Refuse a model whose settled parameters are not those it began with."""
    before: dict[str, Any] = model._began_with
    now = model._settled()
    if before == now:
        return
    name = next(name for name in now if now[name] != before[name])
    raise DataError(
        f"{name} was {before[name]!r} when this {type(model).__name__} learned its first slice, "
        f"and all it knows depends on that, but now it is {now[name]!r}. Set it back to go on, or "
        f"begin again with fit, or with a clone."
    )
