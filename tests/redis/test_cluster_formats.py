"""The wire formats of other libraries on a cluster: with a hash tag in their prefix, all that they have works there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from tenure import RedisWorkQueue, Tenure
from tenure.app.run import inspect_redis
from tenure.core.errors import UnsupportedFeature
from tenure.core.job import State
from tenure.core.shape import CancelAnswer
from tenure.engines.redis_work_queue.clean import deep_clean
from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig
from tenure.engines.redis_work_queue.engine import RedisWorkQueueEngine
from tenure.protocols.registry import rights_of
from tenure.redis.drivers import blocking_driver
from tests.redis.test_cluster import LONG_S, PASSWORD, working
from tests.support.cluster import Cluster

pytestmark = pytest.mark.timeout(120)
FORMATS = ["redis-work-queue:{jobs}", "hworker:{jobs}", "queue-farm:{jobs}", "worqr:{jobs}"]
WAITING = {
    "redis-work-queue": "{jobs}:queue",
    "hworker": "hworker-jobs-{jobs}",
    "queue-farm": "{jobs}:queue:user",
    "worqr": "{jobs}:queues:default",
}
"""The list of jobs that wait, as other clients know it."""


@pytest.fixture(scope="module")
def cluster(redis_binary: str) -> Iterator[Cluster]:
    with Cluster(redis_binary, password=PASSWORD) as cluster:
        yield cluster


@pytest.fixture(params=FORMATS, ids=lambda text: text.partition(":")[0])
def app(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Tenure]:
    """An app whose user has just the rights that `tenure check --acl` prints. All of its keys are on one node."""
    cluster.flush()
    with Tenure(cluster.url, protocol=request.param) as of_admin:
        needed = rights_of(of_admin.engine, clustered=True).needed
    for node in cluster.nodes:
        node.command("ACL", "SETUSER", "shop", "reset", "resetchannels", "on", ">pw", *needed)
    with Tenure(cluster.url.replace(f":{PASSWORD}@", "shop:pw@"), protocol=request.param) as app:
        yield app
    assert [node for node in cluster.nodes if node.command("DBSIZE")] == [cluster.owner("{jobs}")]


def lane_of(app: Tenure) -> Any:
    """The options that a job of this format needs."""
    return {"lane": "user"} if app.engine.name == "queue-farm" else {}


def test_jobs_are_leased_settled_and_steered(app: Tenure, cluster: Cluster) -> None:
    queue, lane = app.queue("default"), lane_of(app)
    handles = queue.enqueue_many([b'"1"', b'"2"', b'"3"'], **lane)
    assert cluster.owner("{jobs}").command("LLEN", WAITING[app.engine.name]) == 3
    assert handles[1].cancel() is CancelAnswer.CANCELLED
    first = queue.lease(block=True, timeout=LONG_S)
    assert first
    assert first.payload == b'"1"'
    assert queue.retry(first)
    again = {}
    for _ in range(2):
        job = queue.lease(block=True, timeout=LONG_S)
        assert job
        again[job.payload] = job.attempt
        assert queue.fail(job, "no") if job.attempt > 1 else queue.complete(job)
    assert again == {b'"1"': 2, b'"3"': 1}
    failed = app.inspect.page("default", State.FAILED).jobs
    assert [job.payload for job in failed] == [b'"1"']
    assert app.control.retry("default", failed[0].id)
    job = queue.lease(block=True, timeout=LONG_S)
    assert job
    assert queue.release(job)
    assert app.inspect.queues() == ["default"]
    assert app.control.purge("default", State.READY) == 1
    assert asyncio.run(inspect_redis(app, LONG_S)).refusals() == ()


def test_a_worker_runs_jobs_also_when_their_slot_has_moved(app: Tenure, cluster: Cluster) -> None:
    numbers = SimpleQueue[int]()

    @app.task(name="note")
    def note(number: int) -> None:
        numbers.put(number)

    note.using(**lane_of(app)).enqueue(0)
    with working(app):
        assert numbers.get(timeout=LONG_S) == 0
        note.using(**lane_of(app)).enqueue(1)  # the worker waits
        assert numbers.get(timeout=LONG_S) == 1
        source = cluster.owner("{jobs}")
        cluster.move("{jobs}", next(node for node in cluster.nodes if node is not source))
        note.using(**lane_of(app)).enqueue(2)
        assert numbers.get(timeout=LONG_S) == 2
    assert numbers.empty()


@pytest.mark.parametrize("app", ["redis-work-queue:{jobs}", "worqr:{jobs}"], indirect=True)
def test_searches_go_to_the_node_of_the_prefix(app: Tenure, cluster: Cluster) -> None:
    """What other clients leave behind is found by SCAN, which names no key."""
    node, driver = cluster.owner("{jobs}"), blocking_driver(app.settings.url)
    try:
        if isinstance(app.engine, RedisWorkQueueEngine):
            node.command("SET", "{jobs}:item:lost", "x")
            config = RedisWorkQueueConfig(stray_ms=0, creates_meta=False)
            assert driver.run(deep_clean("{jobs}", config)).requeued == 1
            assert node.command("LRANGE", "{jobs}:queue", 0, -1) == [b"lost"]
        else:
            node.command("LPUSH", "{jobs}:queues:images", "cat.png")
            assert driver.run(app.engine.queues()) == ["images"]
    finally:
        driver.close()


@pytest.mark.parametrize("protocol", ["redis-work-queue:jobs", "hworker:{}jobs", "queue-farm:jobs}", "worqr:jobs"])
def test_a_prefix_without_a_hash_tag_is_refused(protocol: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"hash tag, got '.*jobs.*'\. Use '\{jobs\}', in all clients"):
        Tenure("redis+cluster://localhost/", protocol=protocol)


def test_each_prefix_of_an_app_needs_a_hash_tag() -> None:
    with pytest.raises(UnsupportedFeature, match=r"got 'pictures'\. Use '\{pictures\}'"):
        Tenure("redis+cluster://localhost/", protocol=RedisWorkQueue("{jobs}", queues={"images": "pictures"}))
