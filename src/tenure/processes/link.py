"""The worker's end of the socket to the process that keeps its leases: its parent, or else a keeper of its own.

Stop requests are messages on this socket and not signals. So a signal that reaches the whole group (Ctrl-C, systemd)
and the parent's request together count once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tenure.bootstrap import command_of
from tenure.core import limits
from tenure.core.engine import HeartbeatReply
from tenure.core.errors import InvalidArgument
from tenure.core.job import LeaseRef
from tenure.core.outcome import TimedOut
from tenure.metrics.counts import Measured
from tenure.processes.messages import (
    BeatReport,
    Credentials,
    CredentialsWanted,
    Goodbye,
    Holdings,
    Message,
    MessageSocket,
    Orders,
    StatusReport,
    StopOrder,
)
from tenure.processes.overdue import Timeouts
from tenure.processes.system import ProcessGroup, group_of
from tenure.protocols.spec import EngineSpec
from tenure.redis.credentials import NoCredentials, asyncio_login
from tenure.runtime.log import log_event
from tenure.runtime.ports import Exclusive, KeeperGone, ParentGone

GUARDED_MOST: Final = 2 * limits.MAX_CONCURRENCY
"""Job processes that a keeper knows: one for each slot, and those that are about to end."""
END_POLL_MS: Final = 10
"""How often the worker asks whether its keeper process has ended."""


class ParentSocket:
    """The inherited socket to the parent.

    Until `taken`, this process holds no job. So it exits as soon as the parent sends anything or has ended, even while
    it imports the app.
    """

    def __init__(self, descriptor: int) -> None:
        try:
            self._socket = socket.socket(fileno=descriptor)
        except OSError:
            raise InvalidArgument("--parent is for processes that a worker starts; leave it out.") from None
        self._socket.set_inheritable(False)  # what handlers start would keep it open
        woken, self._wake = os.pipe()
        self._watcher = threading.Thread(target=self._watch, args=[woken], name="tenure-parent", daemon=True)
        self._watcher.start()

    def _watch(self, woken: int) -> None:
        ready, _, _ = select.select([self._socket.fileno(), woken], [], [])
        if woken not in ready:
            os._exit(0)
        os.close(woken)

    def taken(self) -> socket.socket:
        """The socket, which is not watched from now on."""
        os.close(self._wake)
        self._watcher.join()
        return self._socket


class KeeperLink:
    """Has the leases of a worker kept. See `tenure.runtime.ports.Keeper` for the methods that are not explained.

        keeper = KeeperLink("redis://localhost:6379/0", engine_spec_of(engine))

    `parent`: the socket to the parent. `credentials`: gives the user and the password of a connection, within
    `credentials_s`. `stop`: called when the parent requests a stop.
    `parent_lost`: called when the parent is gone or silent. Then, and without a parent, the worker starts a keeper
    process of its own. `measured`: returns what the metrics have counted since its last call, for the parent.
    """

    def __init__(
        self,
        url: str,
        spec: EngineSpec,
        timeouts: Timeouts | None = None,
        *,
        parent: ParentSocket | None = None,
        credentials: object = None,
        credentials_s: float = limits.CONNECT_TIMEOUT_MS / limits.SECOND,
        stop: Callable[[StopOrder], None] = lambda order: None,
        parent_lost: Callable[[], None] = lambda: None,
        measured: Callable[[], Measured] | None = None,
        command: Sequence[str] = (),
    ) -> None:
        self._url = url
        self._spec = spec
        self._timeouts = timeouts or Timeouts()
        self._parent = None if parent is None else parent.taken()
        self._credentials, self._credentials_s = credentials, credentials_s
        self._asked: asyncio.Task[None] | None = None
        self._stop = stop
        self._parent_lost = parent_lost
        self._measured = measured
        self._command = command or command_of("tenure.processes.keeper")
        self._messages: MessageSocket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_parents = False
        self._holdings = Holdings()
        self._goodbye: Goodbye | None = None
        self._trouble = ""
        self._kept_at: Mapping[str, float] = {}

    @property
    def pid(self) -> int | None:
        """The keeper process of this worker, if it has one."""
        return None if self._process is None else self._process.pid

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        self._drop()
        if self._is_parents:
            log_event("parent_lost")
            self._parent_lost()
        self._is_parents = self._parent is not None
        theirs: socket.socket | None = None
        if self._parent is not None:
            ours, self._parent = self._parent, None
        else:
            ours, theirs = socket.socketpair()
        self._messages = await MessageSocket.open(ours)
        self._send(
            Orders(
                self._url, self._spec, worker, tuple(queues), os.getpid(), self._timeouts, self._credentials is not None
            )
        )
        if self._holdings != Holdings():
            self._send(self._holdings)
        if self._goodbye is not None:
            self._send(self._goodbye)
        if theirs is not None:
            # After the messages: the keeper reads them even if this worker dies while it starts.
            with theirs:
                # Not by asyncio: before Python 3.12 that needs a child watcher, which uvloop's policy does not have.
                self._process = subprocess.Popen(self._command, stdin=theirs.fileno())  # noqa: S603, ASYNC220

    async def report(self) -> HeartbeatReply | None:
        while self._messages is not None:
            try:
                message = await self._messages.receive()
            except ValueError as error:
                raise KeeperGone("it sent something that is not a report") from error
            if isinstance(message, StopOrder):
                self._stop(message)
            elif isinstance(message, CredentialsWanted):
                if self._asked is None or self._asked.done():
                    self._asked = asyncio.create_task(self._send_credentials())
            elif isinstance(message, BeatReport):
                return self._read(message)
            else:
                break
        gone = ParentGone if self._is_parents else KeeperGone
        raise gone(f"the process ended{': ' + self._trouble if self._trouble else ''}")

    async def _send_credentials(self) -> None:
        with contextlib.suppress(NoCredentials):  # the keeper asks again; the worker's own calls report it
            self._send(Credentials(await asyncio_login(self._credentials, self._credentials_s)))

    def _read(self, report: BeatReport) -> HeartbeatReply | None:
        if report.trouble != self._trouble:
            self._trouble = report.trouble
            if report.trouble:
                log_event("redis_lost", what="heartbeat", error=report.trouble)
            else:
                log_event("redis_restored", what="heartbeat")
        self._kept_at = report.kept_at
        return report.beat

    @property
    def kept_at(self) -> Mapping[str, float]:
        return self._kept_at

    def show(self, leases: Mapping[LeaseRef, float]) -> None:
        self._send(Holdings(leases=tuple(leases.items())), is_replaced=True)

    def keep(self, queues: frozenset[str]) -> None:
        if queues != self._holdings.kept:
            self._holdings = replace(self._holdings, kept=queues)
            self._send(Holdings(kept=queues))

    def guard(self, pids: Sequence[int], exclusive: Sequence[Exclusive] = ()) -> None:
        known = {group.pid: group for group in self._holdings.groups or ()}
        found = [known.get(pid) or group_of(pid) for pid in pids[:GUARDED_MOST]]
        groups: tuple[ProcessGroup, ...] = tuple(group for group in found if group is not None)
        message = Holdings(groups=groups, exclusive=tuple(exclusive))
        self._holdings = replace(message, kept=self._holdings.kept)
        self._send(message)

    def tell(self, status: StatusReport) -> None:
        """Send the status of this worker to its parent, if it has one."""
        if self._is_parents:
            self._send(status, is_replaced=True)
            self._send_measured()

    def _send_measured(self) -> None:
        """Send what was counted since the last time. While the parent does not read, that grows in the counts."""
        if self._measured is not None and self._is_parents and self._messages is not None and self._messages.has_room:
            self._send(self._measured())

    def _send(self, message: Message, *, is_replaced: bool = False) -> None:
        if self._messages is not None:
            self._messages.send(message, is_replaced=is_replaced)

    def _drop(self) -> None:
        """Close the socket, and kill the keeper process if there is one."""
        if self._messages is not None:
            self._messages.close()
            self._messages = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()  # a killed process ends at once
            self._process = None

    def replace(self) -> None:
        if self._messages is not None:
            self._messages.close()

    async def stop(self, *, left: bool = False, crashed: bool = False, outcomes: TimedOut = ()) -> None:
        self._send_measured()
        self._goodbye = Goodbye(left, crashed, tuple(outcomes))
        self._send(self._goodbye)
        if left:  # the socket stays open until this process has ended
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.HARD_STOP_MS / limits.SECOND / 2):
                while self._process is not None and self._process.poll() is None:  # noqa: ASYNC110
                    await asyncio.sleep(END_POLL_MS / limits.SECOND)
        self._drop()
