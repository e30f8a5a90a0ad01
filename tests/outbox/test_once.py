"""`once` and `aonce`: the effect of a job that runs more than once is there once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, create_engine, event, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tenure import InvalidArgument, NotConfigured, PayloadInvalid, Retry
from tenure.outbox import aonce, clean, effects, once

METADATA = MetaData()
PAYMENTS = Table("payments", METADATA, Column("row", Integer, primary_key=True), Column("order", Integer))


@dataclass
class Running:
    """The job of a handler, as far as `once` asks."""

    queue: str = "orders"
    id: str = "job-1"
    token: int = 1


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Running:
    job = Running()
    monkeypatch.setattr(effects, "current_job", lambda: job)
    return job


@pytest.fixture(autouse=True)
def payments(outbox, engine: Engine) -> None:
    METADATA.create_all(engine)


def paid(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(PAYMENTS)) or 0


@pytest.mark.parametrize("kind", ["session", "connection"])
def test_a_job_that_runs_again_after_its_commit_has_its_effect_once(app, engine, kind) -> None:
    seen: list[tuple[bool, object]] = []

    @app.task(name="pay", retries=3)
    def pay(order: int) -> object:
        with Session(engine) if kind == "session" else engine.connect() as session, session.begin():
            with once(session) as first:
                if first:
                    session.execute(insert(PAYMENTS).values(order=order))
                    first.save({"receipt": order})
            seen.append((bool(first), first.result))
            if len(seen) == 1:
                raise OSError("before the commit")
        if len(seen) < 4:
            raise Retry("after the commit")
        return first.result

    handle = pay.enqueue(7)
    for _ in range(4):
        app.testing().drain(raises=False)
        app.testing().advance(seconds=60)
    assert seen[0] == seen[1] == (True, {"receipt": 7})
    assert seen[2:] == [(False, {"receipt": 7})] * 2
    assert paid(engine) == 1
    assert handle.result(timeout=5) == {"receipt": 7}


def test_a_stale_run_waits_for_the_other_one_and_is_not_first(engine, running) -> None:
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    late: list[object] = []

    def run_late() -> None:
        with Session(engine) as session, session.begin(), once(session) as first:
            late.append((bool(first), first.result))

    with Session(engine) as session, session.begin():
        with once(session) as first:
            first.save("paid")
        running.token += 1  # of the run in the thread
        thread = threading.Thread(target=run_late)
        thread.start()
        waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        with engine.connect() as watcher:
            while not watcher.scalar(waiting):
                watcher.rollback()
        assert late == []
    thread.join(30)
    assert late == [(False, "paid")]


async def test_async_sessions_and_connections(engine, running) -> None:
    url = engine.url.set(drivername="sqlite+aiosqlite") if engine.dialect.name == "sqlite" else engine.url
    another: AsyncEngine = create_async_engine(url)
    async with AsyncSession(another) as session:
        async with aonce(session) as first:
            assert first
            first.save([1])
        await session.commit()
    running.token += 1
    async with another.connect() as connection, aonce(connection) as first:
        assert not first
        assert first.result == [1]
    await another.dispose()


def test_the_first_run_of_each_job_is_first(engine, running) -> None:
    for queue, id in (("orders", "1"), ("orders", "2"), ("mails", "1")):
        running.queue, running.id = queue, id
        with Session(engine) as session, session.begin(), once(session) as first:
            assert first
            assert first.result is None


def test_old_effects_are_forgotten(engine, running, monkeypatch) -> None:
    monkeypatch.setattr(effects, "CLEAN_ROWS", 2)
    for number in range(5):
        running.id = str(number)
        with Session(engine) as session, session.begin(), once(session):
            pass
    assert clean(engine, 60) == 0
    assert clean(engine, -1) == 5
    with Session(engine) as session, once(session) as first:
        assert first


def test_a_database_that_restarts_in_a_run_fails_it_and_the_next_has_the_effect(app, engine, request) -> None:
    if engine.dialect.name == "sqlite":
        pytest.skip("no server of SQLite goes away")
    server = request.getfixturevalue("postgres")
    runs: list[int] = []

    @app.task(name="pay", retries=3)
    def pay(order: int) -> None:
        runs.append(order)
        with Session(engine) as session, session.begin(), once(session) as first:
            assert first
            session.execute(insert(PAYMENTS).values(order=order))
            if len(runs) == 1:
                server.stop()
                server.start()

    handle = pay.enqueue(7)
    for _ in range(3):
        app.testing().drain(raises=False)
        app.testing().advance(seconds=60)
    assert (handle.state(), runs, paid(engine)) == ("completed", [7, 7], 1)


def test_bad_uses(engine, running, monkeypatch) -> None:
    with Session(engine) as session, session.begin():
        with once(session) as first, pytest.raises(PayloadInvalid):
            first.save(object())
        running.token += 1
        with once(session) as first, pytest.raises(InvalidArgument, match="earlier run"):
            first.save(1)
        with pytest.raises(InvalidArgument, match=r"async with aonce\(session\)"), once(cast(Any, AsyncSession())):
            pass
        with pytest.raises(InvalidArgument, match="session must be"), once(cast(Any, "shop.db")):
            pass
    monkeypatch.setattr(effects, "current_job", lambda: None)
    with Session(engine) as session, pytest.raises(InvalidArgument, match="belongs in a handler"), once(session):
        pass


def test_a_second_once_of_a_run_is_refused_and_not_silently_false(engine, running) -> None:
    with Session(engine) as session, session.begin(), once(session):
        pass
    with Session(engine) as session, pytest.raises(InvalidArgument, match="stands twice"), once(session):
        pass

    def run_again() -> None:
        with Session(engine) as session, once(session):
            pass

    with ThreadPoolExecutor(1) as threads, pytest.raises(InvalidArgument, match="stands twice"):
        threads.submit(run_again).result(30)
    running.token += 1  # another run
    with Session(engine) as session, session.begin(), once(session) as first:
        assert not first


def test_a_run_may_begin_again_after_a_rollback(engine, running) -> None:
    for _ in range(2):
        with Session(engine) as session, once(session) as first:
            assert first  # and no commit


def test_a_rollback_within_the_block_is_an_error_and_nothing_stays(engine, running) -> None:
    def pay() -> None:
        with Session(engine) as session:
            with once(session):
                session.rollback()
                session.execute(insert(PAYMENTS).values(order=1))
            session.commit()

    with pytest.raises(InvalidArgument, match="rolled back within"):
        pay()
    assert paid(engine) == 0


def test_a_driver_in_autocommit_has_no_transaction(engine, running) -> None:
    of_driver = {"isolation_level": None} if engine.dialect.name == "sqlite" else {"autocommit": True}
    plain = create_engine(engine.url, connect_args=of_driver)
    with Session(plain) as session, pytest.raises(InvalidArgument, match="autocommit"), once(session):
        pass
    plain.dispose()


def test_sqlite_may_begin_its_transactions_by_an_event(engine, running) -> None:
    """As SQLAlchemy's documentation advises: the driver has no isolation level then, and is in no autocommit."""
    if engine.dialect.name != "sqlite":
        pytest.skip("of SQLite")
    own = create_engine(engine.url, connect_args={"isolation_level": None})
    event.listen(own, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with Session(own) as session, session.begin(), once(session) as first:
        assert first
    own.dispose()


def test_a_table_that_does_not_exist_is_named_with_the_line_that_makes_it(engine, outbox, running) -> None:
    outbox.metadata.drop_all(engine)
    advice = r"'tenure_done'.* outbox.create\(engine\)"
    with Session(engine) as session, pytest.raises(NotConfigured, match=advice), once(session):
        pass
    with pytest.raises(NotConfigured, match="tenure_done"):
        clean(engine, 60)
