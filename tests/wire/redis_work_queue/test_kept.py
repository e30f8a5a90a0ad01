"""The connection that a work queue keeps between its calls."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.testing.server import RedisServer

PATIENCE_S = 30


class Interrupted(redis.UnixDomainSocketConnection):
    """Is interrupted once, with the reply of its command still in it."""

    error: BaseException | None = None

    def read_response(self, *args: Any, **options: Any) -> Any:
        error, Interrupted.error = Interrupted.error, None
        if error is not None:
            raise error
        return super().read_response(*args, **options)


@pytest.fixture
def queue() -> WorkQueue:
    return WorkQueue(KeyPrefix("kept"))


@pytest.fixture
def db(server: RedisServer) -> Iterator[redis.Redis]:
    """A client that repeats nothing by itself."""
    path = server.url.removeprefix("unix://")
    with redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0)) as client:
        yield client


def connections(server: RedisServer) -> set[bytes]:
    """The ids of the connections of programs, without the one that asks."""
    rows = server.command("CLIENT", "LIST").split(b"\n")
    return {row.split(b" ")[0][3:] for row in rows if row and b"cmd=client" not in row}


def test_calls_that_follow_each_other_use_one_connection(
    server: RedisServer, db: redis.Redis, queue: WorkQueue
) -> None:
    before = connections(server)
    assert queue.add_item(db, Item(b"x", "1"))
    (kept,) = connections(server) - before
    item = queue.lease(db, 10, block=False)
    assert item is not None
    assert queue.complete(db, item)
    assert connections(server) - before == {kept}


def test_a_wait_and_a_close_return_it_to_the_pool(server: RedisServer, db: redis.Redis, queue: WorkQueue) -> None:
    before = connections(server)
    assert queue.lease(db, 10, timeout=0.05) is None
    (kept,) = connections(server) - before
    queue.close(db)
    assert db.ping()
    assert connections(server) - before == {kept}


def test_one_that_redis_closed_is_replaced(server: RedisServer, db: redis.Redis, queue: WorkQueue) -> None:
    before = connections(server)
    assert queue.add_item(db, Item(b"x", "1"))
    (kept,) = connections(server) - before
    server.command("CLIENT", "KILL", "ID", kept)
    assert queue.add_item(db, Item(b"x", "2"))


def test_an_interrupted_call_leaves_its_reply_to_no_other(server: RedisServer, queue: WorkQueue) -> None:
    path = server.url.removeprefix("unix://")
    pool = redis.ConnectionPool(connection_class=Interrupted, path=path)
    with redis.Redis(connection_pool=pool) as db:
        assert queue.add_item(db, Item(b"x", "1"))
        Interrupted.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            queue.queue_len(db)
        assert queue.processing(db) == 0
        assert queue.queue_len(db) == 1
    pool.disconnect()


@pytest.mark.parametrize("retries", [0, 1])
def test_a_lost_reply_is_asked_for_again_as_often_as_the_client_retries(
    server: RedisServer, queue: WorkQueue, retries: int
) -> None:
    pool = redis.ConnectionPool(
        connection_class=Interrupted, path=server.url.removeprefix("unix://"), retry=Retry(NoBackoff(), retries)
    )
    with redis.Redis(connection_pool=pool) as db:
        assert queue.add_item(db, Item(b"x", "1"))
        Interrupted.error = redis.ConnectionError("lost")
        if retries:
            assert queue.add_item(db, Item(b"x", "2"))
        else:
            with pytest.raises(redis.ConnectionError):
                queue.add_item(db, Item(b"x", "2"))
        assert queue.queue_len(db) == 2
    pool.disconnect()


def test_a_library_that_wraps_the_client_sees_every_command(
    db: redis.Redis, queue: WorkQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    send = redis.Redis.execute_command

    @functools.wraps(send)
    def traced(self: redis.Redis, *args: Any, **options: Any) -> Any:
        seen.append(args[0])
        return send(self, *args, **options)

    monkeypatch.setattr(redis.Redis, "execute_command", traced)
    assert queue.queue_len(db) == queue.processing(db) == 0
    assert seen == ["LLEN", "LLEN"]


def test_a_small_pool_keeps_none(server: RedisServer, queue: WorkQueue) -> None:
    pool = redis.ConnectionPool(
        connection_class=redis.UnixDomainSocketConnection, path=server.url.removeprefix("unix://"), max_connections=1
    )
    with redis.Redis(connection_pool=pool) as db:
        assert queue.add_item(db, Item(b"x", "1"))
        assert db.ping(), "the only connection of the pool is free"
        assert queue.queue_len(db) == 1
    pool.disconnect()


def test_threads_do_not_wait_for_each_other(server: RedisServer, db: redis.Redis, queue: WorkQueue) -> None:
    """A thread whose call is under way has the kept connection, and the other one takes another."""
    entered, free = threading.Event(), threading.Event()
    assert queue.queue_len(db) == 0
    kept = queue._kept._idle.connection
    send = kept.send_command

    def slow(*args: Any, **options: Any) -> Any:
        entered.set()
        assert free.wait(PATIENCE_S)
        return send(*args, **options)

    kept.send_command = slow
    thread = threading.Thread(target=queue.add_item, args=(db, Item(b"x", "1")))
    thread.start()
    assert entered.wait(PATIENCE_S)
    assert queue.add_item(db, Item(b"x", "2"))
    free.set()
    thread.join(PATIENCE_S)
    assert queue.queue_len(db) == 2


def test_another_client_gets_a_connection_of_its_own(server: RedisServer, db: redis.Redis, queue: WorkQueue) -> None:
    before = connections(server)
    assert queue.add_item(db, Item(b"x", "1"))
    with redis.Redis(unix_socket_path=server.url.removeprefix("unix://")) as other:
        assert queue.add_item(other, Item(b"x", "2"))
        assert len(connections(server) - before) == 2
    assert queue.queue_len(db) == 2
