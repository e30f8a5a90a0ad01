"""The end of a worker's leases: what it still holds is given back, by itself where it can be, else by its keeper.

Some of it must wait for the end of this process, since handlers go on here beside which nothing may run. And Redis may
be away just now.
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
    bequeathed: bool = False
    """Something was left to the keeper, which acts when this process has ended: it must not be ended with it."""

    async def run(self, most_s: float, crashed: bool) -> int | None:
        """Release what is held, within about `most_s`. `crashed`: all that runs counts a crash. Answers how many jobs
        were released; None: not known."""
        self.heart.lay_down()
        kept = outlasting(self.inflight)
        # Before the keeper is told goodbye: until then it can still do this in our place. A beat that comes after it
        # finds nothing to keep.
        given_back = await self._give_back(kept, most_s, crashed)
        if kept or (given_back is None and self.intake.keeping_since is not None):
            self.bequeathed = self.heart.bequeath(crashed)
        if not self.bequeathed:
            await within(self.heart.stop(), limits.HARD_STOP_MS / limits.SECOND)
        return given_back

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
