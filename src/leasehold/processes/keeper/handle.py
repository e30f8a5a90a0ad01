"""How a worker starts its keeper process and talks to it."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from leasehold.bootstrap import command_of
from leasehold.core import limits
from leasehold.core.engine import HeartbeatReply
from leasehold.core.job import LeaseRef
from leasehold.processes.keeper.messages import BEQUESTS, GOODBYE, KeeperReport, Orders, Snapshot
from leasehold.processes.keeper.overdue import Timeouts
from leasehold.processes.system import ProcessGroup, group_of, is_stopped
from leasehold.protocols.spec import EngineSpec
from leasehold.runtime.log import log_event
from leasehold.runtime.ports import KeeperGone

GUARDED_MOST: Final = 2 * limits.MAX_CONCURRENCY
"""Job processes that a keeper knows: one for each slot, and those that are about to end."""

LINE_MAX: Final = 4 * 1024 * 1024
"""Bytes of one report: every lease that a worker may hold, with names of the longest kind."""
UNREAD_MAX: Final = 1024 * 1024
"""Bytes that the keeper has not read yet. Beyond that snapshots are left out: only the newest counts."""
END_LOOK_S: Final = 0.01
"""While the end of the keeper is waited for."""


class ProcessKeeper:
    """A keeper in a process of its own. See `leasehold.runtime.ports.Keeper` for the methods.

    keeper = ProcessKeeper("redis://localhost:6379/0", engine_spec_of(engine))
    """

    def __init__(self, url: str, recipe: EngineSpec, timeouts: Timeouts | None = None) -> None:
        self._url = url
        self._recipe = recipe
        self._timeouts = timeouts or Timeouts()
        self._process: subprocess.Popen[bytes] | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._reports: asyncio.StreamReader | None = None
        self._trouble = ""
        self._told: frozenset[str] | None = None
        self._groups: dict[int, ProcessGroup | None] = {}
        self._kept_at: Mapping[str, float] = {}

    @property
    def pid(self) -> int | None:
        """The process id of the keeper; None when there is none."""
        return None if self._process is None else self._process.pid

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        await self.stop()
        # Not by asyncio: before Python 3.12 that needs a child watcher, which the policy of uvloop does not have.
        self._process = subprocess.Popen(  # noqa: ASYNC220, S603
            command_of("leasehold.processes.keeper.main"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        await self._connect(self._process)
        orders = Orders(self._url, self._recipe, worker, tuple(queues), os.getpid(), self._timeouts)
        self._send(orders.to_line())
        if self._told is not None:
            self._send(Snapshot(keep=self._told).to_line())
        self._tell_groups()

    async def _connect(self, process: subprocess.Popen[bytes]) -> None:
        """Read and write the keeper's pipes on the running loop."""
        loop, reports = asyncio.get_running_loop(), asyncio.StreamReader(LINE_MAX)
        self._stdout, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reports), process.stdout)
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        self._reports = reports

    async def report(self) -> HeartbeatReply | None:
        if self._reports is None:
            raise KeeperGone("it was not started")
        try:
            line = await self._reports.readline()
        except ValueError as error:  # a line longer than any of ours
            raise KeeperGone("it wrote something that is not a report") from error
        if not line.endswith(b"\n"):
            raise KeeperGone(f"the process ended{': ' + self._trouble if self._trouble else ''}")
        try:
            report = KeeperReport.from_line(line)
        except (ValueError, KeyError, TypeError) as error:
            raise KeeperGone("it wrote something that is not a report") from error
        if report.trouble != self._trouble:
            self._trouble = report.trouble
            log_event(logging.WARNING if report.trouble else logging.INFO, "keeper", trouble=report.trouble or "over")
        self._kept_at = report.kept_at
        return report.beat

    @property
    def kept_at(self) -> Mapping[str, float]:
        return self._kept_at

    def show(self, leases: Mapping[LeaseRef, float]) -> None:
        if self._stdin is not None and self._stdin.get_write_buffer_size() <= UNREAD_MAX:
            self._send(Snapshot(leases=leases).to_line())

    def keep(self, queues: frozenset[str]) -> None:
        if queues != self._told:
            # Never left out, however much is unread: leases hang on it. A keeper that does not read is soon replaced.
            self._send(Snapshot(keep=queues).to_line())
        self._told = queues

    def guard(self, pids: Sequence[int]) -> None:
        known, most = self._groups, GUARDED_MOST
        self._groups = {pid: known.get(pid) or group_of(pid) for pid in pids[:most]}
        self._tell_groups()

    def _tell_groups(self) -> None:
        self._send(Snapshot(groups=tuple(group for group in self._groups.values() if group)).to_line())

    def _send(self, line: bytes) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(line)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def bequeath(self, crashed: bool) -> bool:
        process = self._process
        if process is None or self._stdin is None or self._stdin.is_closing():
            return False
        if process.poll() is not None or is_stopped(process.pid):
            return False
        self._send(BEQUESTS[crashed] + b"\n")
        return True

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # Without this the keeper would take the end of its input for our death.
        self._send(GOODBYE + b"\n")
        stdin, stdout = self._stdin or process.stdin, self._stdout or process.stdout
        self._stdin = self._stdout = self._reports = None
        assert stdin is not None
        assert stdout is not None
        stdin.close()
        try:
            async with asyncio.timeout(limits.HARD_STOP_MS / limits.SECOND / 2):
                await _end_of(process)
        except TimeoutError:
            pass
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()  # a killed process ends at once
        stdout.close()


async def _end_of(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:  # noqa: ASYNC110
        await asyncio.sleep(END_LOOK_S)
