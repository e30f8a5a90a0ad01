"""A timeout of `result` names the state of the job, and why it waits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tenure import ResultTimeout, Tenure
from tenure.core.worker_view import WorkerView
from tenure.testing.server import RedisServer


@pytest.fixture
def app(server: RedisServer) -> Iterator[Tenure]:
    with Tenure(server.url, namespace="reasons") as app:
        yield app


def reason_of(app: Tenure, id: str, timeout: float = 0.01) -> str:
    with pytest.raises(ResultTimeout) as error:
        app.queue("letters").job(id).result(timeout=timeout)
    return str(error.value)


def announce_worker(app: Tenure, id: str, tasks: tuple[str, ...], slots: int = 1, awaiting: int = 0) -> None:
    now_ms = round(time.time() * 1_000)
    view = WorkerView(id, ("letters",), "host", 1, now_ms, now_ms, slots, tasks=tasks, awaiting=awaiting)
    app._client.run(app.engine.announce(view))


def test_a_timeout_has_the_state_and_the_reason(app: Tenure) -> None:
    job = app.task(name="shop.send", queue="letters")(lambda: None).enqueue()

    def announce(*tasks: str) -> None:
        announce_worker(app, "w", tasks=tasks)

    assert "0.01 s. It is ready: no living worker serves the queue. Call `result` again" in reason_of(app, job.id)
    announce("shop.other")
    assert "It is ready: no living worker of the queue has task shop.send: w has shop.other." in reason_of(app, job.id)
    announce("shop.send")
    assert "It is ready: it is the next one. Call" in reason_of(app, job.id)
    app.control.pause("letters")
    assert "It is ready: the queue is paused." in reason_of(app, job.id)
    app.control.resume("letters")
    assert app.queue("letters").lease(seconds=60) is not None
    assert "It is active: worker " in reason_of(app, job.id)


def test_jobs_that_wait_for_results_in_all_slots_are_the_reason(app: Tenure) -> None:
    """All slots of the workers that can run the job; a worker without its task does not count."""
    ready = app.task(name="shop.send", queue="letters")(lambda: None).enqueue()
    delayed = app.queue("letters").enqueue(b"x", delay=60)
    announce_worker(app, "other", ("shop.other",))
    announce_worker(app, "full", ("shop.send",), slots=2, awaiting=2)
    assert "It is ready: jobs that wait for the results of other jobs hold all slots. Call" in reason_of(app, ready.id)
    assert "It is scheduled: its time is " in reason_of(app, delayed.id)
    announce_worker(app, "half", ("shop.send",), slots=2, awaiting=1)
    assert "It is ready: it is the next one. Call" in reason_of(app, ready.id)


async def test_the_async_version_has_it_too(app: Tenure) -> None:
    job = await app.queue("letters").aenqueue(b"x")
    with pytest.raises(ResultTimeout, match="It is ready: no living worker serves the queue"):
        await job.aresult(timeout=0.01)
    await app.aclose()


def test_a_single_check_reads_nothing_more(app: Tenure) -> None:
    job = app.queue("letters").enqueue(b"x")
    assert "within 0 s. It is ready. Call" in reason_of(app, job.id, timeout=0)
