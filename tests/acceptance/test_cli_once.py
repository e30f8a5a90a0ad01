"""`once` in worker processes that are killed, or stopped for longer than their leases: each effect is there once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

from tenure import JobHandle, State, Tenure
from tenure.outbox import Outbox
from tests.support.postgres import Postgres
from tests.support.waiting import until

KILLS = int(os.environ.get("TENURE_PROCESS_KILLS", "3"))
JOBS = 20
"""Jobs for each kill."""
POINTS = ("committed", "before", "within")
"""Where runs are stopped. SQLite lets no other run commit while one is within its transaction, so that is the last."""
SHOP = """
import os, random, time
from contextlib import suppress
from pathlib import Path
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from tenure import Tenure
from tenure.outbox import once

app = Tenure(namespace="shop")
url = os.environ["DATABASE"]
engine = create_engine(url, connect_args={"timeout": 100} if url.startswith("sqlite") else {})
app.on_shutdown(engine.dispose)

@app.task(queue="orders", retries=9)
def pay(order: int, stop: str = "") -> int:
    wait_at("before", stop)
    with Session(engine) as session, session.begin(), once(session) as first:
        if first:
            session.execute(text("INSERT INTO payments (ordered) VALUES (:order)"), {"order": order})
            first.save(-order)
        time.sleep(random.random() * 0.02)
        wait_at("within", stop)
    time.sleep(random.random() * 0.02)
    wait_at("committed", stop)
    return first.result

def wait_at(point, stop):
    # Only the first run waits.
    with suppress(FileExistsError):
        if point == stop:
            Path(point).touch(exist_ok=False)
            until = time.monotonic() + 100
            while not Path("go").exists() and time.monotonic() < until:
                time.sleep(0.01)
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(SHOP)
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def app(redis_url: str) -> Iterator[Tenure]:
    with Tenure(redis_url, namespace="shop") as app:
        app.task(name="shop.pay", queue="orders")(lambda order, stop="": None)
        yield app


@pytest.fixture
def engine(app: Tenure, database: str) -> Iterator[Engine]:
    engine = create_engine(database)
    Outbox(app).create(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE payments (ordered INTEGER)"))
    yield engine
    engine.dispose()


def paid(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return sorted(connection.scalars(text("SELECT ordered FROM payments")))


def until_paid(engine: Engine, count: int) -> None:
    until(lambda: len(paid(engine)) >= count)


@pytest.mark.slow
@pytest.mark.timeout(300 + 60 * KILLS)
def test_killed_workers_lose_and_double_no_effect(tenure, redis_url, database, app, engine) -> None:
    chance, pay = random.Random(1), app.tasks["shop.pay"]

    def start():
        return tenure("worker", "shop:app", "-c", "4", url=redis_url, DATABASE=database)

    jobs: list[JobHandle[Any]] = []
    workers = [start()]
    for _ in range(KILLS):
        workers.append(start())  # it starts while the other one works
        jobs += pay.enqueue_many(pay.call(len(jobs) + n) for n in range(JOBS))
        victim = workers.pop(0).wait_for("worker_started")
        until_paid(engine, len(jobs) - JOBS // 2)
        time.sleep(chance.random() * 0.03)
        with suppress(ProcessLookupError):
            os.kill(victim.worker, signal.SIGKILL)
        victim.signal(signal.SIGTERM)  # it hands back what its worker held
    orders = range(len(jobs))
    assert [job.result(timeout=150) for job in jobs] == [-order for order in orders]
    assert paid(engine) == [*orders]


@pytest.mark.slow
def test_a_run_that_was_stopped_for_longer_than_its_lease_has_no_second_effect(
    tenure, redis_url, database, app, engine, tmp_path
) -> None:
    pay = app.tasks["shop.pay"]
    stopped = tenure("worker", "shop:app", "-c", "4", url=redis_url, DATABASE=database)
    stopped.wait_for("worker_started")
    jobs = []
    for order, point in enumerate(POINTS):
        jobs.append(pay.enqueue(order, point))
        until((tmp_path / point).exists)
    # Its parent would keep the leases for a while.
    pids = (stopped.process.pid, stopped.worker)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    other = tenure("worker", "shop:app", "-c", "4", url=redis_url, DATABASE=database)
    for job in jobs:
        other.wait_for(f"id={job.id} attempt=")
    (tmp_path / "go").touch()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert [job.result(timeout=100) for job in jobs] == [0, -1, -2]
    # The stale runs end, too.
    for worker in (stopped, other):
        worker.signal(signal.SIGTERM).end()
    assert paid(engine) == [0, 1, 2]
    assert {job.state() for job in jobs} == {State.COMPLETED}
