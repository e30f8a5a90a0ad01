"""Whether a worker claims and starts jobs: the fetcher and the executor read it, other duties set it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tenure.core import limits
from tenure.runtime.jobs.beats import Kept
from tenure.runtime.log import log_event
from tenure.runtime.ports import Env

DOUBT_MS: Final = 3 * limits.SECOND
"""How long the leases are kept after a claim that lost its reply. Until then heartbeats have reported its jobs."""


class Intake:
    """See the module. `keep`: sends the keeper the queues on which leases are held. `kept`: how old the last good
    heartbeats are. `queues`: all queues of this worker."""

    def __init__(self, keep: Callable[[frozenset[str]], None], kept: Kept, queues: frozenset[str], env: Env) -> None:
        self.kept = kept
        self.is_kept = asyncio.Event()
        """Set while the keeper keeps the leases: without it nothing is claimed."""
        self.is_refused = False
        """Whether Redis did not accept the last heartbeat. A keeper that has not started yet sends none."""
        self.is_quiet = False
        """Whether a person has paused this worker."""
        self.claiming_since: float | None = None
        """When the claim under way began; None without one."""
        self.keeping_since: float | None = env.clock()
        """Since when the keeper has had leases to keep; None: it has none."""
        self._send = keep
        self._all = self._keeps = queues
        self._clock = env.clock
        self._doubt_until = -math.inf
        self._paused: frozenset[str] = frozenset()
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        self.stops_in_order = False
        """The worker stops, and no part of it has failed."""
        self._disturbed = self._loop.create_future()

    def note_heartbeat(self, accepted: bool | None) -> None:
        """None: no keeper sends any now."""
        self.is_refused = accepted is False

    def stop(self, failed: bool = False) -> None:
        """Claim and start nothing from now on. `failed`: because a part of the worker cannot run."""
        if not self._stopped.done():
            self._stopped.set_result(None)
            self.stops_in_order = not failed

    def be_quiet(self, quiet: bool, worker: str) -> None:
        """Stop (or resume) claiming and starting jobs. Running jobs are not affected."""
        if quiet != self.is_quiet:
            self.is_quiet = quiet
            log_event("worker_paused" if quiet else "worker_resumed", worker=worker)
            self.disturb()

    def pause(self, queues: frozenset[str]) -> None:
        """Have the fetcher release the jobs of these queues that have not started. It does so after a claim under way:
        jobs that are released later come first."""
        self._paused = queues
        self.disturb()

    def disturb(self) -> None:
        """Wake the fetcher: something has changed."""
        if not self._disturbed.done():
            self._disturbed.set_result(None)

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
        """Reset the disturbance. Return whether there was one."""
        if not self._disturbed.done():
            return False
        self._disturbed = self._loop.create_future()
        return True

    def take_paused(self) -> frozenset[str]:
        """The queues that were paused since the last call."""
        paused, self._paused = self._paused, frozenset()
        return paused

    async def rest(self, waiting: Awaitable[Any], timeout_ms: int | None = None) -> Any:
        """Wait for this, but not past a stop or a disturbance, which cancel it."""
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

    def begin_claim(self) -> None:
        self.claiming_since = self._clock()

    def end_claim(self) -> None:
        self.claiming_since = None

    def keep_all(self) -> None:
        """Before a claim: have the keeper renew its leases, also if this process is blocked."""
        if not self._keeps:
            self.keep(self._all)

    def doubt(self) -> None:
        """After a claim lost its reply: have the keeper renew its leases until its reports have named them."""
        self._doubt_until = self._clock() + DOUBT_MS / limits.SECOND
        self.keep_all()

    def keep(self, queues: frozenset[str]) -> None:
        """Send the keeper the queues on which leases are held."""
        if self._clock() < self._doubt_until:
            queues = self._all
        if queues != self._keeps:
            if not queues or not self._keeps:
                self.keeping_since = self._clock() if queues else None
            self._keeps = queues
            self._send(queues)


def _retrieve(task: asyncio.Future[Any]) -> None:
    """Retrieve the error of a cancelled wait: asyncio logs those that nothing retrieves."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
