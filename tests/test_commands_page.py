"""The page of commands is made from the commands: all of them, with all their options."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from onlinegcp.cli import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def sections():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        text = import_module("commands").reference()
    parts = re.split(r"^## onlinegcp (\w+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_its_section_in_the_order_of_help(sections):
    assert list(sections) == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_has_what_the_function_takes(name, sections):
    function = getattr(import_module(f"onlinegcp.cli.{name}"), name)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or parameter.name in GROUPS:
            continue
        option = "--" + parameter.name.rstrip("_").replace("_", "-")
        assert re.search(rf"^\* `[^`]*{option}\b", sections[name], re.MULTILINE), option


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name, sections):
    assert not re.findall(r"^\* `[^`]+`\s*$", sections[name], re.MULTILINE)


# Parameters that hold several options each.
GROUPS = {"table", "model", "options"}
