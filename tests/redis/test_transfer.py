"""`tenure migrate --to-url`: from one server to a cluster, by the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import Limit, Tenure
from tenure.core.job import State
from tenure.core.shape import LaneState
from tenure.testing.server import RedisServer
from tests.support.cluster import Cluster
from tests.support.command import call

pytestmark = pytest.mark.timeout(180)
PASSWORD = "secret"


@pytest.fixture(scope="module")
def cluster(redis_binary: str) -> Iterator[Cluster]:
    with Cluster(redis_binary, password=PASSWORD) as cluster:
        yield cluster


@pytest.fixture
def apps(server: RedisServer, cluster: Cluster) -> Iterator[tuple[Tenure, Tenure]]:
    cluster.flush()
    with Tenure(server.url) as old, Tenure(cluster.url) as new:
        yield old, new


def _nothing(n: int) -> None: ...


def test_queues_move_from_one_server_to_a_cluster(
    apps: tuple[Tenure, Tenure], server: RedisServer, cluster: Cluster, tmp_path: Path
) -> None:
    old, new = apps
    queues = sorted(cluster.queue_on(node) for node in cluster.nodes)
    for queue in queues:
        old.queue(queue).enqueue_many([f"old {n}" for n in range(150)])
        old.queue(queue).enqueue("x1", lane="x")
        narrow = old.task(queue=queue, name=queue, limits=[Limit(f"{queue}:{{n}}", concurrency=1)])(_nothing)
        narrow.enqueue_many([narrow.call(1), narrow.call(1)])
    there = ["migrate", "--all", "--to-url", cluster.url, "--url", server.url]
    dry = call([*there, "--dry-run"], tmp_path, {}).end()
    assert "153 ready would move" in dry.out
    done = call([*there, "--yes", "--json"], tmp_path, {}).end()
    assert PASSWORD not in dry.out + dry.err + done.out + done.err
    rows = json.loads(done.out)["queues"]
    assert {row["queue"]: (row["moved"], row["left"]) for row in rows} == {queue: (153, {}) for queue in queues}
    assert sorted(new.inspect.queues()) == queues
    for queue in queues:
        assert sum(new.inspect.queue(queue).counts.values()) == 153
        assert new.inspect.lane(queue, "x").state is LaneState.READY
        assert sum(old.inspect.queue(queue).counts.values()) == 0


def test_it_waits_for_held_jobs_as_long_as_it_is_asked_to(
    apps: tuple[Tenure, Tenure], server: RedisServer, cluster: Cluster, tmp_path: Path
) -> None:
    old, new = apps
    old.queue("q").enqueue("a")
    words = ["migrate", "q", "--to-url", cluster.url, "--url", server.url, "--yes", "--wait", "1"]
    job = old.queue("q").lease(seconds=600)
    assert job
    held = call(words, tmp_path, {}).end(1)
    assert "Left: 1 held by workers" in held.err
    old.queue("q").release(job)
    assert "1 job moved" in call(words, tmp_path, {}).end().out
    moved = new.queue("q").lease()
    assert moved
    assert moved.payload == b"a"


def test_what_it_cannot_do_is_refused_before_anything_moves(
    apps: tuple[Tenure, Tenure], server: RedisServer, cluster: Cluster, tmp_path: Path
) -> None:
    old, _ = apps
    old.queue("q").enqueue("a")
    node = f"redis://:{PASSWORD}@127.0.0.1:{cluster.ports[cluster.nodes[0]]}"
    for url, why in ((server.url, "the same server"), (node, "part of a cluster")):
        refused = call(["migrate", "q", "--to-url", url, "--url", server.url, "--yes"], tmp_path, {}).end(1)
        assert why in refused.err
        assert PASSWORD not in refused.out + refused.err
    for words in (["q", "--all"], [], ["q", "--wait", "3"], ["--all", "--to", "p", "--to-url", server.url]):
        call(["migrate", *words, "--url", server.url], tmp_path, {}).end(2)
    assert old.inspect.queue("q").counts[State.READY] == 1


def test_a_queue_with_partitions_is_refused(
    apps: tuple[Tenure, Tenure], server: RedisServer, cluster: Cluster, tmp_path: Path
) -> None:
    old, _ = apps
    old.queue("p").enqueue("a")
    with Tenure(cluster.url) as split:
        split.queue_options("p", partitions=4)
        split.queue("p").enqueue("b")
        words = ["migrate", "p", "--to-url", cluster.url, "--url", server.url, "--yes"]
        refused = call(words, tmp_path, {})
        assert refused.status != 0
        assert "has 4 partitions" in refused.err
        assert not split.inspect.settings("p").paused
    assert old.inspect.queue("p").counts[State.READY] == 1


def test_a_queue_that_has_moved_is_known_at_the_destination_and_moves_on(
    apps: tuple[Tenure, Tenure], server: RedisServer, redis_binary: str, tmp_path: Path
) -> None:
    old, _ = apps
    job = old.queue("orders").enqueue("a")
    empty = old.queue("orders").lease(seconds=60)
    assert empty
    old.queue("orders").fail(empty, "no luck")
    with RedisServer(redis_binary) as between, Tenure(between.url) as there:
        call(["migrate", "orders", "--to-url", between.url, "--url", server.url, "--yes"], tmp_path, {}).end()
        assert there.inspect.queues() == ["orders"]
        call(["retry", "--all", "--state", "failed", "--url", between.url, "--yes"], tmp_path, {}).end()
        assert job.id in call(["job", job.id, "--url", between.url], tmp_path, {}).end().out
        call(["pause", "letters", "--url", between.url], tmp_path, {}).end()
        back = call(["migrate", "--all", "--to-url", server.url, "--url", between.url, "--yes", "--json"], tmp_path, {})
        rows = json.loads(back.end().out)["queues"]
        assert {row["queue"]: row["moved"] for row in rows} == {"letters": 0, "orders": 1}
    assert old.inspect.settings("letters").paused


def test_a_source_without_queues_is_named(server: RedisServer, redis_binary: str, tmp_path: Path) -> None:
    with RedisServer(redis_binary) as empty:
        words = ["migrate", "--all", "--to-url", server.url, "--url", empty.url, "--yes"]
        assert "The source has no queues, so nothing was moved." in call(words, tmp_path, {}).end().err
