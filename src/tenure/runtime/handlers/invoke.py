"""Calls handlers, for one job or for a batch, on the loop or in a thread, and decides the outcomes. No I/O."""

from __future__ import annotations

import math
import time
from asyncio import CancelledError, current_task, to_thread
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tenure.core.job import ErrorInfo
from tenure.core.outcome import Crashed, Outcome, Released
from tenure.core.task import Arguments
from tenure.runtime.jobs import outcomes
from tenure.runtime.jobs.batches import outcomes_of_answers
from tenure.runtime.jobs.beats import Kept
from tenure.runtime.jobs.held import Batch, Ended, Held, Outcomes, Stop
from tenure.runtime.jobs.job import enter, job_of
from tenure.runtime.stored import StoredPayloads, has_stored
from tenure.runtime.waits import catch_up

LOOKS: Final = 10
LOOK_S: Final = 0.05
"""How often, and with which pause, a thread checks whether this worker still holds its job, when heartbeats are
late."""
Done: TypeAlias = Callable[[Sequence[Ended]], None]


class Caller:
    """Its methods do not raise, even if the handler does. `kept`: whether this worker still holds a job; None: it
    does. `stopping`: whether the worker stops in order, so that the end of the event loop is no crash. `raised`: called
    with what the user's code raises."""

    def __init__(
        self,
        random: outcomes.Random,
        clock: Callable[[], float],
        kept: Kept | None = None,
        payloads: StoredPayloads | None = None,
        stopping: Callable[[], bool] = lambda: False,
        raised: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self._random = random
        self._clock = clock
        self._kept = kept
        self._fresh_after = -math.inf if kept is None else math.inf
        self._payloads = payloads or StoredPayloads()
        self._stopping = stopping
        self._note = raised

    def begin_turn(self) -> None:
        """Read the clock of leases, for the handlers that are called in this turn of the loop."""
        if self._kept is not None:
            self._fresh_after = self._kept.fresh_after()

    async def on_loop(self, run: Held | Batch) -> Ended:
        """Call the handler."""
        run.begin()
        is_fresh = type(run) is Held and run.asked_at > self._fresh_after
        if not is_fresh and not self._may_begin(run) and not await self._may_begin_soon(run):
            return run, _released(run), self._clock()
        unread: Outcomes = []
        if has_stored(run):
            try:
                unread = await to_thread(self._payloads.load, run, self._random)
            except BaseException as error:
                return run, self._raised(run, error, on_loop=True), self._clock()
            if not _keep_read(run, unread):
                return run, unread, self._clock()
        try:
            arguments, named = _arguments(run)
        except BaseException as error:  # a decoder is user code too
            self._note(error)
            return run, _undecodable(run, error) + unread, self._clock()
        try:
            value = await run.spec.function(*arguments, **named)
            now = self._clock()
            # Inspecting the returned value may raise too: an unbound proxy does when it is asked for its class.
            decided = self._returned(run, value, now)
        except BaseException as error:  # SystemExit and friends end the attempt, not the worker
            self._note(error)
            decided, now = self._raised(run, error, on_loop=True), self._clock()
        return run, decided + unread if unread else decided, now

    def in_thread(self, run: Held | Batch) -> Outcomes:
        run.begin()
        if not self._may_begin(run) and not self._may_begin_later(run):
            return _released(run)
        if not has_stored(run):
            return self._call(run)
        unread = self._payloads.load(run, self._random)
        return self._call(run) + unread if _keep_read(run, unread) else unread

    def _call(self, run: Held | Batch) -> Outcomes:
        try:
            arguments, named = _arguments(run)
        except BaseException as error:
            self._note(error)
            return _undecodable(run, error)
        try:
            return self._returned(run, run.spec.function(*arguments, **named), self._clock())
        except BaseException as error:
            self._note(error)
            return self._raised(run, error)

    def _may_begin(self, run: Held | Batch) -> bool:
        """Whether no other worker can have taken the job over."""
        return self._kept is None or all(map(self._kept.may_start, run.members))

    async def _may_begin_soon(self, run: Held | Batch) -> bool:
        """Check again after the keeper's last reports are read: another handler may have blocked the loop."""
        try:
            await catch_up()
        except CancelledError:
            return False
        return self._may_begin(run)

    def _may_begin_later(self, run: Held | Batch) -> bool:
        for _ in range(LOOKS):
            time.sleep(LOOK_S)  # the loop reads the keeper's last reports
            if self._may_begin(run):
                return True
        return False

    def _returned(self, run: Held | Batch, value: object, now: float) -> Outcomes:
        if run.is_late(now):  # what it returns after its timeout does not count
            return self._raised(run, TimeoutError())
        if type(run) is Held:
            return [(run, outcomes.outcome_of_return(run, value, self._random))]
        assert isinstance(run, Batch)
        return outcomes_of_answers(run, value, self._random)

    def _raised(self, run: Held | Batch, error: BaseException, on_loop: bool = False) -> Outcomes:
        info = outcomes.describe(error)
        try:
            return self._after_error(run, error, on_loop, info)
        except BaseException:
            # The error's own attributes raise: it is a failure like any other, without details.
            return self._after_error(run, RuntimeError("an error that cannot be looked at"), on_loop, info)

    def _after_error(self, run: Held | Batch, error: BaseException, on_loop: bool, info: ErrorInfo) -> Outcomes:
        decided = [(held, self._outcome(run, held, error, on_loop, info)) for held in run.open()]
        return [(held, outcome) for held, outcome in decided if outcome is not None]

    def _outcome(
        self, run: Held | Batch, held: Held, error: BaseException, on_loop: bool, info: ErrorInfo
    ) -> Outcome | None:
        """None: the worker ended the handler, so the error does not count for the job."""
        if run.stop is Stop.LOST:
            return None
        if run.is_late(self._clock()):
            return outcomes.outcome_of_timeout(held, self._random)
        if run.stop is not None and held.cancelled is None:
            if held.persistent or run.stop is Stop.SILENCE:
                return Released()
            if on_loop:
                return None  # released with the rest when the worker leaves; a thread raised this by itself
        if run.stop is None and held.cancelled is None and on_loop and _is_cancelled(error):
            return Released() if self._stopping() else Crashed()
        return outcomes.outcome_of_error(held, error, self._random, info)


def _is_cancelled(error: BaseException) -> bool:
    """Whether other code than the worker cancelled the handler's task: a handler that cancels all tasks, or the end of
    the event loop."""
    task = current_task()
    return isinstance(error, CancelledError) and task is not None and task.cancelling() > 0


def _arguments(run: Held | Batch) -> Arguments:
    if type(run) is Held:
        decode = run.spec.decode
        enter(run)
        return ((job_of(run),), {}) if decode is None else decode(run.lease.record.payload)
    return ([job_of(held) for held in run.members],), {}


def _keep_read(run: Held | Batch, unread: Outcomes) -> bool:
    """Leave the jobs without a payload out of a batch. False: no job is left."""
    if type(run) is Held:
        return not unread
    assert isinstance(run, Batch)
    run.leave_out([held for held, _ in unread])
    return bool(run.members)


def _released(run: Held | Batch) -> Outcomes:
    return [(held, Released()) for held in run.members]


def _undecodable(run: Held | Batch, error: BaseException) -> Outcomes:
    return [(held, outcomes.outcome_of_payload(error)) for held in run.members]
