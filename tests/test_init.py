"""The front door: every public name is there, and opening it loads nothing heavy."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import onlinegcp

HEAVY = {"numba", "scipy", "sklearn", "polars", "rich", "plotly", "cyclopts", "numpy"}


def in_a_new_process(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


@pytest.mark.parametrize("name", onlinegcp.__all__)
def test_every_public_name_resolves_and_is_listed(name):
    assert getattr(onlinegcp, name) is not None
    assert name in dir(onlinegcp)


@pytest.mark.parametrize(("name", "home"), onlinegcp._HOMES.items())
def test_a_public_name_is_defined_where_the_table_says(name, home):
    module = importlib.import_module(f"onlinegcp.{home}")
    assert getattr(onlinegcp, name) is getattr(module, name)


def test_type_checkers_see_the_same_names_in_the_same_places():
    tree = ast.parse(Path(onlinegcp.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onlinegcp.")
        for alias in node.names
    }
    assert set(onlinegcp.__all__) == {"__version__", *onlinegcp._HOMES}
    assert seen == {name: f"onlinegcp.{home}" for name, home in onlinegcp._HOMES.items()}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        onlinegcp.nothing  # noqa: B018
    assert not hasattr(onlinegcp, "__wrapped__")


def test_importing_the_package_imports_nothing_heavy():
    loaded = in_a_new_process("import onlinegcp, sys; print(*sys.modules)")
    assert not HEAVY & set(loaded)


def test_slices_and_ktensors_need_numpy_only():
    loaded = in_a_new_process(
        "import onlinegcp, sys; onlinegcp.Slice, onlinegcp.KTensor, onlinegcp.Loss; "
        "onlinegcp.read_tns, onlinegcp.load_flights; print(*sys.modules)"
    )
    assert HEAVY & set(loaded) == {"numpy"}


def test_star_import_gives_the_public_names():
    names = in_a_new_process("from onlinegcp import *; print(*globals())")
    assert set(onlinegcp.__all__) <= set(names)
