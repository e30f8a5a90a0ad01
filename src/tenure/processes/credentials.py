"""The user and the password for the connections of a keeper, which runs no user code: its worker sends them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from tenure.core import limits
from tenure.processes.messages import Credentials, CredentialsWanted
from tenure.redis.credentials import NoCredentials

ASK_MS: Final = 400
"""How long a keeper waits for its worker, which may be blocked or dead. After that it uses the last credentials."""


class WorkerCredentials:
    """The credentials of one worker. `send`: to that worker.

    credentials = WorkerCredentials(messages.send)
    driver = keeper_driver(url, credentials.get)
    """

    def __init__(self, send: Callable[[CredentialsWanted], None]) -> None:
        self._send = send
        self._last: tuple[str, ...] | None = None
        self._news = asyncio.Event()

    def take(self, message: Credentials) -> None:
        """Take what the worker has sent."""
        self._last = message.login
        self._news.set()

    async def get(self) -> tuple[str, ...]:
        """Ask the worker for credentials. Raises `NoCredentials` if it has sent none, and does not respond."""
        self._news.clear()
        self._send(CredentialsWanted())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASK_MS / limits.SECOND):
                await self._news.wait()
        if self._last is None:
            raise NoCredentials("the worker has sent no credentials")
        return self._last
