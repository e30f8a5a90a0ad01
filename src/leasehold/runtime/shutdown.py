"""Graceful shutdown: the worker releases the jobs that it still holds, or leaves them to its keeper.

The keeper releases them when this process has ended. That is needed for jobs whose handlers go on although nothing may
run beside them, and when Redis does not answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leasehold.core import limits
from leasehold.runtime.context import WorkerContext
from leasehold.runtime.executor import Executor
from leasehold.runtime.heartbeat import Heartbeat
from leasehold.runtime.intake import Intake
from leasehold.runtime.jobs.held import Held
from leasehold.runtime.jobs.overrun import outlasting
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.settler import Settler
from leasehold.runtime.waits import within

RECYCLE_DRAIN_MS: Final = limits.HOUR
"""How long a worker that is recycled waits for its running jobs. The rest then have the grace period."""


@dataclass(slots=True, eq=False)
class Shutdown:
    """See the module. To be run once, when nothing new is taken up."""

    context: WorkerContext
    inflight: Inflight
    intake: Intake
    settler: Settler
    executor: Executor
    heart: Heartbeat
    left: bool = False
    """Whether jobs were left to the keeper. It releases them when this process has ended."""

    async def run(self, most_s: float, crashed: bool) -> int | None:
        """Release what is held, within about `most_s`. `crashed`: each running job counts a crash. Return how many jobs
        were released; None: unknown."""
        self.heart.lay_down()
        kept = outlasting(self.inflight)
        # Before the goodbye: until then the keeper releases all if this process dies.
        released = await self._give_back(kept, most_s, crashed)
        self.left = bool(kept) or (released is None and self.intake.keeping_since is not None)
        held = self.inflight.everything()
        # A job whose time is over counts: else one that always hangs would come back for ever. The others do not.
        crashed = crashed or (bool(held) and all(one.run.verdict is not None for one in held))
        await within(self.heart.stop(left=self.left, crashed=crashed), limits.HARD_STOP_MS / limits.SECOND)
        return released

    async def _give_back(self, kept: Sequence[Held], most_s: float, crashed: bool) -> int | None:
        if kept:
            return 0 if crashed else await self._put_back(kept, most_s)
        leave = self.context.engine.leave(self.context.worker, self.context.queues, crashed)
        given_back: int | None = await within(self.context.driver.run(leave), most_s)
        return given_back

    async def _put_back(self, but: Sequence[Held], most_s: float) -> int:
        """Give back all but these, by settling it. How many that were."""
        others = [held for held in self.inflight.everything() if held not in but]
        self.executor.release(others)
        await within(self.settler.flushed(), most_s)
        return sum(not self.inflight.knows(held.ref) for held in others)
