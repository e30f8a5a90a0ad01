"""The loop that claims: as many jobs as there are free slots, and a little ahead; it waits when no slot is free."""

from __future__ import annotations

import asyncio
import logging
import math
from enum import Enum
from typing import Final

from tenure.core import limits
from tenure.core.waiting import Lead
from tenure.runtime.claimer import Claimed, Claimer, Part
from tenure.runtime.context import WorkerContext
from tenure.runtime.executor import Executor
from tenure.runtime.jobs.suspects import Suspects
from tenure.runtime.log import log_event
from tenure.runtime.settler import Settler

SPURIOUS_MS: Final = 100
"""The longest pause after wake-ups without a job."""

REFUSED_LOOK_MS: Final = 500
"""How often a burst checks whether Redis has refused it for too long."""


class Following(Enum):
    """What follows a claim."""

    CLAIM = "the next claim, at once"
    LAST_LOOK = "the last claim of a burst, unless it brings more than persistent jobs"
    WAIT = "a wait until a claim may bring jobs"
    END = "nothing: the burst is over"


class Fetcher:
    """Decides when to claim, when to wait, and when a burst is over."""

    def __init__(
        self,
        context: WorkerContext,
        claimer: Claimer,
        executor: Executor,
        settler: Settler,
        suspects: Suspects,
        burst: bool = False,
        burst_wait_s: float = math.inf,
    ) -> None:
        self._context = context
        self._env = context.env
        self._inflight = context.inflight
        self._intake = context.intake
        self._claimer = claimer
        self._executor = executor
        self._settler = settler
        self._suspects = suspects
        self._burst = burst
        self._burst_wait_s = burst_wait_s
        self._accepted_at = self._env.clock()
        """When Redis last refused nothing, or this worker last held a job."""
        self.trouble: str | None = None
        """Why a burst has ended although its queues may have jobs."""
        self._waits_for: Part | None = None
        self._lead: Lead | None = None
        """The wait that the next claim begins with."""
        self._is_last_look = False
        self._woken_in_vain = 0

    async def run(self) -> None:
        """Run until stopped; with `burst`, until there is nothing left to do."""
        try:
            while not self._intake.is_stopped and await self._turn():
                pass
        finally:
            await self._claimer.close()

    async def _turn(self) -> bool:
        """Claim once, or wait until it may be possible. False: a burst is over."""
        if self._intake.calm():
            if paused := self._intake.take_paused():
                self._settler.release(self._inflight.take_pending(lambda held: held.lease.record.queue in paused))
            self._executor.release_doubtful()
            self._executor.dispatch()
        if self._intake.is_quiet:
            self._settler.release(self._inflight.take_pending(lambda _: True))
            await self._stand_by(None)
        elif not self._intake.is_kept.is_set():
            await self._intake.rest(self._intake.is_kept.wait(), REFUSED_LOOK_MS if self._burst else None)
            return not self._gives_up(self._intake.is_refused)
        elif pause_ms := self._suspects.pause_ms():
            await self._stand_by(pause_ms)
        elif not self._claimer.has_room:
            if self._burst and self._inflight.lasting and all(run.persistent for run in self._inflight.running):
                return False
            self._inflight.room.clear()
            await self._intake.rest(self._inflight.room.wait())
        elif self._settler.is_releasing:
            self._inflight.changed.clear()
            await self._intake.rest(self._inflight.changed.wait())
        else:
            return await self._claim()
        return True

    async def _claim(self) -> bool:
        """Claim once, and do what follows. False: a burst is over."""
        was_lasting = self._inflight.lasting
        lead, self._lead = self._lead, None
        if lead is not None:
            self._waits_for = self._claimer.startable()
        try:
            claimed = await self._claimer.claim(lead)
        finally:
            self._waits_for = None
        self._keep_leases()
        if self._gives_up(claimed.is_refused):
            return False
        if claimed.is_partial:
            await asyncio.sleep(0)  # its handlers begin before the next claim; after a full claim Redis works then
            if claimed.took_all:
                await asyncio.sleep(0)  # the ends of handlers are reported in the next turn
        following = after_claim(
            claimed,
            looks_again=self._suspects.look_again or self._suspects.queue is not None,
            only_settles=self._inflight.only_settles,
            is_burst=self._burst,
            is_empty=self._inflight.empty,
            only_lasting=was_lasting and self._inflight.lasting,
            is_last_look=self._is_last_look,
        )
        # A last look lasts until a claim brings other work.
        self._is_last_look = following is Following.LAST_LOOK or (self._is_last_look and not claimed.may_continue)
        if claimed.leased.leases:
            self._woken_in_vain = 0
        elif following is Following.WAIT:
            self._note_woken(claimed.woken)
        if following is Following.WAIT:
            await self._idle(claimed.leased.next_ms)
        return following is not Following.END

    def _gives_up(self, is_refused: bool) -> bool:
        """Whether a burst ends although its queues may have jobs: Redis refuses the claims or the heartbeats of this
        worker for too long, and it holds no job."""
        now = self._env.clock()
        if not is_refused or not self._inflight.empty:
            self._accepted_at = now
        if not self._burst or now - self._accepted_at < self._burst_wait_s:
            return False
        self.trouble = f"Redis has refused this worker for {self._burst_wait_s:g} s. See the lines before this one."
        return True

    def _keep_leases(self) -> None:
        self._intake.keep(self._inflight.queues(len(self._context.queues)))

    async def _stand_by(self, timeout_ms: int | None) -> None:
        """Claim nothing until a held job has ended, or for a time."""
        self._inflight.changed.clear()
        self._keep_leases()
        await self._intake.rest(self._inflight.changed.wait(), timeout_ms)

    def watch(self, now: float, late: bool) -> None:
        """Measure how fast jobs start, and release jobs that have waited too long behind busy slots.

        `late`: the event loop was blocked, so a long wait proves nothing.
        """
        if self._waits_for is not None and self._waits_for != self._claimer.startable():
            self._intake.disturb()  # a batch took the last slot, or a slot came free for other queues
        saturated = self._inflight.measure(now, late)
        # A claim under way may bring newer jobs. Released after these, they would come in front of them.
        claims = self._intake.is_stopped or self._intake.claiming_since is not None
        if late or not saturated or self._inflight.free > 0 or claims:
            return
        if stuck := self._inflight.take_stuck(now):
            self._settler.release(stuck)
            log_event("jobs_released", logging.DEBUG, released=len(stuck), reason="all slots are busy")

    async def _idle(self, next_ms: int | None) -> None:
        """Wait until a claim may bring jobs."""
        if self._burst and not self._inflight.empty:
            # A job here may still be retried or released: look again when one has ended.
            self._inflight.changed.clear()
            await self._intake.rest(self._inflight.changed.wait(), SPURIOUS_MS)
            return
        if self._woken_in_vain > 1:  # other workers are faster
            pause_ms = min(limits.MIN_WAIT_MS * self._woken_in_vain, SPURIOUS_MS)
            await self._intake.rest(self._env.sleep(pause_ms / limits.SECOND))
        if self._inflight.only_settles:  # a worker that holds no jobs starts the next one sooner
            await self._intake.rest(self._settler.flushed(), SPURIOUS_MS)
            self._keep_leases()
        most = self._context.engine.timing.idle_wait_ms
        wait_ms = max(limits.MIN_WAIT_MS, min(most, most if next_ms is None else next_ms))
        wait_ms += int(self._env.random() * limits.MIN_WAIT_MS / 4)
        self._waits_for = self._claimer.startable()
        try:
            if self._waits_for:
                wait = self._claimer.wait_for(self._waits_for, wait_ms)
                if isinstance(wait, Lead):
                    self._lead = wait
                else:
                    self._note_woken(await self._claimer.wait(wait, wait_ms))
            else:
                self._inflight.room.clear()
                await self._intake.rest(self._inflight.room.wait(), wait_ms)
        finally:
            self._waits_for = None

    def _note_woken(self, woken: bool | None) -> None:
        """Count wake-ups without a job. None: it was no wake-up."""
        if woken is not None:
            self._woken_in_vain = self._woken_in_vain + 1 if woken else 0


def after_claim(
    claimed: Claimed,
    *,
    looks_again: bool = False,
    only_settles: bool = False,
    is_burst: bool = False,
    is_empty: bool = False,
    only_lasting: bool = False,
    is_last_look: bool = False,
) -> Following:
    """Decide what follows a claim. `looks_again`: for a job that runs alone. `only_lasting`: no job ran during the
    claim but persistent ones."""
    leased = claimed.leased
    if looks_again:
        return Following.CLAIM
    if claimed.took_all and only_settles:  # their handlers have ended already
        return Following.WAIT
    if claimed.may_continue or leased.dropped or leased.next_ms == 0:
        return Following.CLAIM
    if is_burst and not claimed.is_refused:  # a queue that Redis refuses may have jobs
        if only_lasting:
            # Each persistent job runs once: one that ends and is claimed again does not prolong the burst.
            return Following.LAST_LOOK if leased.leases and not is_last_look else Following.END
        if is_empty:  # what ran during the claim may have left a retry
            return Following.CLAIM
    return Following.CLAIM if leased.leases else Following.WAIT
