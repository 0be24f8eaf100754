"""The pages people read: every block runs as printed, outputs are true, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import urllib.parse

import pytest

import pages
from onlinegcp.cli import STANDARD_INPUT, make_app

ROOT = pages.ROOT
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.md")])
PAGES = [page for page in PAGES if "_build" not in page.parts]
KINDS = {"python", "setup", "console", "sh", "output", "text", "toml", "json", "{toctree}"}
KINDS |= {"{eval-rst}", "{image}", "{figure}", "{math}"}


def name_of(page):
    return str(page.relative_to(ROOT))


def runs(page):
    return any(block.kind in ("python", "console", "sh") for block in pages.blocks_of(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if runs(page)], ids=name_of)
def test_every_block_of_a_page_runs_as_printed(page, tmp_path):
    pages.run_page(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_they_are(page):
    for block in pages.blocks_of(page):
        assert block.kind in KINDS, f"line {block.line}: {block.kind!r}"


def commands_of(page):
    """The simple commands of a page's shell blocks, also of those that are not run, as words."""
    for block in pages.blocks_of(page):
        if block.kind not in ("sh", "console"):
            continue
        lines = block.code.replace("\\\n", " ").splitlines()
        if block.kind == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        for line in lines:
            words = shlex.shlex(line, posix=True, punctuation_chars=True)
            words.whitespace_split, words.commenters = True, "#"
            command = []
            for word in [*words, ";"]:
                if set(word) <= set(";|&><()"):
                    yield block.line, command
                    command = []
                else:
                    command.append(word)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_have_options_that_exist(page):
    app = make_app()
    for line, words in commands_of(page):
        if words[:1] == ["onlinegcp"]:
            given = [STANDARD_INPUT if word == "-" else word for word in words[1:]]
            try:
                app.parse_args(given, exit_on_error=False, print_error=False)
            except Exception as error:
                raise AssertionError(f"line {line}: {' '.join(words)}: {error}") from error
        elif words[:1] == ["make"]:
            done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True)
            assert done.returncode == 0, f"line {line}: {' '.join(words)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_line_of_a_paragraph_is_taken_for_a_comment(page):
    """The site leaves out lines that begin with a percent sign, such as one after a number."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lost = re.findall(r"(?<=\S\n)[ >*-]*%.*", text)
    assert lost == []


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("*.md")], ids=name_of)
def test_links_to_files_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(#[\w-]+)?\)", text):
        file = (page.parent / target) if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor[1:] in anchors(file), f"{target}{anchor}"


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("*.md")], ids=name_of)
def test_links_to_other_sites_are_whole(page):
    """Their form alone: whether a site is up is not ours to test."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]*:[^)\s]*)\)|<(\w+:[^>\s]*)>", text):
        link = urllib.parse.urlsplit("".join(target))
        assert link.scheme in ("https", "mailto"), target
        assert link.scheme == "mailto" or re.fullmatch(r"[\w-]+(\.[\w-]+)+", link.netloc), target
    for bare in re.findall(r"(?<![\w(<`/\"'])https?://[^\s)>`\"']+", text):
        assert not bare.endswith((".", ",", ";", ":")), f"{bare}: put it into <...>"


def anchors(page):
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, flags=re.MULTILINE))


def test_the_five_lines_are_five_and_the_same_everywhere():
    first = [
        next(block.code for block in pages.blocks_of(ROOT / page) if block.kind == "python")
        for page in ("README.md", "docs/index.md")
    ]
    assert first[0] == first[1]
    assert len([line for line in first[0].splitlines() if line and "import" not in line]) == 5
