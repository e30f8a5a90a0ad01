"""Nodes of a cluster that end, refuse calls in a circle, or close connections; and a cluster with TLS."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest

from tenure import Tenure
from tenure.core.errors import AccessDenied, InvalidArgument, Unreachable
from tenure.core.partitions import place_of
from tenure.core.steps import Script
from tenure.redis.cluster import REDIRECTS_MOST
from tenure.redis.drivers import asyncio_driver, blocking_driver
from tenure.redis.slots import slot_of_key
from tenure.testing.server import RedisServer
from tests.redis.certificates import OPENSSL, Authority, has_tls
from tests.redis.operations import command, invoke, record
from tests.support.cluster import Cluster
from tests.support.command import call
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(180)
LONG_S = 30
AGAIN_S = 0.2
CHANNEL = "news"
ROUNDS = 10
CALLS = 8
LARGE = b"x" * 3_000_000
STORE = Script("store", "return redis.call('SET', KEYS[1], ARGV[1])")
PATIENCE_MS = 300
MANY_REDIRECTS = 200
"""A call whose pauses grow meets fewer of them within its patience."""


@pytest.fixture(scope="module")
def cluster(redis_binary: str) -> Iterator[Cluster]:
    with Cluster(redis_binary) as cluster:
        yield cluster


def listening(cluster: Cluster, channel: str = CHANNEL) -> list[RedisServer]:
    """The nodes at which a client listens on this channel."""
    living = [node for node in cluster.nodes if node.running]
    return [node for node in living if node.command("PUBSUB", "NUMSUB", channel)[1] > 0]


def open_sockets() -> int:
    """How many sockets this process has."""
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sum(os.path.lexists(link) and os.readlink(link).startswith("socket:") for link in links)


def test_a_blocking_subscription_moves_when_its_node_dies(cluster: Cluster) -> None:
    driver = blocking_driver(cluster.url)
    with driver.subscribe(CHANNEL) as messages, ThreadPoolExecutor(1) as pool:
        heard = pool.submit(messages.get, LONG_S)
        [node] = listening(cluster)
        node.kill()
        try:
            until(lambda: listening(cluster))
            while not heard.done():  # a node may not have met again one that was started a moment ago
                driver.run(command("PUBLISH", CHANNEL, "hello"))
                wait([heard], timeout=AGAIN_S)
            assert heard.result() == b"hello"
        finally:
            node.start()
            cluster.until_ok()
    driver.close()


def test_subscriptions_move_when_their_node_dies(cluster: Cluster) -> None:
    async def listens() -> None:
        driver = asyncio_driver(cluster.url)
        async with driver.subscribe(CHANNEL) as messages, driver.subscribe("other"):
            [node] = listening(cluster)
            node.kill()
            try:
                while not (listening(cluster) and listening(cluster, "other")):  # noqa: ASYNC110 - the nodes say so
                    await asyncio.sleep(0.01)
                heard = None
                while heard is None:
                    await driver.run(command("PUBLISH", CHANNEL, "hello"))
                    heard = await messages.get(AGAIN_S)
                assert heard == b"hello"
            finally:
                node.start()
                await asyncio.to_thread(cluster.until_ok)
        await driver.close()

    asyncio.run(listens())


def test_a_result_arrives_when_the_node_of_its_subscription_dies(cluster: Cluster) -> None:
    """The queue and the namespace's own keys are on the first node. The subscription is made at the one asked next."""
    name = next(name for name in map("n{}".format, range(1_000)) if cluster.owner(f"{{{name}}}") is cluster.nodes[0])
    app, other = (Tenure(cluster.url, namespace=name) for _ in range(2))
    with app, other, ThreadPoolExecutor(1) as pool:
        queue = app.queue(cluster.queue_on(cluster.nodes[0], name))
        job = queue.enqueue(b"1")
        waiting = pool.submit(job.result, LONG_S)

        def subscribed() -> list[RedisServer]:
            return [node for node in cluster.nodes if node.command("CLIENT", "LIST", "TYPE", "pubsub")]

        until(subscribed)
        [node] = subscribed()
        assert node is not cluster.nodes[0]
        node.kill()
        try:
            held = other.queue(queue.name).lease(timeout=0)
            assert held
            assert other.queue(queue.name).complete(held, "done")
            assert waiting.result(LONG_S) == "done"
        finally:
            node.start()
            cluster.until_ok()


def test_info_shows_the_queues_of_the_other_nodes(cluster: Cluster, tmp_path: Path) -> None:
    cluster.flush()
    shared = cluster.owner("{tenure}")
    lost, other = (node for node in cluster.nodes if node is not shared)
    gone, also, kept = (cluster.queue_on(node, start=n) for node, n in ((lost, "a"), (lost, "b"), (other, "kept")))
    environment = {"TENURE_URL": cluster.url}
    with Tenure(cluster.url) as app:
        app.queue_options("parted", partitions=6)
        for name in (gone, also, kept):
            app.queue(name).enqueue(b"1")
        app.queue("parted").enqueue_many([b"1"] * 30)
        places = [place_of("parted", n) for n in range(6)]
        away = [n for n, place in enumerate(places) if cluster.owner(app.engine.prefix(place)) is lost]
        assert 0 < len(away) < 6
    lost.kill()
    try:
        shown = call(["info"], tmp_path, environment).end(expect=1)
        rows = {words[0]: words for line in shown.out.splitlines() if (words := re.split("  +", line.strip()))}
        assert rows[gone][1:3] == ["?", "?"]
        assert rows[gone][-1] == "unreachable"
        assert rows[kept][2] == "1"
        assert rows["parted"][-1] == f"no_worker,partitions=6,unreachable={'+'.join(map(str, away))}"
        assert f"Error: Queues {gone!r}, {also!r} cannot be shown. Redis at" in shown.err
        assert shown.err.strip().endswith(f"because their nodes cannot be reached: {', '.join(map(str, away))}.")
        one = json.loads(call(["info", "parted", "--json"], tmp_path, environment).end(expect=1).out)
        assert one["queues"][0]["unreachable"] == away
        assert 0 < one["queues"][0]["counts"]["ready"] < 30
    finally:
        lost.start()
        cluster.until_ok()


def test_a_worker_starts_and_a_check_ends_while_a_node_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    cluster.flush()
    lost = next(node for node in cluster.nodes if node is not cluster.owner("{tenure}"))
    kept = cluster.queue_on(cluster.owner("{tenure}"), start="kept")
    (tmp_path / "kept.py").write_text(
        f"from tenure import Job, Tenure\napp = Tenure()\n\n@app.handler({kept!r})\n"
        "def run(job: Job) -> None: print(job.payload)\n"
    )
    environment = {"TENURE_URL": cluster.url, "PYTHONPATH": str(tmp_path)}
    with Tenure(cluster.url) as app:
        app.queue(kept).enqueue(b"1")
    lost.kill()
    try:
        checked = call(["check"], tmp_path, environment).end()
        assert re.search(r"warning +nodes +The node \S+ does not respond", checked.out)
        command = [sys.executable, "-u", "-m", "tenure", "worker", "kept:app"]
        with subprocess.Popen(
            command, env=os.environ | environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "b'1'\n"
            worker.terminate()
            assert worker.wait(60) == 0
    finally:
        lost.start()
        cluster.until_ok()


@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_nodes_that_name_each_other_end_in_an_error(kind: str, cluster: Cluster) -> None:
    """After `CLUSTER SETSLOT` at one node only, each of two nodes names the other as the owner of the slot."""
    key = "circle"
    slot, source = slot_of_key(key), cluster.owner(key)
    target = next(node for node in cluster.nodes if node is not source)

    async def record_once() -> None:
        driver = asyncio_driver(cluster.url, patience_ms=PATIENCE_MS)
        try:
            await driver.run(record(key))
        finally:
            await driver.close()

    def record_blocking() -> None:
        with closing(blocking_driver(cluster.url, patience_ms=PATIENCE_MS)) as driver:
            driver.run(record(key))

    before = refusals(cluster)
    source.command("CLUSTER", "SETSLOT", slot, "NODE", cluster.id_of(target))
    try:
        with pytest.raises(Unreachable, match=r"do not agree .*--cluster fix"):
            record_blocking() if kind == "sync" else asyncio.run(record_once())
    finally:
        for node in (source, *cluster.nodes):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", cluster.id_of(source))
    assert REDIRECTS_MOST < refusals(cluster) - before < MANY_REDIRECTS


def refusals(cluster: Cluster) -> int:
    """How often the nodes have refused a call with MOVED."""
    found = (re.search(rb"errorstat_MOVED:count=(\d+)", node.command("INFO", "errorstats")) for node in cluster.nodes)
    return sum(int(one[1]) for one in found if one is not None)


def test_failed_writes_leave_no_connection_behind(cluster: Cluster) -> None:
    """Large and small calls, whose connections the nodes close, or which are cancelled, while they are being sent."""

    async def writes() -> None:
        driver = asyncio_driver(cluster.url)
        keys = [f"key{number}" for number in range(CALLS)]

        async def one_round(harm: str) -> None:
            calls = [asyncio.ensure_future(driver.run(invoke(STORE, (key,), (LARGE,)))) for key in keys]
            calls += [asyncio.ensure_future(driver.run(record(f"log{key}"))) for key in keys]
            for _ in range(5):
                await asyncio.sleep(0)
            if harm == "closed":
                for node in cluster.nodes:
                    await asyncio.to_thread(node.command, "CLIENT", "KILL", "TYPE", "normal")
            elif harm == "cancelled":
                for call in calls:
                    call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

        await one_round("none")
        before = open_sockets()
        for number in range(ROUNDS):
            await one_round(("closed", "cancelled")[number % 2])
            await one_round("none")  # so that the next round finds connections, and is hit while it sends
        assert open_sockets() <= before + CALLS
        await driver.close()

    begin = open_sockets()
    asyncio.run(writes())
    assert open_sockets() <= begin


def test_blocking_code_does_not_wait_in_several_slots(cluster: Cluster) -> None:
    """No call of the package needs it: a lease by hand waits for one queue, which is in one slot."""
    driver = blocking_driver(cluster.url)
    with pytest.raises(InvalidArgument, match="waits in several hash slots"):
        driver.run(command("BLPOP", "a", "b", "0.01", block_ms=10))
    assert driver.run(command("BLPOP", "{a}1", "{a}2", "0.01", block_ms=10)) is None
    driver.close()


@pytest.mark.skipif(OPENSSL is None, reason="there is no openssl program to make certificates with")
@pytest.mark.every_server
def test_a_cluster_with_tls(redis_binary: str, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    files = ours.sign("node", "IP:127.0.0.1").options(ours.own.cert)
    if not has_tls(redis_binary, files):
        pytest.skip("this server was built without TLS")
    with Cluster(redis_binary, password="s3cret", tls=files) as cluster:
        with Tenure(f"{cluster.url}?ssl_ca_certs={ours.own.cert}") as app, ThreadPoolExecutor(1) as pool:
            for node in cluster.nodes:
                queue = app.queue(cluster.queue_on(node))
                waiting = pool.submit(queue.enqueue(b"1").result, LONG_S)
                held = queue.lease(timeout=LONG_S)
                assert held
                assert queue.complete(held, "done")
                assert waiting.result(LONG_S) == "done"
        with (
            Tenure(f"{cluster.url}?ssl_ca_certs={theirs.own.cert}") as app,
            pytest.raises(AccessDenied, match="is not trusted"),
        ):
            app.inspect.queues()
