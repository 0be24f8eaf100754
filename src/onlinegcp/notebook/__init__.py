"""How objects show themselves: patterns as a small table, in a terminal and in a notebook."""

from __future__ import annotations

from onlinegcp.notebook.components import ComponentTable as ComponentTable
from onlinegcp.notebook.components import component_table as component_table
