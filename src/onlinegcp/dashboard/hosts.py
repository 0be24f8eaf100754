"""Which names a server answers to: its own, and addresses.

A page of another site can have its name point to this computer and then ask the reader's browser
for the run. The browser says which name it asked for; addresses cannot be made to point elsewhere.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, final


@final
class HostCheck:
    """Refuses requests that were sent to a name that is not ours.

    Parameters
    ----------
    app
        The application behind it.
    host
        What the server was told to listen on.
    """

    def __init__(self, app: Any, host: str) -> None:
        self._app = app
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not self._is_ours(_host_of(scope)):
            from starlette.responses import PlainTextResponse

            await PlainTextResponse("Invalid host header", 400)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_ours(self, host: str) -> bool:
        if host.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def _host_of(scope: Any) -> str:
    """The name a request was sent to, without its port."""
    for name, value in scope["headers"]:
        if name == b"host":
            text = str(value, "latin-1")
            if text.startswith("["):
                return text[1:].partition("]")[0]
            return text.rpartition(":")[0] if text.count(":") == 1 else text
    return ""
