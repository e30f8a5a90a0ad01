"""Each committed row becomes exactly one job, wherever relays end or stop, and for however long."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest
from sqlalchemy import Engine, event, func, select

from tenure import Task, Tenure
from tenure.outbox import Outbox, Relay
from tests.outbox.killing import QUEUES, Killed, Points, finish, run_jobs

WALK = int(os.environ.get("TENURE_KILLS", "30"))
"""Kills of the random walk: 10,000 take a minute or two."""


def later() -> float:
    """When other relays no longer wait for one that has ended."""
    return time.time() + 3600


@pytest.fixture
def pay(app: Tenure) -> Task[[int], None, None]:
    app.queue_options("parted", partitions=3)

    @app.task(name="pay")
    def pay(order: int) -> None: ...

    return pay


@pytest.fixture
def write(outbox: Outbox, engine: Engine, pay: Task[[int], None, None]) -> Callable[[int], list[str]]:
    def write(rows: int) -> list[str]:
        with engine.begin() as connection:
            calls = [pay.using(queue=QUEUES[n % 3], lane="a" if n % 5 == 4 else None).call(n) for n in range(rows)]
            return [outbox.enqueue(connection, call).id for call in calls]

    return write


def left(outbox: Outbox, engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(outbox.rows)) or 0


def test_a_relay_that_ends_at_any_point_leaves_each_row_to_become_one_job(app, outbox, engine, write) -> None:
    for point in count(1):

        def end(now: int, at: int = point) -> None:
            if now == at:
                raise Killed

        points, rows = Points(app, engine, end), write(6)
        with suppress(Killed), points.watched():
            Relay(outbox, engine).step()
        ran = run_jobs(app)  # before the next relay: a job that comes twice would run twice
        finish(outbox, engine, later)
        assert sorted([*ran, *run_jobs(app)]) == sorted(rows), f"killed at point {point}"
        assert left(outbox, engine) == 0
        if points.count < point:
            assert point > 20
            return


def test_a_relay_that_is_away_for_long_between_two_steps_enqueues_nothing_again(app, outbox, engine, write) -> None:
    """Meanwhile others take over its batch, run its jobs, and use its source for further batches."""
    for point in count(1):
        ran: list[str] = []
        rows: list[str] = []

        def stop(now: int, at: int = point, ran: list[str] = ran, rows: list[str] = rows) -> None:
            if now == at:
                for size in (0, 6, 4):
                    rows += write(size)
                    finish(outbox, engine, later)
                    ran += run_jobs(app)

        points = Points(app, engine, stop, only_redis=True)
        rows += write(6)
        relay = Relay(outbox, engine)
        with points.watched():
            relay.step()
        finish(outbox, engine, later)
        ran += run_jobs(app)
        assert sorted(ran) == sorted(rows), f"stopped at point {point}"
        if points.count < point:
            assert point > 8
            return


def test_a_row_of_a_transaction_that_is_rolled_back_is_no_job(app, outbox, engine, pay) -> None:
    with engine.connect() as connection:
        outbox.enqueue(connection, pay.call(1))
        connection.rollback()
    finish(outbox, engine, later)
    assert run_jobs(app) == []


@pytest.mark.slow
def test_many_kills_at_random(app, outbox, engine, write) -> None:
    chance = random.Random(int(os.environ.get("TENURE_SEED", "1")))
    rows: list[str] = []
    ran: list[str] = []
    kills = 0
    clock = [time.time()]

    def end(now: int) -> None:
        if now == at:
            raise Killed

    while kills < WALK:
        rows += write(chance.randrange(4))
        clock[0] += chance.choice((0.0, 1.0, 40.0))
        at = chance.randrange(1, 50)
        points = Points(app, engine, end)
        with suppress(Killed), points.watched():
            Relay(outbox, engine, lambda: clock[0]).step()
        kills += points.count == at
        if chance.random() < 0.3:
            ran += run_jobs(app)
    finish(outbox, engine, lambda: clock[0] + 3600)
    ran += run_jobs(app)
    assert sorted(ran) == sorted(rows)


def test_the_rows_of_a_batch_are_in_the_order_of_their_enqueue(app, outbox, engine, pay) -> None:
    with engine.begin() as connection:
        rows = [outbox.enqueue(connection, pay.using(queue="orders").call(n)).id for n in range(600)]
    finish(outbox, engine, later)
    assert run_jobs(app) == rows


def test_no_statement_is_left_open_when_nothing_waits(outbox, engine) -> None:
    """An idle relay reads, and locks nothing."""
    statements: list[str] = []
    relay = Relay(outbox, engine)

    def note(_connection, _cursor, statement, *_) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    assert relay.step() is None
    event.remove(engine, "before_cursor_execute", note)
    assert [one.split()[0] for one in statements] == ["SELECT", "SELECT"]
