"""Every command and option as Markdown, from the commands themselves."""

from __future__ import annotations

import re

from onlinegcp.cli import make_app


def reference() -> str:
    """One section per command, in the order of `onlinegcp --help`."""
    text = make_app().generate_docs(output_format="markdown")
    sections = re.split(r"^## (?=onlinegcp )", text, flags=re.MULTILINE)[1:]
    return "\n".join(f"## {_plain(section)}" for section in sections)


def _plain(section: str) -> str:
    # The synopsis is no command to run, and types say nothing that the text does not.
    section = section.replace("```console", "```text")
    return re.sub(r"\*\*(\w[\w ]*)\*\*:", r"**\1**", section)
