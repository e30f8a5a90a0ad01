"""One worker process as its parent sees it: from its start to its end, with the keeper of its leases."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
import time
from collections.abc import Callable

from tenure.metrics.counts import Measured
from tenure.processes.credentials import WorkerCredentials
from tenure.processes.keeper import LeaseKeeper, keeper_driver
from tenure.processes.messages import (
    BeatReport,
    Credentials,
    Goodbye,
    Holdings,
    MessageSocket,
    Orders,
    StatusReport,
    StopOrder,
    WorkerState,
)
from tenure.processes.spawn import Spawned
from tenure.protocols.registry import engine_of
from tenure.redis.aio import AsyncDriver
from tenure.runtime.log import brief, log_event
from tenure.runtime.waits import catch_up


class WorkerProcess:
    """See the module.

    child = await WorkerProcess.open(0, spawn(command, is_alone=True), driver_of)
    child.follow(status_received, ended)
    """

    def __init__(
        self,
        slot: int,
        process: subprocess.Popen[bytes],
        messages: MessageSocket,
        driver_of: Callable[[str], AsyncDriver],
    ) -> None:
        self.slot = slot
        self.pid = process.pid
        self.began_at = time.monotonic()
        self.status = StatusReport(process.pid, WorkerState.STARTING, self.began_at)
        self.was_ready = False
        """Whether it has ever been running."""
        self.is_leaving = False
        """Whether its parent has requested a stop."""
        self.keeping: asyncio.Task[None] | None = None
        """Runs its keeper, which releases its jobs after its end."""
        self._keeper: LeaseKeeper | None = None
        self._has_stopped = False
        self._credentials: WorkerCredentials | None = None
        self._own_driver: AsyncDriver | None = None
        self._process = process
        self._messages = messages
        self._driver_of = driver_of
        self._measured: Callable[[Measured], None] = lambda measured: None

    @classmethod
    async def open(cls, slot: int, spawned: Spawned, driver_of: Callable[[str], AsyncDriver]) -> WorkerProcess:
        return cls(slot, spawned.process, await MessageSocket.open(spawned.socket), driver_of)

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.began_at

    def follow(
        self,
        status_received: Callable[[WorkerProcess], None],
        ended: Callable[[WorkerProcess, int], None],
        measured: Callable[[Measured], None] = lambda measured: None,
    ) -> None:
        """Call `status_received` for each status that it sends, and `ended` with its exit status, once and last.

        `measured`: called with what it has counted for the metrics.
        """
        self._measured = measured
        self._following = asyncio.create_task(self._follow(status_received, ended))

    def stop(self, *, hard: bool = False, retires: bool = False) -> None:
        """Request a stop. Harmless when it has ended. `retires`: it may finish its running jobs."""
        self.is_leaving = True
        if not self._messages.is_closed:
            self._messages.send(StopOrder(hard, retires))
        elif self._process.returncode is None and not self._has_stopped:  # its own keeper process has taken over
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        """End it by force. Its jobs are released."""
        self.is_leaving = True
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _follow(
        self, status_received: Callable[[WorkerProcess], None], ended: Callable[[WorkerProcess, int], None]
    ) -> None:
        receiving = asyncio.create_task(self._receive(status_received))
        status = await _until_ended(self._process)
        # Its last messages are in the socket already. Do not wait for the end of the socket: a process that a handler
        # forked may hold it open.
        await catch_up()
        self._messages.close()
        await catch_up()  # an error of the socket that has come reaches its reader
        receiving.cancel()
        if self._keeper is not None:
            self._keeper.process_ended()
        ended(self, status)

    async def _receive(self, status_received: Callable[[WorkerProcess], None]) -> None:
        """An error here does not end the parent: the socket is closed, and the worker starts a keeper of its own."""
        try:
            while (message := await self._messages.receive()) is not None:
                if isinstance(message, Orders) and self._keeper is None:
                    driver = self._driver_for(message)
                    self._keeper = LeaseKeeper(message, engine_of(message.spec), driver, self._report)
                    self.keeping = asyncio.create_task(self._keep(self._keeper))
                elif isinstance(message, Holdings | Goodbye) and self._keeper is not None:
                    self._has_stopped = isinstance(message, Goodbye)
                    self._keeper.take(message)
                elif isinstance(message, Credentials) and self._credentials is not None:
                    self._credentials.take(message)
                elif isinstance(message, Measured):
                    self._measured(message)
                elif isinstance(message, StatusReport):
                    self.status = message
                    status_received(self)
        except Exception as error:
            self._keeper_failed(error)
        self._messages.close()
        if self._keeper is not None:
            self._keeper.socket_closed()

    def _driver_for(self, orders: Orders) -> AsyncDriver:
        """The driver of the parent for this URL; one of its own if this worker gives the credentials."""
        if not orders.has_credentials:
            return self._driver_of(orders.url)
        self._credentials = WorkerCredentials(self._messages.send)
        self._own_driver = keeper_driver(orders.url, self._credentials.get)
        return self._own_driver

    async def _keep(self, keeper: LeaseKeeper) -> None:
        try:
            await keeper.run()
        except Exception as error:
            self._keeper_failed(error)
        finally:
            if self._own_driver is not None:
                await self._own_driver.close()

    def _keeper_failed(self, error: Exception) -> None:
        log_event("keeper_lost", child=self.pid, reason="failed", error=brief(error))
        self._messages.close()

    def _report(self, report: BeatReport) -> None:
        self._messages.send(report, is_replaced=True)


async def _until_ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for the exit status of a process, in a thread: it may have been started before the event loop."""
    loop = asyncio.get_running_loop()
    status: asyncio.Future[int] = loop.create_future()

    def ended(found: int) -> None:
        if not status.done():
            status.set_result(found)

    def wait() -> None:
        found = process.wait()
        with contextlib.suppress(RuntimeError):  # the loop has ended before
            loop.call_soon_threadsafe(ended, found)

    threading.Thread(target=wait, name=f"tenure waits for {process.pid}", daemon=True).start()
    return await status
