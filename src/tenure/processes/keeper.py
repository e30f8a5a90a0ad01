"""Keeps the leases of a worker process and releases its jobs when that process has ended.

The parent of `tenure worker` runs one `LeaseKeeper` for each worker. A worker without a parent starts this module as
its own keeper process:

    python -m tenure.processes.keeper

Neither runs code of the user. So a handler that blocks the event loop or holds the GIL stops no heartbeat.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from tenure.core import limits
from tenure.core.clock import lease_clock
from tenure.core.engine import CancelAsked, FullEngine, HeartbeatReply
from tenure.core.errors import RedisError, Unreachable, is_silent
from tenure.core.job import Lease, LeaseRef
from tenure.core.text import cut
from tenure.core.values import replace
from tenure.processes.credentials import WorkerCredentials
from tenure.processes.messages import BeatReport, Credentials, Goodbye, Holdings, MessageSocket, Orders
from tenure.processes.overdue import Overdue, lease_of, refusal
from tenure.processes.system import end, is_stopped, kill, until_ended
from tenure.protocols.registry import engine_of
from tenure.redis.aio import AsyncDriver
from tenure.redis.drivers import asyncio_driver
from tenure.runtime.log import brief, log_event
from tenure.runtime.waits import catch_up

RELEASE_MS: Final = 10 * limits.SECOND
"""How long a keeper tries to release the jobs of a dead worker while Redis refuses or does not reply. After that the
leases expire."""
LEFT_MS: Final = 30 * limits.SECOND
"""How long heartbeats continue for a worker that has stopped while its process does not end."""
GROUPS_MS: Final = 1 * limits.SECOND
"""How long a keeper waits for the death of the job processes that it kills before it releases their jobs."""
RETRY_MS: Final = 300
"""The pause between two attempts while Redis does not answer, and how long one call is repeated."""
TRY_MS: Final = 1_000
"""How long one attempt waits for its reply."""
TROUBLE_MS: Final = 5_000
"""How long Redis must be silent before the worker is informed. The worker's own connection notices sooner."""
ALIVE_MS: Final = 200
"""While a heartbeat waits for Redis, the worker gets a report this often: its keeper is alive."""
KILL_SHARE: Final = 0.25
"""After this share of the grace after a lease, the keeper kills the process of a job that the worker has not ended."""
REASON_MAX: Final = 300
"""Bytes of the reason for a cancellation in a report."""


@dataclass(slots=True)
class _Queue:
    """The heartbeats of one queue, and when the worker last announced that it may hold a job there.

    Times are by the keeper's clock, except `good_at`: when the last good heartbeat was sent, by `lease_clock`.
    """

    held_since: float | None = -math.inf
    """None: the worker holds no job."""
    tried_at: float = -math.inf
    good_at: float = 0.0
    due_at: float = math.inf
    """When a job of a dead worker may be due."""
    trouble: str = ""


class LeaseKeeper:
    """Keeps the leases of one worker. The methods take messages and the end of the process; `run` does the rest.

        keeper = LeaseKeeper(orders, engine, driver, send)
        task = asyncio.create_task(keeper.run())
        keeper.take(Holdings(kept=frozenset({"images"})))
        keeper.process_ended()

    It sends heartbeats for the queues on which the worker may hold a job. A claim begins its own lease, so the first
    heartbeat of a queue comes half an interval later. The other queues get one every `KEEPER_TEND_MS`: a worker with no
    free slot does not claim, so it would not find the jobs of dead workers there. A stopped worker (SIGSTOP) gets no
    heartbeats, because other workers should run its jobs.

    A closed socket does not prove that the worker is dead: a handler may have closed all files. Heartbeats end then,
    and jobs are released when the process has ended.
    """

    def __init__(
        self,
        orders: Orders,
        engine: FullEngine,
        driver: AsyncDriver,
        send: Callable[[BeatReport], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        lease_clock: Callable[[], float] = lease_clock,
        stopped: Callable[[int], bool] = is_stopped,
    ) -> None:
        self._orders = orders
        self._engine = engine
        self._driver = driver
        self._send = send
        self._clock = clock
        self._lease_clock = lease_clock
        self._stopped = stopped
        self._beat_s = engine.timing.beat_ms / limits.SECOND
        self._kill_s = (engine.timing.lease_ms + KILL_SHARE * engine.timing.grace_ms) / limits.SECOND
        self._began_at = lease_clock()
        self._overdue = Overdue(engine, orders.worker, orders.timeouts)
        self._holdings = Holdings(groups=())
        self._queues = {name: _Queue() for name in orders.queues}
        self._next_at = self._reported_at = -math.inf
        self._goodbye: Goodbye | None = None
        self._until = math.inf
        self._closed = self._ended = self._resting = False
        self._away_at: float | None = None
        self._away = ""
        self._news = asyncio.Event()

    def take(self, message: Holdings | Goodbye) -> None:
        """Take a message of the worker."""
        self._news.set()
        if isinstance(message, Goodbye):
            self._goodbye = message
            self._until = self._clock() + LEFT_MS / limits.SECOND if message.left else -math.inf
            return
        if message.leases is not None:
            self._overdue.leases = dict(message.leases)
        if message.groups is not None:
            self._holdings = message
        if message.kept is not None:
            now = self._clock()
            if not self._held():
                self._next_at = now + min(self._beat_s, RETRY_MS / limits.SECOND)
            for name, queue in self._queues.items():
                if name not in message.kept:
                    queue.held_since = None
                elif queue.held_since is None:
                    # Every claim there is newer than this message.
                    queue.held_since, queue.good_at = now, self._lease_clock()

    def socket_closed(self) -> None:
        """The worker has closed its end of the socket."""
        self._closed = True
        self._news.set()

    def process_ended(self) -> None:
        """The worker's process has ended, and its last message was taken."""
        self._ended = True
        self._news.set()

    async def run(self) -> None:
        """Keep the leases until the worker says goodbye or its process ends; then release what it left."""
        while not (self._ended or self._closed or self._clock() >= self._until):
            if not self._held():
                if not self._resting and self._clock() - self._reported_at >= self._beat_s:
                    self._report(HeartbeatReply())  # the worker may claim
                self._resting = True
                await self._pause()
            elif self._clock() < self._next_at:
                await self._pause(self._next_at - self._clock())
            elif self._stopped(self._orders.pid):
                self._kill_expired()
                await self._pause(self._beat_s / 2)
            else:
                self._resting = False
                await self._beat_and_report()
        if self._goodbye is not None and not self._goodbye.left:
            return
        self._until = math.inf
        while not self._ended:
            await self._pause()
        await self._release()

    def _held(self) -> list[str]:
        """The queues on which the worker may hold a job."""
        return [name for name, queue in self._queues.items() if queue.held_since is not None]

    async def _pause(self, seconds: float = math.inf) -> None:
        """Wait until there is news, for `seconds` at most."""
        most_s = min(seconds, self._until - self._clock())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if most_s == math.inf else most_s):
                await self._news.wait()
        self._news.clear()

    async def _beat_and_report(self) -> None:
        beating = asyncio.ensure_future(self._beat(self._clock()))
        try:
            while not (await asyncio.wait({beating}, timeout=ALIVE_MS / limits.SECOND))[0]:
                self._report(None)
                self._kill_expired()
        finally:
            beating.cancel()
        beat = beating.result()
        self._kill_expired()
        self._report(beat)
        now = self._clock()
        self._next_at = now + min(self._beat_s, RETRY_MS / limits.SECOND)
        if beat is not None:
            # A dead worker's jobs come back when they are due, not with the next heartbeat.
            due_s = min(queue.due_at for queue in self._queues.values()) - now
            self._next_at = now + min(self._beat_s, max(due_s, self._beat_s / 5))

    def _kill_expired(self) -> None:
        """Kill the processes of jobs that must not run at the same time as others, after their leases have expired.

        The worker does this earlier, unless it is stopped or a handler blocks its event loop.
        """
        before, holdings = self._lease_clock() - self._kill_s, self._holdings
        expired = {
            one.pid: one
            for one in holdings.exclusive
            if max(one.asked_at, self._began_at, self._queues[one.queue].good_at) <= before
        }
        if expired:
            left = tuple(one for one in holdings.exclusive if one.pid not in expired)
            self._holdings = structs.replace(holdings, exclusive=left)
            for group in kill(group for group in holdings.groups or () if group.pid in expired):
                log_event(
                    "lease_lost", queue=expired[group.pid].queue, noticed_by="keeper", certain=False, pid=group.pid
                )

    def _report(self, beat: HeartbeatReply | None) -> None:
        if beat is not None:
            self._reported_at = self._clock()
        kept_at = {name: self._queues[name].good_at for name in self._held()}
        trouble = self._away or next((queue.trouble for queue in self._queues.values() if queue.trouble), "")
        self._send(BeatReport(beat, trouble, kept_at))

    async def _beat(self, now: float) -> HeartbeatReply | None:
        """Send the heartbeats queue by queue: when Redis refuses one (another program's key), the others continue."""
        due = {name: queue for name, queue in self._queues.items() if self._is_due(queue, now)}
        lost: set[LeaseRef] = set()
        orphaned: list[Lease] = []
        cancelled: list[CancelAsked] = []
        done = not due
        for name, queue in due.items():
            sent_at = self._lease_clock()
            try:
                beat, queue.trouble = await self._driver.run(self._overdue.beat(name, now))
            except RedisError as error:
                if not is_silent(error):
                    queue.trouble, queue.tried_at = _text(error), now
                    continue
                self._away_at = now if self._away_at is None else self._away_at
                if now - self._away_at >= TROUBLE_MS / limits.SECOND:
                    self._away = _text(error)
                break
            done = True
            self._away_at, self._away = None, ""
            queue.tried_at, queue.good_at = now, sent_at
            queue.due_at = math.inf if beat.next_ms is None else now + beat.next_ms / limits.SECOND
            lost |= beat.lost
            orphaned += beat.orphaned
            cancelled += [replace(one, reason=cut(one.reason, REASON_MAX)) for one in beat.cancelled]
        return HeartbeatReply(frozenset(lost), tuple(orphaned), cancelled=tuple(cancelled)) if done else None

    def _is_due(self, queue: _Queue, now: float) -> bool:
        # A claim begins its own lease. Half an interval too early rather than too late.
        held, early_s = queue.held_since, self._beat_s / 2
        if now >= queue.due_at or (held is not None and now - held >= early_s):
            return True
        return now - queue.tried_at >= limits.KEEPER_TEND_MS / limits.SECOND - early_s

    async def _release(self) -> None:
        """Release what the worker held, after its job processes have ended. Redis may be away, or refuse to write."""
        await end(self._holdings.groups or (), GROUPS_MS / limits.SECOND)
        crashed = self._goodbye is None or self._goodbye.crashed
        timed_out = () if self._goodbye is None else self._goodbye.outcomes
        settlements = [(lease_of(self._orders.worker, ref), outcome) for ref, outcome in timed_out]
        queues = sorted(self._queues, key=lambda name: self._queues[name].held_since is None)
        until = self._clock() + RELEASE_MS / limits.SECOND
        while True:
            try:
                if settlements:  # again after an error: what is settled is held no longer
                    await self._driver.run(refusal(self._engine.settle(settlements)))
                count = await self._driver.run(self._engine.leave(self._orders.worker, queues, crashed=crashed))
            except RedisError as error:
                if self._clock() >= until:
                    # When one queue is refused, the jobs of the others were released.
                    what = "not_released" if isinstance(error, Unreachable) else "not_all_released"
                    return self._log_release(**{what: error})
                await asyncio.sleep(RETRY_MS / limits.SECOND)
            else:
                return self._log_release(released=count, **({"settled": len(settlements)} if settlements else {}))

    def _log_release(self, **result: object) -> None:
        if self._closed and result == {"released": 0}:
            return  # the worker had a keeper of its own by then
        if self._goodbye is None:
            log_event("worker_died", worker=self._orders.worker, **result)
        else:
            reason = "the worker has ended"
            log_event("jobs_released", worker=self._orders.worker, reason=reason, **result)


def keeper_driver(url: str, credentials: object = None) -> AsyncDriver:
    """The driver of keepers: a heartbeat that takes long is worth less than the next one."""
    timeouts = {"connect_timeout_ms": TRY_MS, "reply_timeout_ms": TRY_MS}
    return asyncio_driver(url, credentials, patience_ms=RETRY_MS, node_patience_ms=RETRY_MS, **timeouts)


class KeeperDrivers:
    """The drivers of the keepers of one parent, by URL. They stay open between two workers, and so does an embedded
    Redis."""

    def __init__(self) -> None:
        self._drivers: dict[str, AsyncDriver] = {}

    def of(self, url: str) -> AsyncDriver:
        if url not in self._drivers:
            self._drivers[url] = keeper_driver(url)
        return self._drivers[url]

    async def close(self) -> None:
        for driver in self._drivers.values():
            await driver.close()


def _text(error: RedisError) -> str:
    return f"{type(error).__name__}: {error.found or error}"


# ------------------------------------------------------------------------------- the keeper process of a single worker


async def _serve(end_of_socket: socket.socket) -> None:
    messages = await MessageSocket.open(end_of_socket)
    orders = await messages.receive()
    if not isinstance(orders, Orders):
        messages.close()
        return
    credentials = WorkerCredentials(messages.send) if orders.has_credentials else None
    try:
        driver = keeper_driver(orders.url, credentials and credentials.get)
        keeper = LeaseKeeper(orders, engine_of(orders.spec), driver, lambda report: messages.send(report))
    except Exception as error:
        messages.send(BeatReport(None, brief(error)))
        messages.close()
        return
    receiving = asyncio.create_task(_receive(messages, keeper, credentials))
    watching = asyncio.create_task(_watch(orders.pid, keeper))
    try:
        await keeper.run()
    finally:
        receiving.cancel()
        watching.cancel()
        messages.close()
        await driver.close()


async def _receive(messages: MessageSocket, keeper: LeaseKeeper, credentials: WorkerCredentials | None) -> None:
    with contextlib.suppress(ValueError):
        while isinstance(message := await messages.receive(), Holdings | Goodbye | Credentials):
            if not isinstance(message, Credentials):
                keeper.take(message)
            elif credentials is not None:
                credentials.take(message)
    keeper.socket_closed()


async def _watch(pid: int, keeper: LeaseKeeper) -> None:
    await until_ended(pid)
    await catch_up()  # its last message
    keeper.process_ended()


def main() -> None:
    # Ctrl-C, `kill` and the end of a terminal go to the whole group. The worker decides when to stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    from tenure.runtime.observe.format import formatter

    handler = logging.StreamHandler(sys.stderr)  # the worker's: a dead worker cannot log its own death
    handler.setFormatter(formatter(os.environ.get("TENURE_LOG_FORMAT", "human")))
    logging.getLogger("tenure.worker").addHandler(handler)
    try:
        end_of_socket = socket.socket(fileno=os.dup(0))
    except OSError:
        sys.exit("A worker starts its keeper process itself: stdin has to be a socket.")
    asyncio.run(_serve(end_of_socket))


if __name__ == "__main__":
    main()
