"""`tenure worker` and the original Python client on one queue: each goes on for the other when that is killed."""

import os
import signal
import time

import pytest

from tenure import RedisWorkQueue, State, Tenure
from tenure.core.engine import Timing
from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig
from tests.wire.redis_work_queue.originals import Original

CONFIG = RedisWorkQueueConfig(timing=Timing(maintain_ms=300), stray_ms=500)
JOBS = """
import os
import time
from tenure import Tenure, RedisWorkQueue, current_job
from tenure.core.engine import Timing
from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig

config = RedisWorkQueueConfig(timing=Timing(maintain_ms=300), stray_ms=500)
app = Tenure(protocol=RedisWorkQueue("jobs", config=config))

@app.handler("default")
def work(job):
    print("begun", job.id, flush=True)
    while job.payload == b"until killed":
        time.sleep(0.02)

@app.task(name="shop.add")
def add(a: int, b: int) -> int:
    current_job().progress(1, 2)
    while not os.path.exists("told"):
        time.sleep(0.02)
    print("added", a + b, flush=True)
    return a + b
"""


@pytest.fixture
def app(redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with Tenure(redis_url, protocol=RedisWorkQueue("jobs", config=CONFIG)) as app:
        yield app


def test_each_side_takes_over_what_the_other_held_when_it_was_killed(app, server, tenure, redis_url, tmp_path):
    theirs, others = Original("python", redis_url, "jobs"), Original("python", redis_url, "jobs")
    try:
        theirs.add("a", b"until killed")
        ours = tenure("worker", "jobs:app", "-c", "1", url=redis_url).wait_for("begun a", "out")
        theirs.add("b", b"x")
        assert theirs.lease(1) == ("b", b"x")
        theirs.close()
        os.kill(ours.worker, signal.SIGKILL)
        killed = time.monotonic()
        assert others.lease(30, timeout=20) == ("a", b"until killed")
        assert time.monotonic() - killed < 3 + 5, "its parent releases it at once; the rest is for a busy machine"
        ours.signal(signal.SIGTERM).end()
        # Ours waits until the lease of the dead client has ended, and a moment more.
        second = tenure("worker", "jobs:app", "-c", "1", url=redis_url).wait_for("begun b", "out")
        assert [worker.queues for worker in app.inspect.workers()] == [("default",)]
        held = app.inspect.job("default", "a")
        assert held is not None
        assert held.state is State.ACTIVE, "what the other client holds is left alone"
        assert others.do("complete", "a") is True
        others.add("c", b'{"tenure":1,"task":"shop.add","args":[3],"kwargs":{"b":4}}')
        second.wait_for("redis_refused what=progress")
        (tmp_path / "told").touch()
        second.wait_for("added 7", "out").signal(signal.SIGTERM).end()
    finally:
        others.close()
    assert "begun a" not in second.out
    assert not any(app.inspect.queue("default").counts.values())
    assert server.command("KEYS", "jobs:item:*") == []


def test_a_worker_takes_what_other_clients_may_write_unless_a_limit_is_set(app, server, tenure, redis_url):
    def add(id: str) -> None:
        server.command("SET", f"jobs:item:{id}", b"x" * 2_000_000)
        server.command("LPUSH", "jobs:queue", id)

    add("any")
    run = tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert "begun any" in run.out
    add("limited")
    run = tenure("worker", "jobs:app", "--burst", url=redis_url, TENURE_MAX_PAYLOAD="1000000").end()
    assert "begun" not in run.out
    view = app.inspect.job("default", "limited")
    assert (view.state, len(view.payload)) == (State.BROKEN, 2_000_000)
    assert app.control.retry("default", "limited")
    assert "begun limited" in tenure("worker", "jobs:app", "--burst", url=redis_url).end().out


def test_a_clean_returns_the_job_of_a_dead_client_in_one_run(server, tenure, redis_url):
    theirs, others = Original("python", redis_url, "jobs"), Original("python", redis_url, "jobs")
    try:
        theirs.add("a", b"x")
        assert theirs.lease(1) == ("a", b"x")
        theirs.close()
        server.command("SETNX", "jobs:item:b", "y")  # its producer dies before it lists it
        until = time.monotonic() + 20
        while server.command("KEYS", "jobs:lease*") and time.monotonic() < until:
            time.sleep(0.05)
        protocol = "redis-work-queue:jobs?grace=0.5"
        run = tenure("clean", "default", "--deep", "--protocol", protocol, url=redis_url).end()
        assert "2 returned" in run.out
        assert {others.lease(30), others.lease(30)} == {("a", b"x"), ("b", b"y")}
        assert others.do("complete", "a") is True
        assert others.do("complete", "b") is True
    finally:
        others.close()
    assert server.command("EXISTS", "jobs:unleased", "jobs:stray") == 0
