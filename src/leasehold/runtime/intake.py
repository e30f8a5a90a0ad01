"""Whether a worker takes up jobs: the fetcher and the executor ask, the other duties decide."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

from leasehold.core import limits
from leasehold.runtime.jobs.beats import Kept
from leasehold.runtime.log import log_event
from leasehold.runtime.ports import Env, Keeper


class Intake:
    """See the module. `kept`: how old the last good heartbeats are. `queues`: all of this worker."""

    def __init__(self, keeper: Keeper, kept: Kept, queues: frozenset[str], env: Env) -> None:
        self.kept = kept
        self.is_kept = asyncio.Event()
        """Set while the keeper keeps the leases: without it nothing is claimed."""
        self.is_quiet = False
        """A person has asked this worker to take up no jobs."""
        self.claiming_since: float | None = None
        """When the claim that is under way began."""
        self.keeping_since: float | None = env.clock()
        """Since when the keeper has had something to keep; None: it has nothing."""
        self._keeper = keeper
        self._all = self._keeps = queues
        self._clock = env.clock
        self._paused: frozenset[str] = frozenset()
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        self._disturbed = self._loop.create_future()

    # ------------------------------------------------------------------------------------------ what the duties decide

    def stop(self) -> None:
        """Take up nothing any more."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    def be_quiet(self, quiet: bool, worker: str) -> None:
        """Stop (or resume) taking up jobs. Running jobs are not affected."""
        if quiet != self.is_quiet:
            self.is_quiet = quiet
            log_event("worker_paused" if quiet else "worker_resumed", worker=worker)
            self.disturb()

    def pause(self, queues: frozenset[str]) -> None:
        """Have the fetcher release what has not started of these queues, after a claim that is under way: jobs that
        go back later come first."""
        self._paused = queues
        self.disturb()

    def disturb(self) -> None:
        """Wake the fetcher: something has changed."""
        if not self._disturbed.done():
            self._disturbed.set_result(None)

    # ---------------------------------------------------------------------------------------------- what they ask for

    @property
    def is_stopped(self) -> bool:
        return self._stopped.done()

    @property
    def is_open(self) -> bool:
        """Whether jobs may start."""
        return not (self.is_quiet or self._stopped.done())

    @property
    def is_disturbed(self) -> bool:
        return self._disturbed.done()

    def calm(self) -> bool:
        """Take note of a disturbance. Answers whether there was one."""
        if not self._disturbed.done():
            return False
        self._disturbed = self._loop.create_future()
        return True

    def take_paused(self) -> frozenset[str]:
        """The queues that were paused since the last call."""
        paused, self._paused = self._paused, frozenset()
        return paused

    async def rest(self, waiting: Awaitable[Any], timeout_ms: int | None = None) -> Any:
        """Wait for this, but not past a stop or a disturbance. Only for what may be cancelled."""
        task = asyncio.ensure_future(waiting)
        try:
            timeout = None if timeout_ms is None else timeout_ms / limits.SECOND
            ends = {task, self._stopped, self._disturbed}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=timeout)
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_retrieve)
        return task.result() if task.done() else None

    # ----------------------------------------------------------------------------------------------- what is claimed

    def begin_claim(self) -> None:
        self.claiming_since = self._clock()

    def end_claim(self) -> None:
        self.claiming_since = None

    def keep_all(self) -> None:
        """Before a claim: have the keeper renew its leases, whatever holds this process up."""
        if not self._keeps:
            self.keep(self._all)

    def keep(self, queues: frozenset[str]) -> None:
        """Tell the keeper on which queues something is held."""
        if queues != self._keeps:
            if not queues or not self._keeps:
                self.keeping_since = self._clock() if queues else None
            self._keeps = queues
            self._keeper.keep(queues)


def _retrieve(task: asyncio.Future[Any]) -> None:
    """Retrieve the error of a cancelled wait: asyncio logs those that nothing retrieves."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
