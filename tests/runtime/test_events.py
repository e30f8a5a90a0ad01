"""Events and `on_failure` hooks of a worker on fakes: who hears what, and that no listener harms a job."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from tenure.core import events
from tenure.core.errors import Unreachable
from tenure.core.events import EVENTS, Event, Listener
from tenure.core.features import Feature
from tenure.core.job import ErrorInfo, JobView, Lease, State
from tenure.core.minutes import Ends
from tenure.core.outcome import Completed
from tenure.core.shape import Shape
from tenure.core.signals import Fail, Retry
from tenure.core.task import TaskSpec
from tenure.runtime.jobs.job import Job, current_job
from tenure.runtime.observe.dispatcher import EventDispatcher
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import Gate, Rig, gated, task
from tests.support.fakes import FakeEngine

SECRET = b"card 4242"


class Heard:
    """Keeps the events of some kinds, and lets a test wait for them."""

    def __init__(self, *kinds: type[Event]) -> None:
        self.all: list[Any] = []
        self.listener = Listener(kinds or (Event,), self._hear)
        self._changed = asyncio.Event()

    def _hear(self, event: Event) -> None:
        self.all.append(event)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def kinds(self) -> list[str]:
        return [type(one).__name__ for one in self.all]

    def of(self, kind: type[Event]) -> list[Any]:
        return [one for one in self.all if isinstance(one, kind)]


def failing(error: BaseException, **options: Any) -> TaskSpec:
    async def handler() -> None:
        raise error

    return task(handler, **options)


async def test_a_job_is_told_of_from_its_claim_to_its_end():
    heard = Heard(events.JobEvent)

    async def handler() -> str:
        await asyncio.sleep(0.02)
        return "secret result"

    async with Rig(task(handler), listeners=[heard.listener], worker_id="w1", burst=True) as rig:
        rig.engine.add("a", payload=SECRET, shape=Shape(lane="user:1"), failures=1)
        await rig.ended()
    assert heard.kinds() == ["Claimed", "Started", "Completed"]
    for one in heard.all:
        assert (one.worker, one.id, one.queue, one.task, one.lane, one.attempt) == ("w1", "a", "q", "t", "user:1", 2)
        assert abs(one.at - time.time()) < 60
    _, started, completed = heard.all
    assert 0 <= started.waited < 30
    assert started.queued is None, "the fake engine has no time of the enqueue"
    assert 0.02 <= completed.seconds < 30
    assert "secret" not in repr(heard.all)
    assert "card 4242" not in repr(heard.all)


async def test_each_outcome_has_its_event():
    heard = Heard(events.Ended)

    async with Rig(failing(KeyError("card 4242"), retries=1), listeners=[heard.listener], burst=True) as rig:
        rig.engine.add("a")
        rig.engine.add("odd", malformed="no record")
        rig.engine.add("unknown", task="other")
        await rig.ended()
    told = {(one.id, type(one).__name__) for one in heard.all}
    assert told == {("a", "Retried"), ("a", "Failed"), ("odd", "Broken"), ("unknown", "Unroutable")}
    retried, failed = heard.of(events.Retried)[0], heard.of(events.Failed)[0]
    assert retried.error_type == failed.error_type == "KeyError"
    assert "test_events.py" in failed.place
    assert retried.delay == 0
    assert heard.of(events.Broken)[0].seconds == 0
    assert "card 4242" not in repr(heard.all)


async def test_a_retry_says_after_which_delay_and_a_cancelled_job_why():
    heard = Heard(events.Retried, events.Cancelled)
    gate = Gate()
    async with Rig(gated(gate), listeners=[heard.listener]) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.engine.cancels["a"] = "a typo"
        rig.keeper.beat(cancelled=rig.engine.asks(list(rig.engine.held)))
        await heard.until(lambda: bool(heard.all))
    assert heard.all[0].reason == "a typo"
    heard = Heard(events.Retried)
    async with Rig(failing(Retry("busy", delay=90)), listeners=[heard.listener], burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    assert heard.all[0].delay == 90


async def test_a_completion_that_redis_refuses_is_told_as_lost():
    heard = Heard(events.JobEvent)
    gate = Gate()
    async with Rig(gated(gate), listeners=[heard.listener]) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.engine.lose("a")
        gate.open.set()
        await heard.until(lambda: "Lost" in heard.kinds())
    assert heard.kinds() == ["Claimed", "Started", "Lost"]
    assert (heard.all[-1].noticed, heard.all[-1].certain) == ("settle", True)


async def test_a_job_that_a_heartbeat_says_is_lost_is_told_of_once():
    heard = Heard(events.Lost, events.Ended)
    gate = Gate()
    async with Rig(gated(gate), listeners=[heard.listener]) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.keeper.beat(lost=[rig.engine.lose("a")])
        await heard.until(lambda: bool(heard.all))
    assert heard.kinds() == ["Lost"]
    assert heard.all[0].noticed == "heartbeat"


async def test_the_worker_tells_of_itself_and_of_redis():
    heard = Heard(events.WorkerEvent)
    away = True

    def fault(call: str) -> None:
        if call == "maintain" and away:
            raise Unreachable("no answer")

    rig = Rig(lambda: None, listeners=[heard.listener], worker_id="w1", concurrency=3)
    rig.driver.fault = fault
    async with rig:
        await heard.until(lambda: "RedisAway" in heard.kinds())
        away = False
        await heard.until(lambda: "RedisBack" in heard.kinds())
    told = [kind for kind in heard.kinds() if not kind.startswith("Redis")]
    assert told == ["WorkerStarted", "WorkerStopping", "WorkerStopped"]
    assert (heard.of(events.WorkerStarted)[0].queues, heard.of(events.WorkerStarted)[0].slots) == (("q",), 3)
    assert heard.of(events.RedisAway)[0].error_type == "Unreachable"
    assert heard.of(events.RedisBack)[0].away >= 0
    assert heard.of(events.WorkerStopped)[0].unheard == 0


async def test_async_listeners_are_awaited_and_in_order():
    told: list[str] = []

    async def slow(event: Any) -> None:
        await asyncio.sleep(0.01 if event.id == "a" else 0)
        told.append(event.id)

    async with Rig(lambda: None, listeners=[Listener((events.Completed,), slow)], concurrency=1, burst=True) as rig:
        rig.engine.add("a", "b", "c")
        await rig.ended()
    assert told == ["a", "b", "c"]


async def test_a_listener_that_raises_harms_nobody_and_is_logged_once_for_each_kind(caplog):
    heard = Heard(events.Completed)

    def bad(event: Any) -> None:
        raise SystemExit if event.id == "1" else ValueError("card 4242")

    listeners = [Listener((events.Completed,), bad), heard.listener]
    with caplog.at_level(logging.INFO):
        async with Rig(lambda: None, listeners=listeners, burst=True) as rig:
            rig.engine.add(*map(str, range(20)))
            assert await rig.ended() is ExitStatus.OK
    assert len(heard.all) == len({one.id for one in heard.all}) == 20
    lines = [line for line in caplog.messages if line.startswith("callback_failed kind=listener ")]
    assert len(lines) == 2
    assert any("error=ValueError" in line and "test_events.py" in line for line in lines)
    assert "card 4242" not in "".join(lines)


async def test_a_listener_that_hangs_is_given_up_and_jobs_go_on(caplog):
    heard = Heard(events.Completed)

    async def stuck(event: Any) -> None:
        await asyncio.Event().wait()

    listeners = [Listener((events.Completed,), stuck), heard.listener]
    async with Rig(lambda: None, listeners=listeners, burst=True, limits={"listener_ms": 20}) as rig:
        rig.engine.add("a", "b")
        assert await rig.ended() is ExitStatus.OK
    assert len(heard.all) == 2
    assert "callback_failed kind=listener" in caplog.text
    assert "error=TimeoutError" in caplog.text


async def test_events_that_nobody_can_keep_up_with_are_dropped_and_counted(caplog):
    done, slow = asyncio.Event(), asyncio.Event()
    told: list[str] = []

    async def listener(event: Any) -> None:
        slow.set()
        await done.wait()
        told.append(event.id)

    stopped = Heard(events.WorkerStopped)
    listeners = [Listener((events.Completed,), listener), stopped.listener]
    async with Rig(lambda: None, listeners=listeners, concurrency=1, limits={"events_waiting": 5}) as rig:
        rig.engine.add("first")
        await slow.wait()
        rig.engine.add(*map(str, range(20)))
        # On a slow machine some may be handed back and run later, which is an outcome, too.
        await rig.engine.until(lambda: sum(type(one.outcome) is Completed for one in rig.engine.settled) == 21)
        done.set()
        rig.worker.stop()
        await rig.ended()
    assert len(told) in {6, 7}  # the one in hand, those that had room to wait, and perhaps the one that ended meanwhile
    assert stopped.all[0].unheard == 21 - len(told)
    assert sum("events_dropped" in line for line in caplog.messages) == 1
    assert f"events_restored dropped={21 - len(told)}" in caplog.text


async def test_a_listener_that_keeps_the_loop_is_told_about_once(caplog):
    listener = Listener((events.Completed,), lambda event: time.sleep(0.01))
    async with Rig(lambda: None, listeners=[listener], burst=True, limits={"listener_slow_ms": 1}) as rig:
        rig.engine.add("a", "b", "c")
        await rig.ended()
    assert sum("callback_failed kind=listener" in line for line in caplog.messages) == 1


async def test_nothing_is_made_for_nobody(monkeypatch):
    made: list[str] = []
    of = EventDispatcher._of

    def noted(self: EventDispatcher, lease: Lease) -> dict[str, Any]:
        made.append(lease.ref.id)
        return of(self, lease)

    monkeypatch.setattr(EventDispatcher, "_of", noted)
    async with Rig(lambda: None, burst=True) as rig:
        rig.engine.add("a", "b")
        await rig.ended()
    assert made == []
    async with Rig(lambda: None, listeners=[Heard(events.Completed).listener], burst=True) as rig:
        rig.engine.add("a", "b")
        await rig.ended()
    assert sorted(made) == ["a", "b"]


def test_events_are_values_that_cannot_be_changed_and_carry_no_payload():
    for kind in EVENTS:
        names = {field.name for field in fields(kind)}
        assert not names & {"payload", "result", "message", "traceback", "error"}
        assert kind.__doc__
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------------ on_failure


async def test_on_failure_is_called_once_when_the_job_has_failed_for_good():
    calls: list[tuple[str, int, bytes, ErrorInfo, list[Any]]] = []
    engine = FakeEngine()

    async def hook(job: Job, error: ErrorInfo) -> None:
        assert current_job() is job
        calls.append((job.id, job.attempt, job.payload, error, list(engine.outcomes(job.id))))

    spec = failing(KeyError("no"), retries=2, on_failure=hook)
    async with Rig(spec, engine=engine, burst=True) as rig:
        rig.engine.add("a", payload=SECRET)
        await rig.ended()
    ((id, attempt, payload, error, outcomes),) = calls
    assert (id, attempt, payload, error.type) == ("a", 3, SECRET, "KeyError")
    assert len(outcomes) == 3  # Redis knew already


async def test_on_failure_may_be_sync_and_runs_in_a_thread():
    threads: list[int] = []
    spec = failing(Fail("no"), on_failure=lambda job, error: threads.append(threading.get_ident()))
    async with Rig(spec, burst=True) as rig:
        rig.engine.add("a", "b")
        await rig.ended()
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_on_failure_is_called_for_broken_jobs_and_not_for_completed_or_lost_ones():
    calls: list[str] = []

    def undecodable(payload: bytes) -> Any:
        if payload == b"?":
            raise ValueError("no JSON")
        return (), {}

    gate = Gate()
    spec = gated(gate, decode=undecodable, retries=0, on_failure=lambda job, error: calls.append(job.id))
    async with Rig(spec, concurrency=4) as rig:
        rig.engine.add("broken", payload=b"?")
        rig.engine.add("fine")
        rig.engine.add("gone")
        for _ in range(2):
            await gate.begun.get()
        rig.engine.lose("gone")
        gate.open.set()
        await rig.ends("broken", "fine")
        await rig.engine.until(lambda: bool(rig.engine.refused))
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.OK
    assert calls == ["broken"]


async def test_on_success_is_called_when_redis_knows_the_end_and_not_for_rounds_of_persistent_jobs():
    calls: list[tuple[str, object, int]] = []
    engine = FakeEngine()

    async def hook(job: Job, result: object) -> None:
        calls.append((job.id, result, len(list(engine.outcomes(job.id)))))

    spec = task(lambda: "done", on_success=hook, decode_result=bytes.decode)
    async with Rig(spec, engine=engine, burst=True) as rig:
        rig.engine.add("persistent", shape=Shape(persistent=True))
        rig.engine.add("a")
        await rig.ended()
    assert calls == [("a", "'done'", 1)]


async def test_a_hook_that_raises_is_logged_and_that_is_all(caplog):
    def hook(job: Job, error: ErrorInfo) -> None:
        raise SystemExit(3) if job.id == "a" else StopIteration

    async with Rig(failing(Fail("no"), on_failure=hook), burst=True) as rig:
        rig.engine.add("a", "b")
        assert await rig.ended() is ExitStatus.OK
    lines = [line for line in caplog.messages if line.startswith("callback_failed kind=hook ")]
    assert len(lines) == 2
    assert "id=a" in "".join(lines)


async def test_a_hook_that_hangs_does_not_keep_the_worker():
    begun = asyncio.Event()

    async def hook(job: Job, error: ErrorInfo) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Rig(failing(Fail("no"), on_failure=hook), limits={"tell_ms": 50}) as rig:
        rig.engine.add("a")
        await begun.wait()
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.OK


async def test_only_so_many_hooks_wait(caplog):
    go = asyncio.Event()
    called: list[str] = []

    async def hook(job: Job, error: ErrorInfo) -> None:
        await go.wait()
        called.append(job.id)

    async with Rig(
        failing(Fail("no"), on_failure=hook), concurrency=1, burst=True, limits={"hooks_running": 1, "hooks_waiting": 2}
    ) as rig:
        rig.engine.add(*map(str, range(6)))
        await rig.ends(*map(str, range(6)))
        go.set()
        await rig.ended()
    assert 2 <= len(called) <= 3
    assert sum("events_dropped kind=hook" in line for line in caplog.messages) == 1


async def test_completed_jobs_are_settled_the_same_with_listeners_and_hooks():
    heard = Heard(events.Completed)
    spec = task(lambda: 7, on_failure=lambda job, error: None)
    async with Rig(spec, listeners=[heard.listener], burst=True) as rig:
        rig.engine.add(*map(str, range(200)))
        await rig.ended()
    completed = [one for one in rig.engine.settled if one.outcome == Completed(b"7")]
    assert len(completed) == len(heard.all) == 200


@pytest.mark.parametrize("spoilt", [set(), {"a"}, {"z"}])
async def test_a_job_that_crashed_once_too_often_is_told_of_as_broken(spoilt, caplog):
    """By whoever maintains the queue next: those that ran it are dead. Also beside a queue that Redis refuses."""
    view = JobView("poison", "q", State.BROKEN, "t", failures=1, crashes=5, shape=Shape(lane="A"))
    heard = Heard(events.Broken)
    with caplog.at_level(logging.WARNING, logger="tenure.worker"):
        engine = FakeEngine(features=frozenset({Feature.HISTORY}))
        engine.poisoned, engine.spoilt = [view], spoilt
        async with Rig(lambda: None, engine=engine, listeners=[heard.listener], queues=["a", "q", "z"]):
            await heard.until(lambda: bool(heard.all))
    (broken,) = heard.of(events.Broken)
    assert (broken.id, broken.queue, broken.task, broken.lane, broken.attempt) == ("poison", "q", "t", "A", 6)
    assert (broken.error_type, broken.place, broken.seconds) == ("Crashed", None, 0.0)
    (said,) = [record.message for record in caplog.records if record.message.startswith("broken")]
    assert said == "broken queue=q task=t id=poison attempt=6 error=Crashed"
    assert engine.ended == [("q", Ends(failed=1))]
