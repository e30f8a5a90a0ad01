"""Serves an ASGI app on a real socket, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from tests.support.waiting import until


@contextmanager
def served(asgi: ASGIApp, lifespan: Literal["on", "off"] = "off") -> Iterator[int]:
    """Serve an app, and yield its port."""
    config = uvicorn.Config(
        asgi, port=0, log_config=None, lifespan=lifespan, timeout_graceful_shutdown=1, ws="none", http="h11"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
