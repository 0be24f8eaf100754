"""Sphinx settings: Markdown pages through MyST, API pages from the docstrings."""

import re

from onlinegcp import __version__

project = "onlinegcp"
author = "The onlinegcp developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
html_theme = "furo"
html_title = f"onlinegcp {release}"
exclude_patterns = ["_build"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False


def escape_bars(app, what, name, obj, options, lines):
    """Keep |x| a magnitude: reStructuredText would look for a substitution of that name."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line)


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
