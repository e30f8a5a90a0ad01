"""A cluster of three masters: all that works on one server works there, with the URL of the cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from tenure import Every, JobFailed, Limit, RateLimited, Tenure, chain, group
from tenure.app.run import WorkerOptions, inspect_redis, run_worker
from tenure.core.errors import NotConfigured, ReplyError, UnsupportedFeature
from tenure.core.job import State
from tenure.core.shape import CancelAnswer
from tenure.protocols.registry import rights_of
from tenure.redis.drivers import asyncio_driver, blocking_driver
from tenure.redis.replies import Redirected
from tenure.redis.sync import SyncDriver
from tenure.runtime.worker import Worker
from tenure.testing.server import RedisServer
from tests.redis.operations import command, record
from tests.support.cluster import Cluster
from tests.support.command import call
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(180)
LONG_S = 60
PASSWORD = "secret"


@pytest.fixture(scope="module")
def shared_cluster(redis_binary: str) -> Iterator[Cluster]:
    with Cluster(redis_binary, password=PASSWORD) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    shared_cluster.flush()
    return shared_cluster


@pytest.fixture
def queues(cluster: Cluster) -> list[str]:
    """One queue on each node."""
    return [cluster.queue_on(node) for node in cluster.nodes]


@pytest.fixture
def app(cluster: Cluster) -> Iterator[Tenure]:
    """An app whose user has just the rights that `tenure check --acl` prints."""
    with Tenure(cluster.url) as of_admin:
        needed = rights_of(of_admin.engine, clustered=True).needed
    for node in cluster.nodes:
        node.command("ACL", "SETUSER", "shop", "reset", "resetchannels", "on", ">pw", *needed)
    with Tenure(cluster.url.replace(f":{PASSWORD}@", "shop:pw@")) as app:
        yield app


def double(number: int) -> int:
    return 2 * number


@contextmanager
def working(app: Tenure) -> Iterator[None]:
    """Run a worker on a loop of its own, until the end of the block."""
    began: list[tuple[asyncio.AbstractEventLoop, Worker]] = []
    ready = threading.Event()

    def created(worker: Worker) -> None:
        began.append((asyncio.get_running_loop(), worker))
        ready.set()

    options = WorkerOptions(concurrency=2, signals=False, source="tests")
    thread = threading.Thread(target=lambda: asyncio.run(run_worker(app, options, created=created)))
    thread.start()
    assert ready.wait(LONG_S)
    [(loop, worker)] = began
    try:
        yield
    finally:
        loop.call_soon_threadsafe(worker.stop_gracefully)
        thread.join(LONG_S)
        assert not thread.is_alive()


def test_each_call_goes_to_the_node_of_its_key(cluster: Cluster) -> None:
    driver = blocking_driver(cluster.url)
    keys = {f"log{number}" for number in range(30)}
    assert {driver.run(record(key))[1] for key in keys} == {1}
    on_nodes = [node.command("KEYS", "log*") for node in cluster.nodes]
    assert {key.decode() for found in on_nodes for key in found} == keys
    assert all(on_nodes)
    each = driver.run_on_each(lambda: command("PING"))
    assert each == [(f"127.0.0.1:{cluster.ports[node]}", b"PONG") for node in cluster.nodes]
    driver.close()


async def test_a_wait_in_several_slots_loses_no_value_while_its_connections_open(cluster: Cluster) -> None:
    keys = [f"{{{queue}}}list" for queue in "abcdef"]
    driver = asyncio_driver(cluster.url)
    for round_ in range(40):
        await asyncio.gather(*(driver.run(command("RPUSH", key, round_)) for key in keys))
        late = asyncio_driver(cluster.url)
        key, _ = await late.run(command("BLPOP", *keys, LONG_S, block_ms=LONG_S * 1000))
        await late.close()
        left = [key for key in keys if await driver.run(command("LPOP", key)) is not None]
        assert left == [other for other in keys if other != key.decode()]
    await driver.close()


def test_a_call_follows_a_slot_that_has_moved(cluster: Cluster) -> None:
    driver = blocking_driver(cluster.url)
    driver.run(record("log"))
    source = cluster.owner("log")
    target = next(node for node in cluster.nodes if node is not source)
    try:
        cluster.move("log", target)
        assert driver.run(record("log"))[1] == 2
        assert target.command("LLEN", "log") == 2
    finally:
        cluster.move("log", source)
        driver.close()


def test_a_slot_that_moves_key_by_key_is_a_pause(cluster: Cluster) -> None:
    """A script that followed ASK would not find the keys that have not moved yet."""
    source = cluster.nodes[0]
    target = next(node for node in cluster.nodes if node is not source)
    with Tenure(cluster.url, patience=LONG_S) as app:
        queue = app.queue(cluster.queue_on(source))
        key = f"{{tenure:{queue.name}}}"
        first = queue.enqueue(b"1").id
        cluster.begin_move(key, target)
        thread = threading.Thread(target=queue.enqueue, args=(b"2",))
        thread.start()
        assert cluster.move_keys(key, target, most=1) == 1
        assert thread.is_alive()
        while cluster.move_keys(key, target):
            pass
        cluster.end_move(key, target)
        thread.join(LONG_S)
        try:
            page = app.inspect.page(queue.name, State.READY)
            assert (page.total, page.jobs[0].id, page.jobs[1].payload) == (2, first, b"2")
        finally:
            cluster.move(key, source)


def test_a_wait_in_several_slots_takes_one_value(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.redis.cluster.UNBLOCKING_MS", LONG_S * 1000)  # on a slow machine it takes longer
    keys = [f"{{{queue}}}list" for queue in "abcdef"]
    assert {cluster.owner(key) for key in keys} == set(cluster.nodes)

    async def waits() -> None:
        driver = asyncio_driver(cluster.url)

        def pop(timeout_ms: int) -> asyncio.Task[list[bytes] | None]:
            words = ("BLPOP", *keys, f"{timeout_ms / 1000:.3f}")
            return asyncio.create_task(driver.run(command(*words, block_ms=timeout_ms)))

        for round_ in range(12):
            waiting = pop(LONG_S * 1000)
            if round_ % 2:
                while cluster.blocked() < len(keys):  # noqa: ASYNC110 - the nodes say so
                    await asyncio.sleep(0.01)
            await asyncio.gather(*(driver.run(command("RPUSH", key, round_)) for key in keys))
            reply = await waiting
            assert reply is not None
            assert int(reply[1]) == round_
            left = [key for key in keys if await driver.run(command("LPOP", key)) is not None]
            assert left == [key for key in keys if key != reply[0].decode()]
        assert await pop(50) is None
        await driver.close()

    asyncio.run(waits())


def test_jobs_on_all_nodes_are_looked_at_and_steered(app: Tenure, cluster: Cluster, queues: list[str]) -> None:
    for name in queues:
        queue = app.queue(name)
        first, second, third = queue.enqueue_many([b"1", b"2", b"3"])
        with queue.lease(timeout=0) as held:
            assert held is not None
            assert held.id == first.id
        assert app.control.cancel(name, second.id) is CancelAnswer.CANCELLED
        assert [job.id for job in app.inspect.page(name, State.READY).jobs] == [third.id]
        assert app.control.pause(name).paused
    assert sorted(app.inspect.queues()) == sorted(queues)
    assert all(node.command("DBSIZE") > 0 for node in cluster.nodes)


def test_a_worker_serves_queues_on_all_nodes(app: Tenure, queues: list[str]) -> None:
    ticked, began = threading.Event(), threading.Event()

    @app.task(name="tick", queue=queues[0], schedule=Every(seconds=1))
    def tick() -> None:
        ticked.set()

    @app.task(name="endless", queue=queues[1])
    async def endless() -> None:
        began.set()
        await asyncio.sleep(LONG_S)

    tasks = [app.task(queue=queue, name=f"double-{queue}")(double) for queue in queues]
    with working(app):
        jobs = [tasks[number % 3].enqueue(number) for number in range(30)]
        assert [job.result(timeout=LONG_S) for job in jobs] == [2 * number for number in range(30)]
        for task in tasks:  # an idle worker waits on all nodes at a time
            assert task.enqueue(50).result(timeout=LONG_S) == 100
        job = endless.enqueue()
        assert began.wait(LONG_S)
        assert app.control.cancel(queues[1], job.id) is CancelAnswer.REQUESTED
        with pytest.raises(JobFailed, match="cancelled"):
            job.result(timeout=LONG_S)
        assert [worker.queues for worker in app.inspect.workers()] == [(queues[0], queues[1], queues[2])]
        assert ticked.wait(LONG_S)


def test_a_queue_with_partitions_spreads_over_the_nodes(app: Tenure, cluster: Cluster) -> None:
    app.queue_options("spread", partitions=12)
    task = app.task(name="double", queue="spread")(double)
    with working(app):
        plain = task.enqueue_many(task.call(number) for number in range(40))
        laned = [task.using(lane=f"lane:{number % 7}").enqueue(number) for number in range(40)]
        assert [job.result(timeout=LONG_S) for job in plain + laned] == [2 * number for number in range(40)] * 2
        cluster.until(lambda: cluster.blocked() == 1, "the worker waits with one connection")
        assert task.enqueue(50).result(timeout=LONG_S) == 100
    assert app.inspect.queue("spread").counts[State.COMPLETED] == 81
    assert all(node.command("KEYS", "{tenure:spread*}:completed") for node in cluster.nodes)


def test_the_number_of_partitions_changes_while_a_worker_runs(app: Tenure, cluster: Cluster) -> None:
    ran: SimpleQueue[tuple[int, int]] = SimpleQueue()

    @app.task(name="note", queue="spread")
    def note(lane: int, number: int) -> None:
        ran.put((lane, number))

    with working(app):
        for n, partitions in enumerate((6, 2)):
            for number in range(4 * n, 4 * n + 4):
                for lane in range(8):
                    note.using(lane=f"lane:{lane}").enqueue(lane, number)
                if number == 4 * n + 1:
                    app.control.configure("spread", partitions=partitions)
            cluster.until(lambda: app.inspect.queue("spread").repartition is None, "the change is over")
            assert app.inspect.queue("spread").partitions == partitions
        cluster.until(lambda: ran.qsize() == 64, "all jobs have run")
    order = [ran.get() for _ in range(64)]
    assert all([number for lane, number in order if lane == one] == [*range(8)] for one in range(8))
    assert app.inspect.queue("spread").totals["completed"] == 64


def test_limits_and_shares_are_in_the_slot_of_their_queue(app: Tenure, queues: list[str], tmp_path: Path) -> None:
    running, most, numbers = set[int](), list[int](), SimpleQueue[int]()

    @app.task(
        name="charge", queue=queues[0], limits=[Limit("stripe", concurrency=1), Limit("user:{number}", per_hour=9)]
    )
    async def charge(number: int) -> None:
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0.01)
        running.remove(number)
        numbers.put(number)

    @app.task(name="mail", queue=queues[1], limits=[Limit("mail", per_second=1000)], share="user:{number}")
    async def mail(number: int) -> None:
        if number == 0 and not most:
            most.append(0)
            raise RateLimited(retry_after=0.1, limit="stripe")  # of a queue on another node
        numbers.put(number)

    with pytest.raises(UnsupportedFeature, match=f"'user:7' is used by queue '{queues[1]}', and 'user:{{...}}' by"):
        app.task(queue=queues[1], limits=[Limit("user:7", concurrency=1)])(double)
    with working(app):
        mail.enqueue(0)
        for number in range(1, 8):
            charge.enqueue(number)
            mail.enqueue(number)
        found = sorted(numbers.get(timeout=LONG_S) for _ in range(15))
    assert found == sorted([0, *range(1, 8), *range(1, 8)])
    assert max(most) == 1
    assert app.limits.set("stripe", concurrency=2).concurrency == 2
    app.limits.set_share("user:7", weight=3)
    assert [limit.name for limit in app.limits.list() if limit.is_stored] == ["stripe"]
    out = call(["limits"], tmp_path, {"TENURE_URL": app.settings.url}).end().out
    assert "stripe" in out
    assert "user:7" in out
    assert app.limits.clear("stripe")


def test_a_client_of_one_server_refuses_a_cluster() -> None:
    with pytest.raises(NotConfigured, match="works with one server only"):
        SyncDriver("redis+cluster://localhost/")


def test_every_master_is_checked(app: Tenure, cluster: Cluster) -> None:
    node = cluster.nodes[1]
    node.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        found = asyncio.run(inspect_redis(app, LONG_S))
    finally:
        node.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    [refusal] = found.refusals()
    assert refusal.startswith(f"At 127.0.0.1:{cluster.ports[node]}: Redis may delete jobs")
    assert asyncio.run(inspect_redis(app, LONG_S)).refusals() == ()


def test_the_commands_reach_all_queues(app: Tenure, cluster: Cluster, queues: list[str], tmp_path: Path) -> None:
    for queue in queues:
        app.queue(queue).enqueue(b"1")
    environment = {"TENURE_URL": cluster.url}
    for words in (["check"], ["jobs", queues[0]], ["schedules"], ["pause", queues[1]]):
        call(words, tmp_path, environment).end()
    assert all(queue in call(["info"], tmp_path, environment).end().out for queue in queues)


def test_a_url_of_the_wrong_kind_is_named(cluster: Cluster, redis_binary: str) -> None:
    other = next(port for node, port in cluster.ports.items() if node is not cluster.owner("log"))
    driver = SyncDriver(f"redis://:{PASSWORD}@127.0.0.1:{other}/0")
    with pytest.raises(Redirected, match=r"part of a cluster: MOVED .* Use the URL of the cluster: redis\+cluster://"):
        driver.run(record("log"))
    driver.close()
    with RedisServer(redis_binary, tcp=True, aof=False) as alone:
        driver = blocking_driver(alone.tcp_url.replace("redis://", "redis+cluster://"))
        with pytest.raises(ReplyError, match=r"is no node of a cluster\. Use its own URL: redis://"):
            driver.run(record("log"))
        driver.close()


def test_each_node_gets_the_credentials_of_a_function(cluster: Cluster, queues: list[str]) -> None:
    given: list[str] = []

    def login() -> tuple[str]:
        given.append(PASSWORD)
        return (PASSWORD,)

    with Tenure(cluster.url.replace(f":{PASSWORD}@", ""), credentials=login) as app:
        tasks = [app.task(name=f"on.{queue}", queue=queue)(double) for queue in queues]
        with working(app):
            assert [task.enqueue(1).result(timeout=LONG_S) for task in tasks] == [2] * len(queues)
    assert len(given) > len(cluster.nodes), "the keeper's connections, too"


def test_flows_go_from_node_to_node(app: Tenure, queues: list[str]) -> None:
    """No script sees two of the queues: what follows goes through the lists between them."""
    tasks = [app.task(name=f"double-{n}", queue=queue)(double) for n, queue in enumerate(queues)]
    last = app.task(name="last", queue=queues[1])(double)
    with working(app):
        row = chain(tasks[0].call(1), *tasks[1:], tasks[0]).enqueue()
        assert row.result(timeout=LONG_S) == 16
        members = group([task.call(n) for n in range(20) for task in tasks], results=True)
        flow = members.enqueue(on_success=last.call(4))
        assert flow.wait(timeout=LONG_S).completed == 60
        assert sorted(flow.results()) == sorted([2 * n for n in range(20)] * 3)
        first = tasks[0].using(delay=0.2).enqueue(1)
        first.then(tasks[2].call(5))
        # Of each queue: its element of the chain, its twenty members, and what follows.
        until(lambda: [app.inspect.queue(queue).totals["completed"] for queue in queues] == [23, 22, 22], LONG_S)
