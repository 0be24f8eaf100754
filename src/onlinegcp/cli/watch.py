"""`onlinegcp watch`: a live page of a run, also while it is being written."""

from __future__ import annotations

import sys

from onlinegcp.cli.options import Flag, Whole


def watch(run: str, *, host: str = "127.0.0.1", port: Whole = 8765, open: Flag = False) -> None:
    """Serve a page that follows a run within a second; Ctrl-C ends it.

    Parameters
    ----------
    run
        The run directory; it may be killed and resumed meanwhile.
    host
        Address to listen on; by default this machine only.
    port
        Port to listen on; 0 takes a free one.
    open
        Show it in the browser.
    """
    from rich.markup import escape

    from onlinegcp.cli.terminal import say
    from onlinegcp.dashboard import serve

    def started(address: str) -> None:
        say(f"Following {escape(run)} at [b]{escape(address)}[/b] (Ctrl-C ends it)")
        sys.stdout.flush()  # a pipe would keep it until the end

    serve(run, host=host, port=port, open_browser=open, on_start=started)
    say("Stopped.")
