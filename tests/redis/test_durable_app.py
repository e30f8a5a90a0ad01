"""Waiting for replicas as an app asks for it: for all that it does, or for one call."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tenure import NotDurable, Tenure, chain, group
from tenure.core.errors import DuplicateJob, InvalidArgument
from tenure.core.job import State
from tenure.processes.link import KeeperLink
from tenure.protocols.registry import engine_spec_of
from tenure.redis.aio import AsyncDriver
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.shutdown import ExitStatus
from tenure.runtime.worker import Worker
from tests.redis.watched import Pair


@pytest.fixture(scope="module")
def shared_pair(redis_binary: str) -> Iterator[Pair]:
    with Pair(redis_binary) as pair:
        yield pair


@pytest.fixture
def pair(shared_pair: Pair) -> Pair:
    shared_pair.settle()
    shared_pair.master.flush()
    return shared_pair


def app_of(pair: Pair, durable: int | None = None) -> Tenure:
    return Tenure(pair.master.tcp_url, durable=durable)


def double(number: int) -> int:
    return 2 * number


@pytest.mark.usefixtures("waits_long")
def test_what_an_app_enqueues_is_on_its_replica(pair: Pair) -> None:
    with app_of(pair, 1) as app:
        task = app.task(double)
        job = task.enqueue(1)
        key = f"{{tenure:{task.queue}}}:jobs"
        assert pair.replica.command("HEXISTS", key, job.id) == 1
        jobs = task.enqueue_many(task.call(number) for number in range(20))
        assert all(pair.replica.command("HEXISTS", key, one.id) == 1 for one in jobs)


@pytest.mark.parametrize("many", [False, True])
def test_too_few_replicas_raise_and_the_job_is_there(pair: Pair, many: bool) -> None:
    with app_of(pair) as app:
        task = app.task(double)
        asked = task.using(durable=2)
        with pytest.raises(NotDurable) as caught:
            asked.enqueue_many([asked.call(1), task.call(2)]) if many else asked.enqueue(1)
        assert (caught.value.replicas, caught.value.wanted) == (1, 2)
        ids = set(caught.value.ids)
        assert {job.id for job in app.inspect.page(task.queue, "ready").jobs} == ids
        assert len(ids) == (2 if many else 1)


def test_to_repeat_the_call_with_the_same_id_is_safe(pair: Pair) -> None:
    with app_of(pair, 2) as app:
        task = app.task(double)
        with pytest.raises(NotDurable):
            task.using(id="one").enqueue(1)
        with pytest.raises(DuplicateJob):
            task.using(id="one", durable=1).enqueue(1)
        assert app.inspect.queue(task.queue).counts[State.READY] == 1


def test_one_call_may_ask_for_none(pair: Pair) -> None:
    with app_of(pair, 2) as app:
        task = app.task(double)
        assert task.using(durable=0).enqueue(1).created
        assert app.queue("raw").enqueue(b"x", durable=0).created
        with pytest.raises(NotDurable):
            app.queue("raw").enqueue(b"x")


def test_flows_and_what_follows_a_job_are_as_durable(pair: Pair) -> None:
    with app_of(pair, 2) as app:
        task = app.task(double)
        with pytest.raises(NotDurable) as of_chain:
            chain(task.call(1), task).enqueue()
        with pytest.raises(NotDurable) as of_group:
            group([]).enqueue(on_end=task.call(1))
        for caught, total in ((of_chain, 2), (of_group, 0)):
            [id] = caught.value.ids
            assert app.flow(id).view().total == total
        job = task.using(durable=0).enqueue(1)
        with pytest.raises(NotDurable) as of_then:
            job.then(task.using(id="next").call(2))
        assert of_then.value.ids == ("next",)


@pytest.mark.parametrize("durable", [-1, 17, 1.5, "1", True])
def test_what_is_no_number_of_replicas_is_refused(pair: Pair, durable: int) -> None:
    with app_of(pair) as app, pytest.raises(InvalidArgument, match="durable"):
        app.task(double).using(durable=durable)


@pytest.mark.parametrize("durable", [1, 2])
async def test_a_worker_waits_for_the_ends_of_jobs_and_tells_when_too_few_have_them(
    pair: Pair, durable: int, caplog: pytest.LogCaptureFixture
) -> None:
    app = app_of(pair)
    task = app.task(double)
    jobs = [await task.aenqueue(number) for number in range(3)]
    driver = AsyncDriver(pair.master.tcp_url)
    keeper = KeeperLink(pair.master.tcp_url, engine_spec_of(app.engine))
    settings = WorkerSettings([task.queue], burst=True, signals=False, durable=durable)
    worker = Worker(app.engine, driver, UserCode(app.specs()), settings, keeper=keeper)
    with caplog.at_level(logging.WARNING, "tenure.worker"):
        assert await worker.run() is ExitStatus.OK
    await driver.close()
    assert [await job.aresult(timeout=10) for job in jobs] == [0, 2, 4]
    assert caplog.text.count("durability_lost") == durable - 1
    await app.aclose()


def test_a_job_that_is_ended_by_hand_has_ended_also_without_replicas(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    with app_of(pair, 2) as app:
        queue = app.queue("raw")
        queue.enqueue(b"x", durable=0)
        job = queue.lease(seconds=30)
        assert job
        assert queue.complete(job)
        assert "durability_lost" in caplog.text
