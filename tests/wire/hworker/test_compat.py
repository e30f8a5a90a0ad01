"""The interface of hworker for Python, beside originals."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tenure import InvalidArgument, PayloadInvalid
from tenure.compat.hworker import Failure, Hworker, Retry, Success
from tenure.protocols.registry import rights_of
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.checking import inspection
from tests.wire.hworker.original import Original


class Reading(msgspec.Struct):
    celsius: float


class Page(msgspec.Struct):
    page: int
    copies: int = 1


@pytest.fixture
def original(server: RedisServer) -> Iterator[Original]:
    import redis

    db: Any = redis.Redis.from_url(server.url)
    yield Original(db, "printer")
    db.close()


def make(server: RedisServer, **options: Any) -> Hworker:
    return Hworker("printer", server.url, **{"type": Page, "retry_delay": 0, **options})


def test_jobs_of_both_sides_end_as_their_function_says(server: RedisServer, original: Original) -> None:
    pool = make(server)
    ran: list[Page] = []

    @pool.job
    def work(page: Page) -> Success | Retry | Failure | None:
        ran.append(page)
        if page.page == 2:
            return Failure("no such page")
        if page.page == 3 and ran.count(page) < 3:
            return Retry("no paper")
        if page.page == 4:
            raise KeyError("tray")
        return Success() if page.page == 1 else None

    for number in (1, 2, 3):
        original.queue({"page": number})
    pool.queue(Page(4, copies=2))
    pool.queue({"page": 5})
    assert pool.jobs() == [Page(5), Page(4, 2), Page(3), Page(2), Page(1)], "as the original, the newest first"
    pool.worker(burst=True)
    assert [page.page for page in ran] == [1, 2, 3, 4, 5, 3, 3]
    assert pool.jobs() == []
    assert pool.failed() == [Page(4, 2), Page(2)]
    views = pool.app.inspect.page("default", "failed").jobs
    assert [view.error.message for view in views if view.error] == ["Exception raised: 'tray'", "no such page"]
    pool.close()


def test_an_exception_may_be_a_retry(server: RedisServer) -> None:
    pool = make(server, on_exception="retry")
    ran: list[int] = []

    @pool.job
    async def work(page: Page) -> Success:
        ran.append(page.page)
        if len(ran) < 4:
            raise OSError("the printer is off")
        return Success()

    pool.queue(Page(1))
    pool.worker(burst=True)
    assert ran == [1, 1, 1, 1]
    assert pool.failed() == []
    pool.close()


def test_a_value_of_another_type_is_broken_with_its_reason(server: RedisServer, original: Original) -> None:
    pool = make(server)
    pool.job(lambda page: Success())
    job = original.queue({"pages": "all"})
    original.push(b"garbage")
    pool.worker(burst=True)
    found = dict(pool.broken())
    assert set(found) == {job, b"garbage"}
    assert all(at.endswith("Z") for at in found.values())
    reasons = {view.error.message for view in pool.app.inspect.page("default", "broken").jobs if view.error}
    assert any("missing required field `page`" in reason for reason in reasons)
    [id] = [view.id for view in pool.app.inspect.page("default", "broken").jobs if view.id == json.loads(job)[0]]
    assert pool.app.control.retry("default", id, payload={"page": 9})
    assert pool.jobs() == [Page(9)]
    pool.close()


def test_a_monitor_returns_what_originals_left(server: RedisServer, original: Original) -> None:
    pool = make(server, timeout=1)
    job = original.queue({"page": 1})
    assert original.pop() == job
    assert pool.monitor() == 0
    original.db.hset(original.progress, job, "no time")
    assert pool.monitor() == 1
    assert original.pop() == job
    pool.close()


def test_a_destroyed_pool_is_empty(server: RedisServer, original: Original) -> None:
    pool = make(server)
    for number in range(3):
        pool.queue(Page(number))
    assert original.pop() is not None
    pool.destroy()
    assert (pool.jobs(), pool.failed(), pool.broken()) == ([], [], [])
    assert not original.db.keys("hworker-[jpfb]*")
    pool.close()


def test_all_of_it_for_asyncio(server: RedisServer, original: Original) -> None:
    pool = make(server)
    pool.job(lambda page: Failure("no") if page.page else Success())

    async def main() -> tuple[list[Page], list[Page]]:
        assert await pool.aqueue(Page(0)) is True
        await pool.aqueue(Page(1))
        waiting = await pool.ajobs()
        await pool.aworker(burst=True)
        assert await pool.amonitor() == 0
        assert await pool.abroken() == []
        failed = await pool.afailed()
        await pool.adestroy()
        await pool.aclose()
        return waiting, failed

    assert asyncio.run(main()) == ([Page(1), Page(0)], [Page(1)])


def test_mistakes_are_refused(server: RedisServer) -> None:
    with pytest.raises(InvalidArgument, match="on_exception"):
        make(server, on_exception="ignore")
    with pytest.raises(InvalidArgument, match="no function"):
        make(server).worker(burst=True)
    with pytest.raises(InvalidArgument, match="name"):
        Hworker("", server.url)


@pytest.mark.parametrize(
    "bad", [float("nan"), [float("inf")], {"a": {"b": -float("inf")}}, Reading(float("nan")), object(), {1: object()}]
)
def test_what_json_does_not_have_is_refused(server: RedisServer, bad: object) -> None:
    pool = make(server, type=Any)
    with pytest.raises(PayloadInvalid, match="JSON"):
        pool.queue(bad)
    assert not server.command("KEYS", "*")
    pool.close()


@pytest.mark.parametrize("good", [None, 0.5, 2**70, "é", {"a": [1, {"b": None}]}, Reading(1.5), msgspec.Raw(b"[1]")])
def test_a_value_that_json_has_is_queued_as_msgspec_writes_it(server: RedisServer, good: object) -> None:
    pool = make(server, type=Any)
    assert pool.queue(good) is True
    assert pool.jobs() == [msgspec.json.decode(msgspec.json.encode(good))]
    pool.close()


def test_numbers_that_no_float_can_hold_keep_their_value(server: RedisServer, original: Original) -> None:
    pool = make(server, type=Any)
    ran: list[Any] = []
    pool.job(ran.append)
    original.push(b'["big",[1e400,-1E+999,9007199254740993,0.5]]')
    assert pool.jobs() == [[Decimal("1e400"), Decimal("-1e999"), 9007199254740993, 0.5]]
    pool.worker(burst=True)
    assert ran == [[Decimal("1e400"), Decimal("-1e999"), 9007199254740993, 0.5]]
    assert pool.broken() == []
    pool.close()


def test_a_phantom_is_no_broken_job(server: RedisServer, original: Original) -> None:
    original.db.hset(original.broken, b"false", b'"2026-01-01T00:00:00Z"')
    original.db.hset(original.broken, b"[", b'"2026-01-01T00:00:00Z"')
    pool = make(server)
    assert pool.broken() == [(b"[", "2026-01-01T00:00:00Z")]
    pool.close()


@pytest.mark.every_server
def test_the_check_of_a_starting_worker_touches_no_job(server: RedisServer, original: Original) -> None:
    """Before Redis 7 it tries commands."""
    pool = make(server, type=Any)
    original.queue("waits")
    original.db.hset(original.progress, b'["p",1]', b'"2026-01-01T00:00:00Z"')
    original.db.hset(original.broken, b"[", b'"2026-01-01T00:00:00Z"')
    original.db.lpush(original.failed, b'["f",1]')
    before = {key: original.db.dump(key) for key in original.db.keys("*")}
    driver = SyncDriver(server.url)
    assert not driver.run(inspection(rights_of(pool.app.engine))).errors
    driver.close()
    assert {key: original.db.dump(key) for key in original.db.keys("*")} == before
    pool.close()


def test_h6_a_failure_that_comes_too_late_is_logged(
    server: RedisServer, original: Original, caplog: pytest.LogCaptureFixture
) -> None:
    pool = make(server)

    @pool.job
    def work(page: Page) -> Failure:
        original.db.hdel(original.progress, job)
        original.db.hset(original.progress, job, '"2126-01-01T00:00:00Z"')  # another worker has it
        return Failure("no such page")

    job = original.queue({"page": 1})
    with caplog.at_level("WARNING", "tenure"):
        pool.worker(burst=True)
    [line] = [line for line in caplog.messages if line.startswith("lease_lost")]
    assert "error=Fail" in line, line
    assert pool.failed() == []
    original.succeed(job)
    pool.close()


async def test_h8_a_worker_and_its_monitor_go_on_after_a_restart_of_redis(private_server: RedisServer) -> None:
    import redis

    pool = make(private_server, type=Any)
    ran: asyncio.Queue[Any] = asyncio.Queue()
    pool.job(ran.put)
    working = asyncio.create_task(pool.aworker())
    await pool.aqueue("before")
    assert await asyncio.wait_for(ran.get(), 60) == "before"
    await asyncio.to_thread(private_server.restart, kill=True)
    with redis.Redis.from_url(private_server.url) as db:
        # Of a worker that died: a monitor has to return it.
        db.hset(Original(db, "printer").progress, b'["dead", "after"]', b"no time")
    while await asyncio.wait_for(ran.get(), 60) != "after":
        """The first one runs again if the restart has overtaken its outcome."""
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    await pool.aclose()


async def test_h14_a_job_ends_with_its_worker_and_runs_once_more(server: RedisServer) -> None:
    pool = make(server, type=Any)
    begun, ended = asyncio.Event(), []

    @pool.job
    async def work(value: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(value)

    working = asyncio.create_task(pool.aworker())
    await pool.aqueue("a")
    await asyncio.wait_for(begun.wait(), 60)
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    assert ended == ["a"]
    assert await pool.ajobs() == ["a"]
    await pool.aclose()
