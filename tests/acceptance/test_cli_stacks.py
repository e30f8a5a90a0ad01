"""`tenure stacks`: where the handlers of a running worker are, in threads, on its event loop, and in job processes."""

import json

import pytest

from tenure import Tenure
from tests.support.waiting import until

JOBS = """
import asyncio, time
from tenure import Tenure

app = Tenure()

@app.middleware
async def around(jobs, call_next):
    return await call_next()

def wait(secret, depth=2):
    wait(secret, depth - 1) if depth else time.sleep(600)

async def await_long(depth=2):
    await (await_long(depth - 1) if depth else asyncio.sleep(600))

@app.task
def in_thread(): wait("s3cret")

@app.task
async def on_loop(): await await_long()

@app.task(run_in="process")
def in_process(): wait("s3cret")

@app.task(run_in="process")
async def on_loop_of_process(): await await_long()

@app.task(run_in="process")
async def busy_in_process():
    while True: pass

@app.handler("raw")
def raw(job): wait("s3cret")
"""
PLACES = {
    "jobs.in_thread": ["around", "in_thread", "wait", "wait", "wait"],
    "jobs.on_loop": ["around", "on_loop", "await_long", "await_long", "await_long", "sleep"],
    "jobs.in_process": ["around", "in_process", "wait", "wait", "wait"],
    "jobs.on_loop_of_process": ["around", "on_loop_of_process", "await_long", "await_long", "await_long", "sleep"],
    "jobs.busy_in_process": ["around", "busy_in_process"],
    None: ["around", "raw", "wait", "wait", "wait"],
}


def functions(text: str) -> list[str]:
    return [line.rpartition(", in ")[2] for line in text.splitlines() if line.startswith('  File "')]


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url) as app:
        for name in filter(None, PLACES):
            app.task(name=name)(lambda: None)
        yield app


def test_it_shows_where_each_handler_is(tenure, command, app, redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    tenure("worker", "jobs:app", "-c", "10", url=redis_url).wait_for("worker_started")
    until(app.inspect.workers)
    name = app.inspect.workers()[0].id
    assert command("stacks", name, url=redis_url).end().out == f"Worker '{name}' runs no handler.\n"
    ids: dict[str | None, str] = {task: app.tasks[task].enqueue().id for task in PLACES if task}
    ids[None] = app.queue("raw").enqueue(b"p").id

    def places():
        return {(one.task, one.id): functions(one.text) for one in app.inspect.stacks(name) or ()}

    until(lambda: places() == {(task, ids[task]): found for task, found in PLACES.items()})
    out = command("stacks", name, url=redis_url).end().out
    assert f"Job {ids['jobs.in_thread']} of queue 'default', jobs.in_thread:\n  File " in out
    assert f"Job {ids[None]} of queue 'raw', a raw payload:\n" in out
    assert "in await_long\n    await (await_long(depth - 1) if depth else asyncio.sleep(600))\n" in out
    document = json.loads(command("stacks", name, "--json", url=redis_url).end().out)
    assert {one["id"] for one in document["stacks"]} == set(ids.values())


def test_a_worker_that_is_not_there(command, redis_url):
    run = command("stacks", "nobody", "--json", url=redis_url).end(expect=1)
    assert json.loads(run.out) == {"worker": "nobody", "stacks": None}
    assert run.err == "Error: There is no worker 'nobody'. `tenure info` lists the workers.\n"
