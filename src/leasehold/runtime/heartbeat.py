"""The worker's side of keeping leases: listens to the keeper process, restarts it, acts on what it says.

The beats themselves come from the keeper, which runs no user code and has a GIL of its own.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leasehold.core import limits
from leasehold.core.engine import HeartbeatReply
from leasehold.core.job import Lease, LeaseRef
from leasehold.runtime.canceller import Canceller
from leasehold.runtime.context import WorkerContext
from leasehold.runtime.executor import Executor
from leasehold.runtime.handlers.loop import tell_heir
from leasehold.runtime.intake import Intake
from leasehold.runtime.jobs.held import PENDING
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.log import brief, log_event
from leasehold.runtime.loops import FailureRate
from leasehold.runtime.ports import Keeper, KeeperGone
from leasehold.runtime.waits import catch_up

KEEPER_RESTARTS: Final = 5
"""A keeper that died more often than this within a minute stops the worker with an error."""
KEEPER_SILENCE_MS: Final = 3 * limits.SECOND
"""A keeper that is silent for twice this long is replaced, also while no job is held or while it starts."""
KEEPER_LATE_MS: Final = 1 * limits.SECOND
"""While jobs are held: after this much silence of the keeper, two heartbeats late, the worker claims no jobs."""
KEEPER_GONE_MS: Final = 1_300
"""While jobs are held: after this much silence the keeper is replaced, in time for the next one to keep the leases."""
KEEPER_START_MS: Final = 20 * limits.SECOND
"""A keeper that has not reported this long after its start is replaced."""
KEEPER_STARTS: Final = 5
"""When this many keepers in a row never reported, the worker stops with an error."""
KEEPER_UNSTARTED_MS: Final = 30 * limits.SECOND
"""When no keeper could be started for this long, the worker stops with an error."""
KEEPER_BACKOFF_MS: Final = 50
"""The pause between two attempts to start a keeper. It doubles with every attempt."""
KEEPER_BACKOFF_CAP_MS: Final = 500
"""The longest of these pauses."""
KEEPER_PATIENCE_MOST: Final = 16
"""Each keeper that is replaced for its silence doubles the silence allowed to the next, up to this factor."""
KEEPER_PATIENCE_MS: Final = limits.MINUTE
"""A keeper that has not been silent for this long has the usual limits again."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """When a stray was first and last reported."""

    first: float
    last: float


class Heartbeat:
    """Runs the keeper and hears it. Nothing is claimed while there is none."""

    def __init__(
        self,
        context: WorkerContext,
        keeper: Keeper,
        inflight: Inflight,
        intake: Intake,
        canceller: Canceller,
        executor: Executor,
    ) -> None:
        self._keeper = keeper
        self._worker = context.worker
        self._queues = context.queues
        self._env = context.env
        beat_ms = context.engine.timing.beat_ms
        self._young_s = beat_ms / 2 / limits.SECOND
        self._late_s = max(KEEPER_LATE_MS, 2 * beat_ms) / limits.SECOND
        self._gone_s = max(KEEPER_GONE_MS, 2.6 * beat_ms) / limits.SECOND
        self._kept = intake.kept
        self._inflight = inflight
        self._intake = intake
        self._canceller = canceller
        self._executor = executor
        self._strikes = FailureRate(KEEPER_RESTARTS)
        self._patience = 1
        """By how much the limits of silence are stretched: after one was replaced for it, the machine may be slow."""
        self._impatient_at = -math.inf
        self._silenced = False
        self._spoke = False
        self._mute = 0
        """How many keepers in a row never said a word."""
        self._strays: dict[LeaseRef, _Seen] = {}
        self._heard_at: float | None = None
        self._stopping = False

    async def run(self) -> None:
        """Until `stop`. Raises `KeeperGone` when keepers die one after the other, or none gets to speak or to start."""
        try:
            while not self._stopping:
                await self._one_keeper()
        finally:
            # A handler may have cancelled this. Nobody listens any more, so no silence may be judged: the keeper keeps
            # on, and takes what the worker leaves to it at its end.
            self._heard_at = None
            self._intake.is_kept.clear()

    async def _one_keeper(self) -> None:
        self._heard_at = None
        self._silenced = self._spoke = False
        if not await self._started():
            return
        try:
            await self._listen()
        except (KeeperGone, OSError) as error:
            self._ended(error)

    async def _started(self) -> bool:
        """Start one. That may not go for a while: no process or descriptor is left, or no memory. Such a try is no
        death, and what runs goes on. False: it is not needed any more."""
        since, tries = self._env.clock(), 0
        while not self._stopping:
            try:
                await self._keeper.start(self._worker, self._queues)
            except OSError as error:
                if not tries:
                    log_event(logging.ERROR, "keeper_not_started", error=brief(error))
                if self._env.clock() - since >= KEEPER_UNSTARTED_MS / limits.SECOND:
                    raise KeeperGone(
                        "The process that keeps the leases could not be started for "
                        f"{KEEPER_UNSTARTED_MS // limits.SECOND} s: {error}. Is this user, or the machine, out "
                        "of memory, processes or file descriptors?"
                    ) from error
            else:
                if tries:
                    log_event(logging.WARNING, "keeper_started", after_s=self._env.clock() - since)
                return True
            pause_ms = min(KEEPER_BACKOFF_MS << min(tries, 16), KEEPER_BACKOFF_CAP_MS)
            tries += 1
            await self._env.sleep(pause_ms / limits.SECOND)
        return False

    def _ended(self, error: KeeperGone | OSError) -> None:
        self._intake.is_kept.clear()
        if self._stopping:
            return
        log_event(logging.ERROR, "keeper_gone", error=brief(error))
        self._mute = self._mute + 1 if self._silenced and not self._spoke else 0
        if self._mute > KEEPER_STARTS:
            raise KeeperGone(
                f"The process that keeps the leases was started {self._mute} times and never said a word within "
                f"{KEEPER_START_MS // limits.SECOND} s. Is the machine overloaded, or out of memory?"
            ) from error
        # One that was ended for its silence is no sign that it cannot live: the machine is short of processor time.
        if not self._silenced and self._strikes.strike(self._env.clock()):
            raise KeeperGone(
                f"The process that keeps the leases died more than {KEEPER_RESTARTS} times in a minute. "
                "See the log lines before this one; is `python -m leasehold.processes.keeper.main` able to start here?"
            ) from error

    def lay_down(self) -> None:
        """What the keeper says does not count from now on: all that is held is about to be given back."""
        self._stopping = True
        self._intake.is_kept.clear()

    def bequeath(self, crashed: bool) -> bool:
        """Leave to the keeper what is to be given back when this process has ended: see `Keeper.bequeath`.

        `crashed`: it counts a crash. False: there is no keeper to leave it to.
        """
        self.lay_down()
        held = self._inflight.everything()
        # Attempts over their time must count: else a job that always hangs would come back for ever. Others must not.
        over = bool(held) and all(one.run.verdict is not None for one in held)
        taken = self._keeper.bequeath(crashed=crashed or over)
        if taken:
            tell_heir(self._keeper.pid)
        log_event(logging.WARNING, "bequeathing" if taken else "leases_lapse", worker=self._worker, jobs=len(held))
        return taken

    async def stop(self) -> None:
        """End the keeper: no beat after this."""
        self.lay_down()
        await self._keeper.stop()

    async def watch(self) -> None:
        """Called now and then while jobs are held: a keeper that is silent then (stopped, wedged) is replaced, and what
        must not run twice is stopped when no beat has gone through for too long.

        It says something every beat, also while Redis does not answer. The limits leave the next one the time to start
        and to beat before the leases are gone; soon after one that was silent, it gets more. While handlers hold the
        event loop, what it said lies in the pipe: that is read first. Whatever is not there then was not said.
        """
        if not self._doubtful(self._env.clock()):
            return
        heard = self._heard_at
        await catch_up()
        if self._stopping:
            return
        now = self._env.clock()
        if self._kept.is_late(self._inflight.queues()):
            self._canceller.silence(now)
        if self._heard_at == heard:
            self._judge(self._silent_s(now))

    def _doubtful(self, now: float) -> bool:
        return not self._stopping and (
            self._silent_s(now) >= self._late_s or self._kept.is_late(self._inflight.queues())
        )

    def _silent_s(self, now: float) -> float:
        """For how long it has said nothing although it should have."""
        since = self._intake.keeping_since
        return 0.0 if since is None or self._heard_at is None else now - max(since, self._heard_at)

    def _judge(self, silent_s: float) -> None:
        if silent_s >= self._late_s:
            self._intake.is_kept.clear()
        if silent_s >= self._gone_s * self._patience:
            self._heard_at = None
            log_event(logging.WARNING, "keeper_silent", silent_s=silent_s)
            self._lose_patience()
            self._keeper.kill()

    def _lose_patience(self) -> None:
        """It is ended for its silence. Ending one after the other would only keep a slow machine busy."""
        self._silenced = True
        self._impatient_at = self._env.clock()
        self._patience = min(2 * self._patience, KEEPER_PATIENCE_MOST)

    async def _listen(self) -> None:
        silent = 0
        while True:
            try:
                async with asyncio.timeout(KEEPER_SILENCE_MS / limits.SECOND):
                    beat = await self._keeper.report()
            except TimeoutError:
                # Once may be our own doing: this process was stopped, or its loop was held up.
                silent += 1
                starting = not self._spoke and silent * KEEPER_SILENCE_MS < KEEPER_START_MS
                if silent > self._patience and not starting and not self._stopping:
                    self._lose_patience()
                    await self._keeper.stop()
                    raise KeeperGone("it said nothing for too long and was ended") from None
                continue
            silent = 0
            self._heard_at, self._spoke = self._env.clock(), True
            if self._heard_at - self._impatient_at > KEEPER_PATIENCE_MS / limits.SECOND:
                self._patience = 1
            if beat is not None:
                self._hear(beat)
            if not self._stopping:  # its last word must not wait behind these
                self._keeper.show(self._inflight.snapshot(self._env.clock() - self._young_s))

    def _hear(self, beat: HeartbeatReply) -> None:
        if self._stopping:
            return
        late = self._kept.hear(self._keeper.kept_at)
        for ref in beat.lost:
            self._canceller.lose(ref, "heartbeat")
        for asked in beat.cancelled:
            self._canceller.cancel(asked.ref, asked.reason)
        if late:
            self._executor.release_doubtful()
        self._release_strays(beat.strays)
        self._pause(beat.paused)
        self._intake.is_kept.set()
        self._executor.dispatch()

    def _pause(self, queues: frozenset[str]) -> None:
        """Release what has not started of queues that are paused."""
        if any(held.phase is PENDING and held.lease.record.queue in queues for held in self._inflight.everything()):
            self._intake.pause(queues)

    def _release_strays(self, strays: Sequence[Lease]) -> None:
        """Hand back leases whose claim never reached us.

        A stray may belong to a claim that is under way. One that was seen before that claim began cannot, and every
        claim before it has ended: its jobs would be known. Not every beat is about every queue, so what was seen is
        remembered for a while; the same lease never comes back.
        """
        now = self._env.clock()
        before = now - 3 * limits.KEEPER_TEND_MS / limits.SECOND
        seen = {ref: one for ref, one in self._strays.items() if one.last > before}
        for lease in strays:
            ref = lease.ref
            if self._inflight.knows(ref):
                continue
            known = seen.pop(ref, None)
            claiming = self._intake.claiming_since
            if known is None or (claiming is not None and claiming <= known.first):
                seen[ref] = _Seen(now if known is None else known.first, now)
            elif self._executor.release_orphan(lease):
                log_event(logging.WARNING, "stray", queue=ref.queue, id=ref.id, token=ref.token)
        self._strays = seen
