"""How many rows a second a relay brings from an SQL database to Redis, and how many a producer writes.

    python -m bench.outbox [--rows 20000] [--database postgresql+psycopg:///shop]

Without a database, SQLite in a file, as it is by default and with a write-ahead log.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final

from sqlalchemy import create_engine

from tenure import Tenure
from tenure.outbox import Outbox, Relay
from tenure.testing.server import RedisServer, available_binaries

GOAL: Final = 2_000
"""Rows a second of a relay on SQLite."""
TRANSACTION_ROWS: Final = 100


def measure(url: str, redis_url: str, rows: int, wal: bool = False) -> tuple[float, float]:
    """Return the rows a second of a producer and of a relay."""
    engine = create_engine(url)
    with Tenure(redis_url, namespace="bench") as app:
        pay = app.task(name="pay")(lambda order: None)
        outbox = Outbox(app)
        outbox.create(engine)
        if wal:
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        began = time.perf_counter()
        for start in range(0, rows, TRANSACTION_ROWS):
            with engine.begin() as connection:
                for number in range(start, start + TRANSACTION_ROWS):
                    outbox.enqueue(connection, pay.call(number))
        written = time.perf_counter()
        relay = Relay(outbox, engine)
        while relay.step() is not None:
            pass
        ended = time.perf_counter()
        outbox.metadata.drop_all(engine)
    engine.dispose()
    return rows / (written - began), rows / (ended - written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--database", metavar="URL")
    given = parser.parse_args()
    binary = next(iter(available_binaries().values()))
    with RedisServer(binary, tcp=True) as server, tempfile.TemporaryDirectory() as folder:
        runs = {"given": (given.database, False)} if given.database else {}
        runs |= {
            name: (f"sqlite:///{Path(folder, name.replace(' ', '-'))}.db", name != "SQLite")
            for name in ("SQLite", "SQLite with a log")
        }
        print(f"| database | producer, rows/s | relay, rows/s | goal {GOAL:,} |\n|---|---:|---:|---|")
        for name, (url, wal) in runs.items():
            written, relayed = measure(url, server.url, given.rows, wal)
            reached = "reached" if relayed >= GOAL else "**missed**"
            print(f"| {name} | {written:,.0f} | {relayed:,.0f} | {reached} |", flush=True)


if __name__ == "__main__":
    main()
