"""A blocking subscription to channels, on its own connection. Messages are hints: any of them may be lost.

>>> with driver.subscribe("news") as messages:   # doctest: +SKIP
...     messages.get(timeout_s=1.0)
b'hello'
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from tenure.core import limits
from tenure.core.backoff import RetryBudget
from tenure.core.steps import finish
from tenure.redis import replies
from tenure.redis.availability import Availability
from tenure.redis.connector import Connector
from tenure.redis.link import BlockingLink, pack
from tenure.redis.replies import Reaction

PING_MS: Final = 10 * limits.SECOND
"""How often a quiet subscription sends a PING."""

_PING_S: Final = PING_MS / 1000
# A timeout of 0 would make the socket non-blocking.
_AT_LEAST_S: Final = 0.001


class Subscription:
    """Made by `SyncDriver.subscribe`. For one thread. It reconnects after a lost connection, without a log line."""

    def __init__(
        self,
        connector: Connector,
        channels: tuple[str | bytes, ...],
        patience_s: float,
        reply_timeout_s: float,
        draw_random: Callable[[], float],
        condition: Availability,
    ) -> None:
        self._connector = connector
        self._channels = tuple(one.encode() if isinstance(one, str) else one for one in channels)
        self._patience = patience_s
        self._reply_timeout = reply_timeout_s
        self._random = draw_random
        self._condition = condition
        self._link: BlockingLink | None = None
        self._renewals = RetryBudget(math.inf, draw_random)
        self._began = 0.0

    def __enter__(self) -> Self:
        self._connect()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._drop()

    def get(self, timeout_s: float) -> bytes | None:
        """Wait for a message; None after `timeout_s`. Raises `Unreachable` if Redis stays away."""
        received = self.receive(timeout_s)
        return None if received is None else received[1]

    def receive(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        """Wait for a message, and return its channel and the message; else like `get`."""
        until = time.monotonic() + timeout_s
        asked = False
        while True:
            left = until - time.monotonic()
            if left <= 0 and timeout_s > 0:
                return None
            wait = min(left, self._reply_timeout if asked else _PING_S)
            try:
                item = self._read(wait)
                if item is None and wait >= left:
                    return None
                if item is None:
                    # Quiet for long: the other end may be gone without closing the connection.
                    if asked:
                        raise TimeoutError("no answer to PING")
                    self._send("PING")
                asked = item is None
            except Exception as error:
                self._drop()
                if replies.action_of(error) is Reaction.RAISE:
                    raise
                now = time.monotonic()
                time.sleep(max(0.0, min(self._renewals.lost(now - self._began, now), until - now)))
                self._connect()
                asked = False
            except BaseException:
                self._drop()
                raise
            else:
                if isinstance(item, list) and len(item) == 3 and item[0] == b"message":
                    return bytes(item[1]), bytes(item[2])

    def _connect(self) -> None:
        patience = RetryBudget(self._patience, self._random)
        while True:
            try:
                self._link = finish(self._connector.open(BlockingLink))
                self._send("SUBSCRIBE", *self._channels)
                for _ in self._channels:
                    if self._read(self._reply_timeout) is None:
                        raise TimeoutError("no answer to SUBSCRIBE")
                self._condition.back()
                self._began = time.monotonic()
                return
            except Exception as error:
                self._drop()
                if not replies.is_passing(error):
                    if replies.is_reply(error):
                        raise replies.error_of(error, str(self._connector)) from None
                    raise
                self._condition.lost(error, _PING_S + self._reply_timeout)
                delay = patience.failed(time.monotonic())
                if delay is None:
                    raise replies.unreachable(str(self._connector), self._patience, error) from error
                time.sleep(delay)
            except BaseException:
                self._drop()
                raise

    def _send(self, *args: str | bytes) -> None:
        assert self._link is not None
        self._link.send(pack(args))

    def _read(self, timeout_s: float) -> Any:
        """Return what arrives within the time, else None. The parser keeps an incomplete item for the next read."""
        if self._link is None:
            raise ConnectionError("not connected")
        self._link.set_timeout(max(timeout_s, _AT_LEAST_S))
        try:
            return self._link.receive()
        except Exception as error:
            if replies.timed_out(error):
                return None
            raise

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            finish(link.close())
