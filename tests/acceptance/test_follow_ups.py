"""Follow-up jobs in a real worker: of async, threaded and isolated tasks and of batches, here and in other queues."""

from __future__ import annotations

import pytest

from tenure import InvalidArgument, JobFailed, JobNotFound, Tenure, current_job, then

JOBS = """
from tenure import Tenure, current_job, then

app = Tenure()

@app.task
async def on_loop(name: str) -> None:
    then(last.call(name))

@app.task
def in_thread(name: str) -> None:
    then(on_loop.call(name + " thread"), last.using(lane="L").call(name + " laned"))

@app.task(run_in="process", queue="isolated")
def in_process(name: str) -> None:
    then(in_thread.call(name + " process"))

@app.handler("raw", batch=2)
def batch(jobs) -> None:
    for job in jobs:
        job.then(last.call(job.payload.decode()))

@app.task(retries=0)
def fails(name: str) -> None:
    then(last.call(name))
    raise ValueError

@app.task(queue="ends", result_ttl=0)
async def last(name: str) -> None:
    print(name, current_job().headers.get("failed_job", ""), flush=True)
"""


def test_a_burst_runs_all_that_follows(tenure, redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with Tenure(redis_url) as app:
        tasks = {
            name: app.task(name=f"jobs.{name}", queue=queue)(lambda name: None)
            for name, queue in (("in_process", "isolated"), ("fails", "default"), ("last", "ends"))
        }
        job = tasks["in_process"].enqueue("a")
        job.then(tasks["last"].call("after a"))
        app.queue("raw").enqueue_many([b"b", b"c"])
        failing = tasks["fails"].using(on_failed=tasks["last"].call("alert")).enqueue("never")
    run = tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert sorted(line.rstrip() for line in run.out.splitlines()) == [
        "a process laned",
        "a process thread",
        "after a",
        f"alert default/{failing.id}",
        "b",
        "c",
    ]


def test_a_handle_lets_a_call_follow_its_job(redis_url):
    ran: list[str] = []
    with Tenure(redis_url) as app:

        @app.task(name="work")
        def work(name: str) -> None:
            ran.append(name)
            if name == "bad":
                raise ValueError

        waiting = work.enqueue("first")
        waiting.then(work.call("second"))
        app.testing().drain()
        assert ran == ["first", "second"]
        waiting.then(work.call("third"))
        app.testing().drain()
        assert ran == ["first", "second", "third"]
        bad = work.using(retries=0).enqueue("bad")
        app.testing().drain(raises=False)
        with pytest.raises(JobFailed, match="ValueError"):
            bad.then(work.call("never"))
        with pytest.raises(JobNotFound):
            work.job("unknown").then(work.call("never"))


def test_the_fixtures_see_what_follows(redis_url):
    with Tenure(redis_url) as app:

        @app.task(name="charge")
        def charge(order: int) -> None:
            then(mail.using(delay=60).call(order))

        @app.task(name="mail", queue="mail")
        def mail(order: int) -> None:
            assert current_job() is not None

        charge.enqueue(7)
        jobs = app.testing()
        assert jobs.drain().completed == 1
        jobs.assert_enqueued(mail, order=7)
        jobs.advance(minutes=2)
        assert jobs.drain().completed == 1


def test_a_thousand_and_no_more_follow_one_job(redis_url):
    with Tenure(redis_url) as app:

        @app.task(name="work")
        def work(n: int) -> None:
            if n < 0:
                then(*(work.call(number) for number in range(1_000)))

        many = work.enqueue(-1)
        for number in range(1_000):
            many.then(work.call(number))
        with pytest.raises(InvalidArgument, match="1,000 follow-up jobs already"):
            many.then(work.call(1))
        assert app.testing().drain(limit=3_000).completed == 2_001
