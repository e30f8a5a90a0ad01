"""How a worker starts its keeper process and talks to it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Sequence
from typing import Final

from leasehold.bootstrap import command_of
from leasehold.core import limits
from leasehold.core.engine import Heartbeat
from leasehold.core.job import LeaseRef
from leasehold.groups import Group, group_of
from leasehold.keeperlines import BEQUESTS, GOODBYE, Orders, Report, Snapshot
from leasehold.parent import is_stopped
from leasehold.recipes import Recipe
from leasehold.runtime.log import event
from leasehold.runtime.ports import KeeperGone

LINE_MAX: Final = 4 * 1024 * 1024
"""Bytes of one report: every lease that a worker may hold, with names of the longest kind."""
UNREAD_MAX: Final = 1024 * 1024
"""Bytes that the keeper has not read yet. Beyond that snapshots are left out: only the newest counts."""


class ProcessKeeper:
    """A keeper in a process of its own. See `leasehold.runtime.ports.Keeper` for the methods.

    keeper = ProcessKeeper("redis://localhost:6379/0", recipe_of(engine))
    """

    def __init__(self, url: str, recipe: Recipe) -> None:
        self._url = url
        self._recipe = recipe
        self._process: asyncio.subprocess.Process | None = None
        self._trouble = ""
        self._told: frozenset[str] | None = None
        self._groups: dict[int, Group | None] = {}
        self._kept_at = 0.0

    @property
    def pid(self) -> int | None:
        """The process id of the keeper; None when there is none."""
        return None if self._process is None else self._process.pid

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        await self.stop()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command_of("leasehold.keeper"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_MAX,
            )
        except RuntimeError as error:  # no thread to wait for its end: before Python 3.12, asyncio starts one for each
            raise OSError(errno.EAGAIN, str(error)) from error
        assert self._process.stdin is not None
        orders = Orders(self._url, self._recipe, worker, tuple(queues), os.getpid())
        self._process.stdin.write(orders.to_line())
        if self._told is not None:
            self._process.stdin.write(Snapshot(keep=self._told).to_line())
        self._tell_groups()

    async def report(self) -> Heartbeat | None:
        if self._process is None or self._process.stdout is None:
            raise KeeperGone("it was not started")
        try:
            line = await self._process.stdout.readline()
        except ValueError as error:  # a line longer than any of ours
            raise KeeperGone("it wrote something that is not a report") from error
        if not line.endswith(b"\n"):
            raise KeeperGone(f"the process ended{': ' + self._trouble if self._trouble else ''}")
        try:
            report = Report.from_line(line)
        except (ValueError, KeyError, TypeError) as error:
            raise KeeperGone("it wrote something that is not a report") from error
        if report.trouble != self._trouble:
            self._trouble = report.trouble
            event(logging.WARNING if report.trouble else logging.INFO, "keeper", trouble=report.trouble or "over")
        self._kept_at = report.kept_at
        return report.beat

    @property
    def kept_at(self) -> float:
        return self._kept_at

    def show(self, leases: Sequence[LeaseRef]) -> None:
        stdin = None if self._process is None else self._process.stdin
        if stdin is None or stdin.is_closing() or stdin.transport.get_write_buffer_size() > UNREAD_MAX:
            return
        stdin.write(Snapshot(leases=tuple(leases)).to_line())

    def keep(self, queues: frozenset[str]) -> None:
        stdin = None if self._process is None else self._process.stdin
        if queues != self._told and stdin is not None and not stdin.is_closing():
            # Never left out, however much is unread: leases hang on it. A keeper that does not read is soon replaced.
            stdin.write(Snapshot(keep=queues).to_line())
        self._told = queues

    def guard(self, pids: Sequence[int]) -> None:
        known, most = self._groups, limits.GUARDED_MOST
        self._groups = {pid: known.get(pid) or group_of(pid) for pid in pids[:most]}
        self._tell_groups()

    def _tell_groups(self) -> None:
        stdin = None if self._process is None else self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(Snapshot(groups=tuple(group for group in self._groups.values() if group)).to_line())

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def bequeath(self, crashed: bool) -> bool:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return False
        # The event loop may not have heard yet that it has died: the system is asked.
        if process.returncode is not None or not _is_at_work(process.pid):
            return False
        process.stdin.write(BEQUESTS[crashed] + b"\n")
        return True

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            # Without this the keeper would take the end of its input for our death.
            process.stdin.write(GOODBYE + b"\n")
            process.stdin.close()
        try:
            async with asyncio.timeout(limits.HARD_STOP_MS / limits.SECOND / 2):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _is_at_work(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not is_stopped(pid)
