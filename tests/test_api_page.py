"""Every public name has its place on the page of public names."""

from __future__ import annotations

import re
from pathlib import Path

import onlinegcp

PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")


def test_every_public_name_is_on_the_page():
    shown = set(
        re.findall(r"auto(?:class|function|exception):: onlinegcp\.(\w+)$", PAGE, re.MULTILINE)
    )
    assert set(onlinegcp.__all__) - {"__version__"} == shown - {"streaming"}


def test_every_public_name_but_errors_shows_how_it_is_used():
    public = {name: getattr(onlinegcp, name) for name in set(onlinegcp.__all__) - {"__version__"}}
    silent = [name for name, thing in public.items() if ">>>" not in (thing.__doc__ or "")]
    assert all(issubclass(public[name], Exception) for name in silent), silent
