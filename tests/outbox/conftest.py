"""Fixtures of the outbox: an app on an empty Redis, and a database of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event

from tenure import Tenure
from tenure.outbox import Outbox
from tests.support.postgres import Postgres


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


def engine_of(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": 10} if url.startswith("sqlite") else {})
    if url.startswith("sqlite"):

        @event.listens_for(engine, "connect")
        def set_up(connection, _record) -> None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")

    return engine


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = engine_of(database)
    yield engine
    engine.dispose()


@pytest.fixture
def app(redis_url: str) -> Iterator[Tenure]:
    with Tenure(redis_url, namespace="shop") as app:
        yield app


@pytest.fixture
def outbox(app: Tenure, engine: Engine) -> Outbox:
    outbox = Outbox(app, engine=engine)
    outbox.create(engine)
    return outbox
