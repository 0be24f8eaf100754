"""`onlinegcp name`: what people call a pattern."""

from __future__ import annotations


def name(run: str, pattern: int, text: str = "", /) -> None:
    """Name a pattern of a run; report, live page and commands then use the name.

    onlinegcp name taxi.run 3 "Evening leisure"

    Parameters
    ----------
    run
        The run directory.
    pattern
        Its number, as `components` and the report show it.
    text
        Its name; without one, the name it has is taken away.
    """
    from onlinegcp.cli.components import check_learned
    from onlinegcp.cli.reading import digest_of
    from onlinegcp.cli.terminal import say_table
    from onlinegcp.report.words import patterns
    from onlinegcp.runlog.names import write_name

    digest = digest_of(run)
    check_learned(digest.view)
    write_name(run, pattern, text, digest.rank)
    found = sorted(patterns(digest), key=lambda one: one.component)
    say_table(["", "pattern"], [[str(one.component + 1), one.headline] for one in found], right="r")
