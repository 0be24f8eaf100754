"""The live page: a run directory followed in the browser while it grows. It only ever reads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from onlinegcp.dashboard.follow import Follower
from onlinegcp.errors import BackendError, StateError
from onlinegcp.report.page import render
from onlinegcp.report.payload import build
from onlinegcp.runlog import read_run, read_run_json

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["create_app", "serve"]

LOOK_EVERY = 0.3  # seconds
MOST_READERS = 32
LOOPBACK = ("127.0.0.1", "localhost", "::1")

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
        Where it will be served; on a loopback address other host names are refused, so that no
        page of another site can read the run through the reader's browser.
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
        from starlette.routing import Route
    except ImportError as error:
        raise _missing(error) from error

    path = Path(run_path).resolve()
    read_run_json(path)
    code = resources.files("onlinegcp.dashboard").joinpath("live.js").read_text("utf-8")
    page = render(None, title=f"{path.name} · onlinegcp", scripts=[code])
    readers: set[object] = set()

    async def home(request: Request) -> Response:
        return HTMLResponse(page, headers=_HEADERS)

    async def data(request: Request) -> Response:
        def whole() -> dict[str, Any]:
            return build(read_run(path), live=True)

        try:
            return JSONResponse(await asyncio.to_thread(whole), headers=_HEADERS)
        except StateError as error:
            return JSONResponse({"problem": str(error)}, status_code=503, headers=_HEADERS)

    async def events(request: Request) -> Response:
        if len(readers) >= MOST_READERS:
            return Response("too many readers", status_code=503, headers=_HEADERS)
        return StreamingResponse(stream(), media_type="text/event-stream", headers=_HEADERS)

    async def stream() -> AsyncIterator[bytes]:
        reader, quiet = Follower(path), 0
        readers.add(reader)
        try:
            yield b"retry: 1000\n\n"
            while not app.state.stopping:
                found = await asyncio.to_thread(reader.look)
                for name, content in found:
                    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
                    yield f"event: {name}\ndata: {text}\n\n".encode()
                # A comment now and then, so that a connection that died is noticed.
                quiet = 0 if found else quiet + 1
                if quiet * LOOK_EVERY > 10:
                    quiet = 0
                    yield b": still here\n\n"
                await asyncio.sleep(LOOK_EVERY)
        finally:
            readers.discard(reader)

    routes = [Route("/", home), Route("/events", events), Route("/data", data)]
    middleware = []
    if host in LOOPBACK:
        allowed = [*LOOPBACK, "[::1]", "testserver"]
        middleware.append(Middleware(TrustedHostMiddleware, allowed_hosts=allowed))
    app = Starlette(routes=routes, middleware=middleware)
    app.state.stopping = False
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
            app.state.stopping = True  # readers never leave by themselves
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
