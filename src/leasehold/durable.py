"""Jobs that are on so many replicas before a call returns: what is enqueued, and what has ended."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from leasehold.core.engine import Engine
from leasehold.core.errors import NotDurable
from leasehold.core.job import Enqueued, Lease, NewJob
from leasehold.core.outcome import Outcome
from leasehold.core.steps import Steps, durably

_log: Final = logging.getLogger("leasehold")


def enqueue_durably(engine: Engine, jobs: Sequence[NewJob], replicas: int) -> Steps[list[Enqueued]]:
    """`engine.enqueue`, and wait until so many replicas have the jobs; 0 waits for none.

    Raises `NotDurable` when too few have them in time: the jobs are enqueued all the same. One that was there already
    is waited for too, so that the call can be made again.
    """
    if not replicas or not jobs:
        return (yield from engine.enqueue(jobs))
    done = yield from durably(engine.enqueue(jobs), replicas)
    if done.replicas < replicas:
        raise NotDurable(tuple(answer.id for answer in done.answer), done.replicas, replicas, done.trouble)
    return done.answer


def settle_durably(engine: Engine, settlements: Sequence[tuple[Lease, Outcome]], replicas: int) -> Steps[list[bool]]:
    """`engine.settle`, and wait for so many replicas; 0 waits for none. Too few of them change no outcome: a warning
    is logged."""
    if not replicas:
        return (yield from engine.settle(settlements))
    done = yield from durably(engine.settle(settlements), replicas)
    if done.replicas < replicas:
        _log.warning("not_durable replicas=%d wanted=%d", done.replicas, replicas)
    return done.answer
