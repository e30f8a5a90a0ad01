"""Outcomes of one queue that Redis refuses: they wait apart from those that it takes, and have pauses of their own."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, TypeAlias

from leasehold.core.errors import LeaseholdError, ReplyError, WrongState
from leasehold.core.job import Lease
from leasehold.core.outcome import Outcome
from leasehold.runtime.jobs.held import Held
from leasehold.runtime.log import Once, brief, log_event
from leasehold.runtime.loops import pause_s
from leasehold.runtime.ports import Env

Item: TypeAlias = tuple[Lease, Outcome, Held | None]
"""A lease, how it ended, and its entry in the table (None: a stray that was never in it)."""


CROWD: Final = 500
"""So many of one queue, and nothing of it is claimed until they are fewer: what a worker holds is bounded for all."""


class DeferredOutcomes:
    """Those of one queue, in their order."""

    def __init__(self, queue: str, env: Env) -> None:
        self.queue = queue
        self.items: deque[Item] = deque()
        self.whole = False
        """Whether all of the queue are refused, as far as is known: those to come join these without asking."""
        self._crowd_told = False
        self._told = Once()
        self._env = env
        self._tries = 0
        self.pause()

    def pause(self, shortest: bool = False) -> None:
        """Before the next try: longer than the last one, up to a limit."""
        self._tries = 1 if shortest else min(self._tries + 1, 16)
        self.due_at = self._env.clock() + pause_s(self._tries, self._env.random)

    def refused(self, error: LeaseholdError) -> None:
        """Remember how far the refusal goes, and tell of it once."""
        self.whole = not may_be_of_one(error)
        text = brief(error)
        if self._told.is_new(text):
            log_event(logging.ERROR, "outcomes_refused", queue=self.queue, error=text)

    def add(self, items: list[Item]) -> None:
        """Behind the others. A crowd is told of once."""
        self.items += items
        if self.crowded and not self._crowd_told:
            self._crowd_told = True
            log_event(logging.WARNING, "outcomes_crowd", queue=self.queue, outcomes=len(self.items))

    @property
    def crowded(self) -> bool:
        """Whether nothing of the queue is to be claimed for now."""
        return len(self.items) >= CROWD

    def settled(self) -> None:
        """The last of them is gone."""
        log_event(logging.WARNING, "outcomes_settled", queue=self.queue)


def may_be_of_one(error: LeaseholdError) -> bool:
    """Whether a refusal may be about one job alone, and another of the same queue be taken.

    A foreign key may be that of one lane or priority, and a record that no script can read that of one job. But a user
    who may not do this, or a Redis that cannot write, is the same for all.
    """
    return isinstance(error, (WrongState, ReplyError))
