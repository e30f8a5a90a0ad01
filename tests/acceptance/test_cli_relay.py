"""`tenure relay` and `tenure sql-clean`, also killed as processes."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, func, select, update

from tenure import Tenure
from tenure.outbox import Outbox
from tests.outbox.killing import finish, run_jobs
from tests.support.waiting import until

KILLS = int(os.environ.get("TENURE_PROCESS_KILLS", "3"))
ROWS = 700
"""More than a batch, so that there is one on its way when the relay is killed."""
SHOP = """
from sqlalchemy import create_engine
from tenure import Tenure
from tenure.outbox import Outbox
app = Tenure(namespace="shop")
outbox = Outbox(app, engine=create_engine("sqlite:///shop.db"))
without = Outbox(app)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    (tmp_path / "shop.py").write_text(SHOP)
    return create_engine(f"sqlite:///{tmp_path}/shop.db")


@pytest.fixture
def app(redis_url: str):
    with Tenure(redis_url, namespace="shop") as app:
        yield app


@pytest.fixture
def outbox(app: Tenure, engine: Engine):
    outbox = Outbox(app)
    outbox.create(engine)
    yield outbox
    engine.dispose()


def write(outbox: Outbox, engine: Engine, app: Tenure, count: int = 1) -> list[str]:
    pay = app._tasks.get("pay") or app.task(name="pay", queue="orders")(lambda order: None)
    with engine.begin() as connection:
        return [outbox.enqueue(connection, pay.call(n)).id for n in range(count)]


def left(outbox: Outbox, engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(outbox.rows)) or 0


def test_a_relay_runs_until_a_signal_stops_it(tenure, redis_url, app, outbox, engine) -> None:
    ids = write(outbox, engine, app, 3)
    relay = tenure("relay", "shop:outbox", url=redis_url).wait_for("relay_started table=tenure_outbox")
    until(lambda: left(outbox, engine) == 0)
    ids += write(outbox, engine, app)
    until(lambda: left(outbox, engine) == 0)
    assert "relay_stopped table=tenure_outbox jobs=4" in relay.signal(signal.SIGTERM).end().err
    assert run_jobs(app) == ids


@pytest.mark.slow
def test_killed_relays_lose_and_double_nothing(tenure, redis_url, app, outbox, engine) -> None:
    chance = random.Random(1)
    rows: list[str] = []
    ran: list[str] = []
    relays = [tenure("relay", "shop:outbox", url=redis_url)]
    for _ in range(KILLS):
        relays.append(tenure("relay", "shop:outbox", url=redis_url))
        relays[0].wait_for("relay_started")
        rows += write(outbox, engine, app, ROWS)
        until(lambda: left(outbox, engine) < ROWS)
        time.sleep(chance.random() * 0.03)
        relays.pop(0).signal(signal.SIGKILL).process.wait(30)
        ran += run_jobs(app)
    relays[0].signal(signal.SIGKILL).process.wait(30)
    finish(outbox, engine, lambda: time.time() + 3600)
    ran += run_jobs(app)
    assert len(ran) == len(rows) == len(set(ran))
    assert set(ran) == set(rows)


def test_the_status_names_rows_with_an_error(command, redis_url, app, outbox, engine) -> None:
    first, _ = write(outbox, engine, app, 2)
    done = command("relay", "shop:outbox", "--status", url=redis_url).end()
    assert re.search(r"2 rows wait, 0 are on their way, 0 have an error\. The oldest row is \d+ s old\.", done.out)
    with engine.begin() as connection:
        connection.execute(update(outbox.rows).where(outbox.rows.c.id == first).values(job=b"?"))
    finish(outbox, engine, time.time)
    done = command("relay", "shop:outbox", "--status", url=redis_url).end(1)
    for word in ("1 have an error", "orders", first, "pay", "this release can read"):
        assert word in done.out
    found = json.loads(command("relay", "shop:outbox", "--status", "--json", url=redis_url).end(1).out)
    assert (found["waiting"], found["moving"], found["refused"]) == (0, 0, 1)
    assert found["rows"][0]["id"] == first


def test_old_effects_are_forgotten(command, outbox) -> None:
    done = command("sql-clean", "shop:outbox", "--older-than", "30d").end()
    assert done.out == "The effects of 0 jobs were forgotten.\n"
    assert json.loads(command("sql-clean", "shop:outbox", "--older-than", "1h", "--json").end().out) == {"forgotten": 0}


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["relay", "shop:app"], 2, "shop:app must be an Outbox, got Tenure. It has: shop:outbox, shop:without."),
        (["relay", "shop"], 2, "does not name the outbox of the module. Expected MODULE:OUTBOX"),
        (["relay", "shop:without"], 2, "shop:without has no engine. Write Outbox(app, engine=engine)"),
        (["relay", "shop:outbox", "--database", "s3cret"], 2, "--database cannot be used: it is not a URL"),
        (["relay", "shop:outbox", "--database", "sqlite+aiosqlite://"], 2, "--database needs a blocking driver"),
        (
            ["relay", "shop:outbox", "--database", "sqlite:///none/s3cret"],
            1,
            "The database cannot be used: Operational",
        ),
        (["relay", "shop:outbox"], 2, "no table 'tenure_outbox'. Make it with outbox.create(engine)"),
        (["sql-clean", "shop:outbox", "--older-than", "1d"], 2, "no table 'tenure_done'"),
        (["sql-clean", "shop:outbox", "--older-than", "30"], 2, "'30' is not an age"),
        (["sql-clean", "shop:outbox"], 2, "Missing option '--older-than'"),
    ],
)
def test_mistakes(command, engine, args, status, words) -> None:
    more = ["--status"] if args[0] == "relay" else []
    message = command(*args, *more).end(status).err
    assert words in message
    assert "s3cret" not in message
