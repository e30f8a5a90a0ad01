"""Serves the dashboard alone, with uvicorn, until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Collection
from importlib.util import find_spec
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tenure.core.errors import NotConfigured, TenureError

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
"""The names of this machine for itself."""


class PortInUse(TenureError):
    """Another program listens at the address."""


def serve(
    app: ASGIApp, host: str, port: int, hosts: Collection[str], began: Callable[[str], None], *, proxied: bool
) -> None:
    """Serve an app until SIGINT or SIGTERM. `hosts`: the names of this host in requests. `began` gets the URL.

    `proxied`: a proxy on this machine states the address of the client in X-Forwarded-For. Raises `NotConfigured` and
    `PortInUse`.
    """
    if find_spec("uvicorn") is None:
        raise NotConfigured(
            "`tenure dashboard` needs the package uvicorn, which is not installed. Install it with "
            "`pip install 'tenure[web]'`."
        )
    import uvicorn

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise PortInUse(
            f"The dashboard cannot listen at {host}, port {port}: {error.strerror or error}. Choose another --port."
        ) from None
    config = uvicorn.Config(
        OnlyHosts(app, hosts),
        log_config=None,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=proxied,
        forwarded_allow_ips="127.0.0.1,::1",
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    # The server raises the signal again when it has ended.
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: None)
    logging.getLogger("uvicorn.error").addFilter(_is_fault)
    with listening:
        name = f"[{host}]" if ":" in host else host
        began(f"http://{name}:{listening.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listening])


def _is_fault(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn is about a fault. An open page holds a request, which the end of the server cancels."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and "timeout graceful shutdown" not in record.getMessage()


class OnlyHosts:
    """Refuses requests for other hosts: a page of another site can give its own name the address of this one."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], advice: str = "Name it with --allow-host.") -> None:
        self._app = app
        self._advice = advice
        self._hosts = {host.lower().strip("[]") for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
            name = given[1:].partition("]")[0] if given.startswith("[") else given.partition(":")[0]
            if name not in self._hosts:
                answer = PlainTextResponse(f"This host is not served here. {self._advice}\n", 400)
                return await answer(scope, receive, send)
        await self._app(scope, receive, send)
