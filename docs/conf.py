"""Sphinx settings: Markdown pages through MyST, API pages from the docstrings."""

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
