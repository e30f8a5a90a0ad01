"""What a row carries, what is refused and where, and how relays live with databases and Redis that go away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest
from sqlalchemy import Engine, create_engine, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tenure import InvalidArgument, NotConfigured, PayloadTooLarge, State, Task, Tenure, Unique, UnsupportedFeature
from tenure.outbox import Outbox, Relay
from tenure.outbox.relay import Batch
from tests.outbox.conftest import engine_of
from tests.outbox.killing import finish, run_jobs
from tests.support.postgres import Postgres

WAIT_S = 30.0


@pytest.fixture
def pay(app: Tenure) -> Task[..., None, None]:
    @app.task(name="pay", queue="orders")
    def pay(order: int, note: str = "") -> None: ...

    return pay


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def count(outbox: Outbox, engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(outbox.rows)) or 0


@contextmanager
def running(outbox: Outbox, engine: Engine, relays: int = 1) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=Relay(outbox, engine).run, args=(stop,)) for _ in range(relays)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_the_options_of_a_call_travel_with_the_row(app, outbox, engine, pay) -> None:
    with Session(engine) as session, session.begin():
        handle = outbox.enqueue(session, pay.using(delay=3600, headers={"by": "ada"}).call(1))
        laned = outbox.enqueue(session, pay.using(lane="ada").call(2))
        outbox.enqueue(session, pay.using(unique=Unique("k")).call(3))
        outbox.enqueue(session, pay.using(unique=Unique("k")).call(4))
    finish(outbox, engine, time.time)
    delayed = app.inspect.job("orders", handle.id)
    assert (delayed.state, delayed.headers) == (State.SCHEDULED, {"by": "ada"})
    assert app.inspect.job("orders", laned.id).shape.lane == "ada"
    assert app.inspect.queue("orders").counts[State.READY] == 2
    assert count(outbox, engine) == 0


async def test_async_sessions_and_connections(app, outbox, engine, pay) -> None:
    url = engine.url.set(drivername="sqlite+aiosqlite") if engine.dialect.name == "sqlite" else engine.url
    another = create_async_engine(url)
    async with AsyncSession(another) as session:
        first = await outbox.aenqueue(session, pay.call(1))
        await session.commit()
    async with another.begin() as connection:
        second = await outbox.aenqueue(connection, pay.call(2))
    await another.dispose()
    finish(outbox, engine, time.time)
    assert run_jobs(app) == [first.id, second.id]


def test_two_relays_and_many_producers(app, outbox, engine, pay) -> None:
    ids: list[str] = []

    def produce() -> None:
        for _ in range(20):
            with engine.begin() as connection:
                ids.extend(outbox.enqueue(connection, pay.call(n)).id for n in range(10))

    with running(outbox, engine, relays=2):
        producers = [threading.Thread(target=produce) for _ in range(3)]
        for thread in producers:
            thread.start()
        for thread in producers:
            thread.join(WAIT_S)
        until(lambda: count(outbox, engine) == 0)
    assert len(ids) == 600
    assert sorted(run_jobs(app)) == sorted(ids)


def test_a_relay_that_is_asleep_is_woken_by_a_commit(app, postgres: Postgres, pay) -> None:
    engine = engine_of(postgres.new_database())
    outbox = Outbox(app)
    outbox.create(engine)
    stop, waits = threading.Event(), []
    relay = Relay(outbox, engine)

    def listen() -> None:
        from tenure.outbox.waits import wait_for

        with wait_for(engine, outbox.table) as wait:
            wait(WAIT_S, stop)  # begins to listen
            waits.append("listens")
            wait(WAIT_S, stop)
            waits.append("woken")

    thread = threading.Thread(target=listen)
    thread.start()
    until(lambda: waits == ["listens"])
    with engine.begin() as connection:
        outbox.enqueue(connection, pay.call(1))
    thread.join(WAIT_S / 2)
    assert waits == ["listens", "woken"]
    assert relay.step() == 1
    engine.dispose()


def test_an_id_of_the_caller_s_own_becomes_one_job(app, outbox, engine, pay) -> None:
    with Session(engine) as session, session.begin():
        for order in (1, 2):
            outbox.enqueue(session, pay.using(id="first-of-ada").call(order))
    finish(outbox, engine, time.time)
    assert run_jobs(app) == ["first-of-ada"]
    with engine.begin() as connection:  # the queue keeps its record
        outbox.enqueue(connection, pay.using(id="first-of-ada").call(3))
    finish(outbox, engine, time.time)
    assert run_jobs(app) == []
    assert count(outbox, engine) == 0


# ------------------------------------------------------------------------------------------------------------ bad rows


def test_rows_that_no_relay_can_enqueue_are_marked_and_do_not_stop_the_others(app, outbox, engine, pay) -> None:
    with engine.begin() as connection:
        ids = [outbox.enqueue(connection, pay.call(n)).id for n in range(5)]
        rows = outbox.rows
        changes: dict[int, dict[str, object]] = {0: {"job": b"\xc1"}, 1: {"queue": "mails"}}
        for place, values in changes.items():
            connection.execute(update(rows).where(rows.c.id == ids[place]).values(**values))
    finish(outbox, engine, time.time)
    assert run_jobs(app) == ids[2:]
    status = outbox.status(engine)
    assert (status.waiting, status.moving, status.refused) == (0, 0, 2)
    assert [one.id for one in status.rows] == ids[:2]
    assert not any(one.will_retry for one in status.rows)
    for one, words in zip(status.rows, ("can read", "queue 'orders'"), strict=True):
        assert words in one.error
    with engine.begin() as connection:  # repaired by hand
        connection.execute(update(rows).where(rows.c.id == ids[1]).values(queue="orders", error=None))
    finish(outbox, engine, time.time)
    assert run_jobs(app) == [ids[1]]


def test_a_relay_leaves_the_rows_of_another_namespace_to_its_own(app, outbox, engine, pay, redis_url) -> None:
    """Also the rows that such a relay has numbered, and not delivered."""
    with Tenure(redis_url, namespace="bank") as bank, engine.begin() as connection:
        other = Outbox(bank, engine=engine)
        theirs = [other.enqueue(connection, bank.task(name="pay", queue="orders")(lambda n: n).call(1)).id]
        ours = [outbox.enqueue(connection, pay.call(n)).id for n in range(2)]
        connection.commit()
        numbered = Relay(other, engine)
        assert numbered._begin() is not None
        clock = time.time() + 60
        finish(outbox, engine, lambda: clock)
        assert run_jobs(app) == ours
        finish(other, engine, lambda: clock)
        assert [job.id for job in bank.inspect.page("orders", State.READY, limit=5).jobs] == theirs


def test_a_relay_that_stood_still_deletes_no_row_that_came_in_that_time(app, outbox, engine, pay, monkeypatch) -> None:
    """SQLite gives the number of a deleted row to a new one, if the table was empty."""

    def write(number: int) -> str:
        with engine.begin() as connection:
            return outbox.enqueue(connection, pay.call(number)).id

    ids, late, end = [write(1)], time.time() + 11, Relay._end
    first = Relay(outbox, engine)

    def stand_still(batch: Batch, done: Sequence[int], refused: dict[str, str]) -> None:
        assert Relay(outbox, engine, lambda: late).step() == 1
        ids.append(write(2))
        end(first, batch, done, refused)

    monkeypatch.setattr(first, "_end", stand_still)
    first.step()
    finish(outbox, engine, lambda: late)
    assert run_jobs(app) == ids


def test_a_queue_that_refuses_jobs_keeps_its_rows_and_stops_no_other(app, outbox, engine, pay, server, caplog) -> None:
    """Its rows follow when it accepts jobs again, each once and in order."""
    caplog.set_level(logging.INFO, "tenure")
    key = "{shop:broken}:jobs"
    server.command("SET", key, "of another program")
    clock = [time.time()]
    relay = Relay(outbox, engine, lambda: clock[0])

    def write(number: int, queue: str) -> str:
        with engine.begin() as connection:
            return outbox.enqueue(connection, pay.using(queue=queue).call(number)).id

    broken, orders = [], []
    for number in range(3):
        broken.append(write(number, "broken"))
        orders.append(write(number, "orders"))
        while relay.step() is not None:
            pass
    assert run_jobs(app) == orders
    status = outbox.status(engine)
    assert (status.waiting, status.refused) == (2, 1)
    assert status.rows[0].will_retry
    assert "WRONGTYPE" in status.rows[0].error or "another program" in status.rows[0].error
    server.command("DEL", key)
    assert relay.step() is None  # it waits a little
    clock[0] += 60
    while relay.step() is not None:
        pass
    assert count(outbox, engine) == 0
    leased = app._client.run(app.engine.lease("w", ["broken"], 10))
    assert [lease.record.id for lease in leased.leases] == broken
    assert [one.getMessage().split()[0] for one in caplog.records] == ["relay_refused"]


def test_a_row_with_a_task_that_no_worker_knows_is_a_job_that_waits(app, outbox, engine, pay) -> None:
    with engine.begin() as connection:
        handle = outbox.enqueue(connection, pay.call(1))
    del app._tasks["pay"]
    finish(outbox, engine, time.time)
    assert app.inspect.job("orders", handle.id).task == "pay"


def test_bad_uses_are_refused_where_they_are_made(app, outbox, engine, pay) -> None:
    with Session(engine) as session, session.begin():
        with pytest.raises(PayloadTooLarge):
            outbox.enqueue(session, pay.call(1, "x" * 2_000_000))
        with pytest.raises(InvalidArgument, match="call must be a call of a task"):
            outbox.enqueue(session, pay)
        with pytest.raises(InvalidArgument, match="of a task of this app"):
            outbox.enqueue(session, Tenure(namespace="bank").task(name="pay")(lambda: None).call())
        with pytest.raises(InvalidArgument, match="durable cannot be set"):
            outbox.enqueue(session, pay.using(durable=1).call(1))
    with pytest.raises(InvalidArgument, match=r"await outbox\.aenqueue"):
        outbox.enqueue(AsyncSession(), pay.call(1))
    with pytest.raises(InvalidArgument, match="session must be a Session"):
        outbox.enqueue(engine, pay.call(1))
    own = engine.execution_options(isolation_level="AUTOCOMMIT")
    with own.connect() as connection, pytest.raises(InvalidArgument, match="has no transaction"):
        outbox.enqueue(connection, pay.call(1))
    always = create_engine(engine.url, isolation_level="AUTOCOMMIT")
    with Session(always) as session, pytest.raises(InvalidArgument, match="has no transaction"):
        outbox.enqueue(session, pay.call(1))
    always.dispose()
    assert count(outbox, engine) == 0


def test_a_table_that_does_not_exist_is_named_with_the_line_that_makes_it(outbox, engine, pay) -> None:
    outbox.metadata.drop_all(engine)
    advice = r"'tenure_outbox'. Make it with outbox.create\(engine\)"
    with Session(engine) as session, pytest.raises(NotConfigured, match=advice):
        outbox.enqueue(session, pay.call(1))
    for use in (lambda: outbox.status(engine), lambda: Relay(outbox, engine).run(threading.Event())):
        with pytest.raises(NotConfigured, match=advice):
            use()


@pytest.mark.parametrize("name", ["", "Outbox", "a b", "tenure_done", "x" * 51, 7])
def test_names_of_tables(app, name) -> None:
    with pytest.raises(InvalidArgument, match="table must be 1 to 50"):
        Outbox(app, table=name)


def test_an_outbox_needs_an_app_of_the_native_protocol() -> None:
    with pytest.raises(UnsupportedFeature):
        Outbox(Tenure(protocol="redis-work-queue:jobs"))
    with pytest.raises(InvalidArgument, match="app must be a Tenure"):
        Outbox(cast(Any, "shop"))
    for engine, name in (("sqlite:///shop.db", "str"), (create_engine("sqlite+aiosqlite:///shop.db"), "aiosqlite")):
        with pytest.raises(InvalidArgument, match=f"engine must be an Engine of .* with a blocking driver, got {name}"):
            Outbox(Tenure(), engine=cast(Any, engine))


# ---------------------------------------------------------------------------------------------------------- going away


def test_redis_that_was_away_gets_the_rows(make_server, sqlite_url) -> None:
    server = make_server(tcp=True)
    engine = engine_of(sqlite_url)
    with Tenure(server.url, namespace="shop", patience=0.2) as app:
        pay = app.task(name="pay", queue="orders")(lambda order: None)
        outbox = Outbox(app)
        outbox.create(engine)
        server.stop()
        with running(outbox, engine):
            with engine.begin() as connection:
                ids = [outbox.enqueue(connection, pay.call(n)).id for n in range(3)]
            time.sleep(0.5)
            assert count(outbox, engine) == 3
            server.start()
            until(lambda: count(outbox, engine) == 0)
        assert run_jobs(app) == ids
    engine.dispose()


def test_a_relay_waits_while_postgresql_only_reads(app, postgres: Postgres, pay, caplog) -> None:
    """As during a failover."""
    caplog.set_level(logging.INFO, "tenure")
    url = postgres.new_database()
    plain, reading = (
        create_engine(url),
        create_engine(url, connect_args={"options": "-c default_transaction_read_only=on"}),
    )
    outbox = Outbox(app)
    outbox.create(plain)
    with plain.begin() as connection:
        id = outbox.enqueue(connection, pay.call(1)).id
    with running(outbox, reading):
        until(lambda: any("relay_lost" in one.getMessage() for one in caplog.records))
        assert count(outbox, plain) == 1
    finish(outbox, plain, time.time)
    assert run_jobs(app) == [id]
    for engine in (plain, reading):
        engine.dispose()


def test_a_database_that_restarts_is_served_again(app, postgres: Postgres, pay, caplog) -> None:
    caplog.set_level(logging.INFO, "tenure")
    engine = create_engine(postgres.new_database(), pool_pre_ping=True)
    outbox = Outbox(app)
    outbox.create(engine)

    def write() -> str:
        with engine.begin() as connection:
            return outbox.enqueue(connection, pay.call(1)).id

    with running(outbox, engine):
        ids = [write()]
        until(lambda: count(outbox, engine) == 0)
        postgres.stop()
        try:
            until(lambda: any("relay_lost" in one.getMessage() for one in caplog.records))
        finally:
            postgres.start()
        ids.append(write())
        until(lambda: count(outbox, engine) == 0)
    assert run_jobs(app) == ids
    engine.dispose()
