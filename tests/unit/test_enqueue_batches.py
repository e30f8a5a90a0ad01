"""Jobs that tasks of one event loop enqueue at the same time: sent together, each with its own answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from tenure import JobHandle, Tenure
from tenure.app.tasks import Task
from tenure.client.batches import MOST, MOST_BYTES, MOST_LETTERS
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, QueueFull, Unreachable
from tenure.core.job import Enqueued, NewJob
from tenure.core.steps import Steps
from tenure.engines.kit.chunks import chunks
from tests.support.engines import ENTRIES, Entry, Options, inner
from tests.support.fakes import FakeEngine, FakeRunner, double


class Enqueues(FakeEngine):
    """Records the jobs of each call, and refuses calls."""

    refusal_of: Callable[[Sequence[NewJob]], Exception | None] = staticmethod(lambda jobs: None)

    places = 1

    def partition_count(self, queue: str) -> Steps[int]:
        yield from ()
        return self.places

    @property
    def calls_made(self) -> list[list[str]]:
        return [list(ids) for ids in self.orders]

    def enqueue(self, jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
        self.orders.append(tuple(job.id for job in jobs))
        error = self.refusal_of(jobs)
        if error is not None:
            raise error
        return super().enqueue(jobs)


class SlowRunner(FakeRunner):
    """Answers a call when `gate` is open. `second`: set by the second call."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.second = asyncio.Event()

    async def arun(self, steps: Steps[Any]) -> Any:
        try:
            return self.run(steps)
        finally:
            if self.log:
                self.second.set()
            self.log.append("call")
            await asyncio.sleep(0)
            await self.gate.wait()


@pytest.fixture
def engine() -> Enqueues:
    return Enqueues(features=frozenset(Feature))


@pytest.fixture
def runner() -> SlowRunner:
    return SlowRunner()


@pytest.fixture
def task(app: Tenure) -> Task[..., Any, Any]:
    return app.task(double)


def calls_of(task: Task[..., Any, Any], ids: Sequence[str]) -> list[Coroutine[Any, Any, Any]]:
    return [task.using(id=id).aenqueue(1) for id in ids]


def numbered(count: int) -> list[str]:
    return [f"job-{number:03}" for number in range(count)]


async def test_the_first_goes_alone_and_the_others_of_the_turn_together(engine, task) -> None:
    ids = numbered(2 * MOST + 11)
    jobs = await asyncio.gather(*calls_of(task, ids))
    assert [job.id for job in jobs] == ids
    assert all(job.created for job in jobs)
    assert engine.calls_made == [ids[:1], ids[1 : MOST + 1], ids[MOST + 1 : 2 * MOST + 1], ids[2 * MOST + 1 :]]


async def test_one_after_the_other_each_is_sent_at_once(engine, task) -> None:
    for id in numbered(3):
        await task.using(id=id).aenqueue(1)
    assert engine.calls_made == [["job-000"], ["job-001"], ["job-002"]]


async def test_raw_payloads_go_together_and_each_queue_by_itself(engine, app, task) -> None:
    queue = app.queue("raw")
    await asyncio.gather(
        *(queue.aenqueue(b"x", id=f"raw-{number}") for number in range(3)), *calls_of(task, numbered(3))
    )
    assert engine.calls_made == [["raw-0"], ["job-000"], ["raw-1", "raw-2"], ["job-001", "job-002"]]


@pytest.mark.parametrize(
    "options",
    [{"lane": "a"}, {"unique": True}, {"priority": 3}, {"durable": 1}],
    ids=lambda options: next(iter(options)),
)
async def test_a_job_with_a_shape_of_its_own_or_on_replicas_goes_alone(engine, app, options) -> None:
    await asyncio.gather(*(app.queue("raw").aenqueue(b"%d" % number, **options) for number in range(3)))
    assert [len(ids) for ids in engine.calls_made] == [1, 1, 1]


async def test_jobs_of_a_queue_with_partitions_go_alone(engine, task) -> None:
    engine.places = 2
    jobs = await asyncio.gather(*calls_of(task, numbered(3)))
    assert all(job.created for job in jobs)
    assert [len(ids) for ids in engine.calls_made] == [1, 1, 1]


async def test_a_large_payload_goes_alone(engine, app) -> None:
    await asyncio.gather(*(app.queue("raw").aenqueue(b"x" * (MOST_BYTES + 1)) for _ in range(3)))
    assert [len(ids) for ids in engine.calls_made] == [1, 1, 1]


async def test_many_headers_go_alone(engine, app) -> None:
    for letters, alone in ((MOST_LETTERS, False), (MOST_LETTERS + 1, True)):
        engine.orders.clear()
        headers = {"a": "x" * (letters - 1)}
        await asyncio.gather(*(app.queue("raw").aenqueue(b"x", headers=headers) for _ in range(3)))
        assert [len(ids) for ids in engine.calls_made] == ([1, 1, 1] if alone else [1, 2])


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_batch_is_one_call_of_every_engine(entry: Entry) -> None:
    options: dict[str, Any] = {"task": "t" * 200}
    if Feature.DELAY in entry.features:
        options["delay_ms"] = 9
    if Feature.HEADERS in entry.features:
        options["headers"] = {"a": "\N{GRINNING FACE}" * (MOST_LETTERS - 1)}
    jobs = [
        NewJob("q", f"{number:0255}", b"[" + b" " * (MOST_BYTES - 7) + b"[],{}]", **options) for number in range(MOST)
    ]
    assert (
        len(
            list(
                chunks(
                    inner(entry.make("tenure", Options()))._new_part(position, job) for position, job in enumerate(jobs)
                )
            )
        )
        == 1
    )


async def test_without_a_reply_each_caller_gets_an_error_of_its_own(engine, task) -> None:
    lost = Unreachable("no reply")
    engine.refusal_of = lambda jobs: lost if len(jobs) > 1 else None
    first, *others = await asyncio.gather(*calls_of(task, numbered(4)), return_exceptions=True)
    assert isinstance(first, JobHandle)
    assert [(type(error), str(error)) for error in others] == [(Unreachable, "no reply")] * 3
    assert len({id(error) for error in others}) == 3
    assert len(engine.calls_made) == 2  # whether the call was carried out is unknown, so it is not repeated


async def test_a_job_that_is_refused_harms_no_other(engine, task) -> None:
    engine.refusal_of = lambda jobs: InvalidArgument("not this") if any(job.id == "bad" for job in jobs) else None
    answers = await asyncio.gather(*calls_of(task, ["a", "b", "bad", "c"]), return_exceptions=True)
    assert [isinstance(answer, InvalidArgument) for answer in answers] == [False, False, True, False]
    assert engine.calls_made == [["a"], ["b", "bad", "c"], ["b"], ["bad"], ["c"]]


async def test_a_queue_with_room_for_some_takes_the_first(engine, task) -> None:
    def refusal_of(jobs: Sequence[NewJob]) -> QueueFull | None:
        error = QueueFull("full")
        error.queue = jobs[0].queue
        return error if len(engine.enqueued) + len(jobs) > 3 else None

    engine.refusal_of = refusal_of
    answers = await asyncio.gather(*calls_of(task, numbered(5)), return_exceptions=True)
    assert [isinstance(answer, QueueFull) for answer in answers] == [False, False, False, True, True]


async def test_if_redis_is_full_no_call_is_repeated(engine, task) -> None:
    engine.refusal_of = lambda jobs: QueueFull("out of memory") if len(jobs) > 1 else None
    answers = await asyncio.gather(*calls_of(task, numbered(4)), return_exceptions=True)
    assert [isinstance(answer, QueueFull) for answer in answers] == [False, True, True, True]
    assert len(engine.calls_made) == 2


async def test_callers_that_are_cancelled_harm_no_other(engine, runner, task) -> None:
    runner.gate.clear()
    tasks = [asyncio.create_task(call) for call in calls_of(task, numbered(5))]
    await asyncio.sleep(0)
    tasks[1].cancel()  # before the others are sent
    await runner.second.wait()
    tasks[0].cancel()
    tasks[2].cancel()
    await asyncio.sleep(0)
    runner.gate.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert engine.calls_made == [["job-000"], ["job-002", "job-003", "job-004"]]
    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [True, True, True, False, False]


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_program_that_cancels_all_tasks_leaves_no_caller_waiting(engine, runner, task, is_sent) -> None:
    runner.gate.clear()
    tasks = [asyncio.create_task(call) for call in calls_of(task, numbered(3))]
    if is_sent:
        await runner.second.wait()
    else:
        await asyncio.sleep(0)  # the callers have joined
        await asyncio.sleep(0)  # its task is there, and has not run
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        if each.get_name() == "tenure enqueue":
            each.cancel()
    await asyncio.wait(tasks[1:])
    assert [each.cancelled() for each in tasks] == [False, True, True]
    runner.gate.set()
    assert (await tasks[0]).created
    assert (await task.using(id="later").aenqueue(1)).created
    assert len(engine.calls_made) == (3 if is_sent else 2)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio.eager_task_factory is of Python 3.12")
async def test_tasks_that_start_at_once_are_sent_together_too(engine, task) -> None:
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    await asyncio.gather(*calls_of(task, numbered(4)))
    assert [len(ids) for ids in engine.calls_made] == [1, 3]
