"""`onlinegcp diff`: two runs side by side."""

from __future__ import annotations

from onlinegcp.cli.options import Json


def diff(first: str, second: str, /, *, json: Json = False) -> None:
    """Match the patterns of two runs: what grew, what is new, what is gone.

    onlinegcp diff january.run february.run

    Parameters
    ----------
    first
        The run directory to start from.
    second
        The one to compare with it.
    json
        As JSON.
    """
    from onlinegcp.cli.components import check_learned
    from onlinegcp.cli.terminal import say, say_json, say_table
    from onlinegcp.drawing.text import number, plural
    from onlinegcp.report.difference import difference
    from onlinegcp.runlog import read_run

    views = read_run(first), read_run(second)
    for view in views:
        check_learned(view)
    pairs = difference(*views)
    if json:
        say_json([pair.to_json() for pair in pairs])
        return
    rows = []
    for pair in pairs:
        shown = pair.after or pair.before
        assert shown is not None
        change = "" if not pair.held or not pair.holds else f"{pair.holds / pair.held - 1:+.0%}"
        rows.append(
            [
                {"both": "", "new": "new", "gone": "gone"}[pair.kind],
                "" if pair.before is None else str(pair.before.component + 1),
                "" if pair.after is None else str(pair.after.component + 1),
                shown.headline,
                number(pair.held),
                number(pair.holds),
                change,
                "" if pair.similarity is None else f"{pair.similarity:.2f}",
            ]
        )
    headings = ["", "first", "second", "pattern", "held", "holds", "change", "similarity"]
    say_table(headings, rows, right=" rr rrrr")
    kinds = [pair.kind for pair in pairs]
    say(
        f"[dim]{plural(kinds.count('both'), 'pattern')} in both, {kinds.count('new')} new, "
        f"{kinds.count('gone')} gone; held, holds: in a slice on average.[/dim]"
    )
