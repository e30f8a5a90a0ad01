"""The drivers of an app: one for blocking code, and one for each event loop. Each is made at its first use."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tenure.core import limits
from tenure.core.errors import NotConfigured, Unreachable
from tenure.core.hints import in_a_test
from tenure.core.steps import Steps
from tenure.core.text import masked
from tenure.settings import DEFAULT_URL, Settings

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import AsyncGenerator, Callable

    from tenure.redis.aio import AsyncDriver
    from tenure.redis.sync import SyncDriver

T = TypeVar("T")

FIRST_CONTACT_MS: Final = 1_500
"""How long a program tries that has no URL, while nothing listens at the default one."""
_NO_SERVER: Final = (
    "Set TENURE_URL, or start a server: `tenure dev MODULE:APP` starts one with a worker, "
    "TENURE_URL=embedded:./data one for trials (pip install 'tenure[embedded]')."
)
GUARD: Final = "TENURE_GUARD"
"""The pytest plugin sets this variable to the URL of its server, or to `none`: no call goes to another Redis."""


class Runner(Protocol):
    """Runs steps for the client: `Connections`, or a test's own. `get` of a subscription returns the next message, or
    None after a timeout in seconds; `receive` of a blocking one also returns the message's channel."""

    def run(self, steps: Steps[T]) -> T: ...
    async def arun(self, steps: Steps[T]) -> T: ...
    def subscribe(self, *channels: str) -> AbstractContextManager[Any]: ...
    def asubscribe(self, channel: str) -> AbstractAsyncContextManager[Any]: ...
    def close(self) -> None: ...
    async def aclose(self) -> None: ...


class Connections:
    """Runs steps over drivers that it makes when they are first needed. Safe for threads and several event loops.

    `node_patience_ms`: how long a call waits for a lost node of a cluster; later calls to it fail at once. None: each
    call waits for the patience of the settings. `is_guarded`: refuse calls of a test that has forgotten its fixture:
    see `GUARD`.
    """

    def __init__(self, settings: Settings, node_patience_ms: int | None = None, *, is_guarded: bool = True) -> None:
        self._settings = settings
        self._is_guarded = is_guarded
        self._node_patience_ms = node_patience_ms
        self._lock = threading.Lock()
        self._sync: SyncDriver | None = None
        self._close_sync: weakref.finalize[Any, Connections] | None = None
        # A weak dictionary would keep closed loops, because each driver references its loop. They are removed below.
        self._async: dict[AbstractEventLoop, tuple[AsyncDriver, AsyncGenerator[None]]] = {}

    def run(self, steps: Steps[T]) -> T:
        return self._driver().run(steps)

    async def arun(self, steps: Steps[T]) -> T:
        return await self._async_driver().run(steps)

    def run_on_each(self, make: Callable[[], Steps[T]]) -> list[tuple[str, T | Unreachable]]:
        """Run an operation on each server that has keys. The answers, each with the address of its server; an error
        for one that is lost while others respond."""
        return self._driver().run_on_each(make)

    def subscribe(self, *channels: str) -> AbstractContextManager[Any]:
        return self._driver().subscribe(*channels)

    def asubscribe(self, channel: str) -> AbstractAsyncContextManager[Any]:
        return self._async_driver().subscribe(channel)

    def close(self) -> None:
        """Close the connections of blocking code."""
        with self._lock:
            close, self._close_sync, self._sync = self._close_sync, None, None
        if close is not None:
            close()

    async def aclose(self) -> None:
        """Close the connections of the running loop, of closed loops, and of blocking code."""
        from asyncio import get_running_loop

        here = get_running_loop()
        with self._lock:
            over = [loop for loop in self._async if loop is here or loop.is_closed()]
            drivers = {loop: self._async.pop(loop) for loop in over}
        for loop, (driver, closer) in drivers.items():
            await (closer.aclose() if loop is here else driver.close())
        self.close()

    def _driver(self) -> SyncDriver:
        driver = self._sync
        if driver is None or driver.is_closed:
            from tenure.redis.drivers import blocking_driver

            with self._lock:
                driver = self._sync
                # A function that `atexit` calls after the finalizer may use the app again.
                if driver is None or driver.is_closed:
                    driver = self._sync = blocking_driver(self._settings.url, **self._options())
                    # At the end of the program, or of this object: else `python -W error` reports open sockets.
                    self._close_sync = weakref.finalize(self, driver.close)
        return driver

    def _async_driver(self) -> AsyncDriver:
        # Imported here, so that blocking programs do not load asyncio.
        from asyncio import get_running_loop

        loop = get_running_loop()
        kept = self._async.get(loop)
        if kept is None:
            from tenure.redis.drivers import asyncio_driver

            with self._lock:
                for closed in [other for other in self._async if other.is_closed()]:
                    del self._async[closed]
                driver = asyncio_driver(self._settings.url, **self._options())
                kept = self._async[loop] = driver, _closes_with_loop(driver)
        return kept[0]

    def _options(self) -> dict[str, Any]:
        if self._is_guarded:
            refuse_outside_of_fixtures(self._settings.url)
        return driver_options(self._settings) | {"node_patience_ms": self._node_patience_ms}


def refuse_outside_of_fixtures(url: str) -> None:
    """Refuse a Redis that is not the one of the fixtures, where `tenure_guard` is set. Raises `NotConfigured`."""
    allowed = os.environ.get(GUARD)
    if allowed and url != allowed:
        test = os.environ.get("PYTEST_CURRENT_TEST", "A test")
        raise NotConfigured(
            f"{test} uses {masked(url)} outside of a fixture, which tenure_guard forbids. Nothing was done. Use the "
            "fixture: tenure_app(app), or Tenure(tenure_server.url)."
        )


def _closes_with_loop(driver: AsyncDriver) -> AsyncGenerator[None]:
    """Close the driver when its loop ends: `asyncio.run` closes the async generators that have begun on it.

    Else each program that does not call `aclose` would leave sockets open, which `python -W error` reports.
    """

    async def closer() -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await driver.close()

    begun = closer()
    with suppress(StopIteration):
        begun.__anext__().send(None)
    return begun


def driver_options(settings: Settings, patience_ms: int | None = None) -> dict[str, Any]:
    """The options of a driver. `patience_ms`: of a program that waits for Redis, instead of the setting."""
    from tenure.redis.attempt import FirstContact

    most_ms = round(settings.patience * limits.SECOND) if patience_ms is None else patience_ms
    # Who configured a URL may have to wait for its server to start. At the default one, most have none yet.
    first_s = (min(most_ms, FIRST_CONTACT_MS) if patience_ms is None else patience_ms) / limits.SECOND
    first_contact = FirstContact(first_s, _NO_SERVER + in_a_test()) if settings.url == DEFAULT_URL else None
    return {
        "patience_ms": most_ms,
        "first_contact": first_contact,
        "connect_timeout_ms": round(settings.connect_timeout * limits.SECOND),
        "credentials": settings.credentials,
        "max_connections": settings.max_connections,
        "reply_timeout_ms": round(settings.reply_timeout * limits.SECOND),
    }
