"""The dashboard of a cluster with a lost node: it shows what the other nodes have, and says what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure import Tenure
from tenure.client.connections import Connections
from tenure.core import limits
from tenure.core.partitions import place_of
from tenure.settings import Settings
from tenure.web import dashboard
from tests.support.cluster import Cluster
from tests.support.waiting import until
from tests.web.conftest import Browser, Serve

PARTITIONS = 8


@pytest.fixture
def cluster(redis_binary: str) -> Iterator[Cluster]:
    with Cluster(redis_binary) as cluster:
        yield cluster


def test_pages_show_a_queue_without_its_partitions_on_a_lost_node(cluster: Cluster, serve: Serve) -> None:
    runner = Connections(Settings.load(url=cluster.url), limits.START_PATIENCE_MS)  # as of `tenure dashboard`
    with Tenure(cluster.url, runner=runner) as app:
        app.control.configure("wide", partitions=PARTITIONS)
        queue = app.queue("wide")
        ids = [queue.enqueue(b"p").id for _ in range(40)]
        browser = serve(dashboard(app))
        (view,) = browser.get("queues")["queues"]
        assert view["counts"]["ready"] == 40
        places = {part: app.engine.prefix(place_of("wide", part)) for part in range(PARTITIONS)}
        shared = cluster.owner(app.engine.signal_channel(""))
        lost = next(node for key in places.values() if (node := cluster.owner(key)) is not shared)
        gone = [partition for partition, key in places.items() if cluster.owner(key) is lost]
        lost.stop()
        until(lambda: browser.get("queues")["queues"][0]["unreachable"] == gone)
        check(browser, ids, gone, f"127.0.0.1:{cluster.ports[lost]}")


def check(browser: Browser, ids: list[str], gone: list[int], node: str) -> None:
    assert f"{len(gone)} partitions cannot be reached" in browser.page("").text
    for page in ("", "queues", "queues/wide", "errors", "lanes", "workers"):
        answer = browser.page(page)
        assert answer.status == 200, (page, answer.text)
    for page in ("jobs", "jobs?queue=wide&state=ready", "schedules"):  # a list with holes would look complete
        answer = browser.page(page)
        assert (answer.status, node in answer.text) == (503, True)
    answers = [browser.page(f"jobs/wide/{id}") for id in ids]
    assert {answer.status for answer in answers} == {200, 503}
    assert all(node in answer.text for answer in answers if answer.status == 503)
