"""Sphinx settings: Markdown and notebooks through MyST, names and commands from the code itself."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import commands
from docutils import nodes
from latex2mathml.converter import convert

from onlinegcp import __version__

project = "onlinegcp"
author = "The onlinegcp developers"
release = __version__
copyright = "2026, The onlinegcp developers"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_math_renderer = "mathml"  # browsers draw it themselves, also without the network
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
smartquotes_action = "qe"  # quotes and dots, but no dashes: --jobs is an option
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks hold their outputs; a test runs them
html_theme = "furo"
html_title = f"onlinegcp {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
exclude_patterns = ["_build"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes of two classes may have one name


# NumPy's own spelling of what it takes and gives, and what people call it.
TYPES = (
    (r"[~\w.]*_Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]", "ArrayLike"),
    (r"[~\w.]*ndarray\[.*?, [~\w.]*dtype\[[~\w.]*?(\w+)\]\]", r"array of \1"),
    (r"~?\b(npt|collections\.abc)\.", ""),
)


def plainly(text):
    """Call types by short names."""
    for long, short in TYPES:
        text = re.sub(long, short, text)
    return text


def plain_types(app, domain, objtype, node):
    """The same for types that autodoc is about to write into a description."""
    for types in app.env.temp_data.get("annotations", {}).values():
        types.update({name: plainly(text) for name, text in types.items()})


def escape_bars(app, what, name, obj, options, lines):
    """Keep |x| a magnitude: reStructuredText would look for a substitution of that name."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", plainly(line))


def write_commands(app, name, source):
    """Put every command and option where the page of commands asks for them."""
    if name == "commands":
        source[0] = source[0].replace("<!-- commands -->", commands.reference())


def drawn(formula, display):
    """A formula as MathML, with the room around a logarithm that the converter forgets."""
    found = convert(formula, display=display)
    return found.replace("<mi>log</mi>", '<mo lspace="0.17em" rspace="0.17em">log</mo>')


def inline_formula(writer, node):
    """A formula in a line of text."""
    writer.body.append(drawn(node.astext(), "inline"))
    raise nodes.SkipNode


def block_formula(writer, node):
    """A formula on lines of its own; a wide one is scrolled by itself."""
    writer.body.append(f'<div class="formula">{drawn(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline_formula, None), (block_formula, None))
    app.connect("source-read", write_commands)
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("object-description-transform", plain_types, priority=400)  # autodoc has 500
