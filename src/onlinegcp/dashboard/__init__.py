"""The live page: a run directory followed in the browser while it grows. It only ever reads."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from onlinegcp.dashboard.hosts import HostCheck
from onlinegcp.dashboard.hub import Hub
from onlinegcp.errors import BackendError, StateError
from onlinegcp.report.page import content_policy, render
from onlinegcp.runlog import read_run_json

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["create_app", "serve"]

LOOK_EVERY = 0.3  # seconds
MOST_READERS = 32  # each holds a connection and a queue of news

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


def create_app(run_path: str | os.PathLike[str], *, host: str = "127.0.0.1") -> Starlette:
    """The web application of one run: "/", "/events", "/data" and nothing else.

    Parameters
    ----------
    run_path
        The run directory, which must hold a run.
    host
        Where it will be served; names of other hosts are refused, so that no page of another site
        can read the run through the reader's browser.
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
        from starlette.routing import Route
    except ImportError as error:
        raise _missing(error) from error

    path = Path(run_path).resolve()
    read_run_json(path)
    code = resources.files("onlinegcp.dashboard").joinpath("live.js").read_text("utf-8")
    page = render(None, title=f"{path.name} · onlinegcp", scripts=[code])
    policy = {"Content-Security-Policy": content_policy(page)}
    hub = Hub(path, LOOK_EVERY)

    async def home(request: Request) -> Response:
        return HTMLResponse(page, headers={**_HEADERS, **policy})

    async def data(request: Request) -> Response:
        found = await hub.payload()
        return JSONResponse(found, 503 if "problem" in found else 200, headers=_HEADERS)

    async def events(request: Request) -> Response:
        if hub.n_readers >= MOST_READERS:
            busy = {**_HEADERS, "Retry-After": "5"}
            return Response("too many readers", status_code=503, headers=busy)
        return StreamingResponse(hub.messages(), media_type="text/event-stream", headers=_HEADERS)

    routes = [Route("/", home), Route("/events", events), Route("/data", data)]
    middleware = [Middleware(HostCheck, host=host)]
    app = Starlette(routes=routes, middleware=middleware)
    app.state.hub = hub
    return app


def serve(
    run_path: str | os.PathLike[str],
    host: str = "127.0.0.1",
    port: int = 8000,
    open_browser: bool = False,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Serve the live page of a run until Ctrl-C or SIGTERM, which are its proper end.

    Parameters
    ----------
    run_path
        The run directory.
    host, port
        Address to listen on; port 0 takes a free one. The default is this computer only.
    open_browser
        Whether to show the page in a browser.
    on_start
        Called with the address of the page once it can be reached.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise _missing(error) from error
    app = create_app(run_path, host=host)
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/"

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.hub.stopping = True  # readers never leave by themselves
            super().handle_exit(sig, frame)

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Not sent on to the program once the server has stopped, as the original does.
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            signals = (signal.SIGINT, signal.SIGTERM)
            before = [signal.signal(number, self.handle_exit) for number in signals]
            try:
                yield
            finally:
                for number, handler in zip(signals, before, strict=True):
                    signal.signal(number, handler)

    server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))

    def announce() -> None:
        # The socket listens already, so a browser that comes early only waits.
        if on_start is not None:
            on_start(address)
        if open_browser:
            import webbrowser

            webbrowser.open(address)

    threading.Thread(target=announce, daemon=True).start()
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # before the server was up
    finally:
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise StateError(
            f"the live page needs a free address, but {host} port {port} cannot be used: "
            f"{reason}. Choose another port, or 0 for any free one."
        ) from error
    return listener


def _missing(error: ImportError) -> BackendError:
    return BackendError(
        f"the live page needs starlette and uvicorn, but {error.name} is not installed. Install "
        'them with: pip install "onlinegcp[dashboard]".'
    )
