"""`Outbox`: jobs that are rows of your SQL transaction until a relay brings them to Redis."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import MsgspecError, msgpack
from sqlalchemy import MetaData, Select, case, func, insert, select
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from tenure.client.handle import JobHandle
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.job import NewJob
from tenure.core.limits import SECOND
from tenure.outbox.sessions import AnyAsyncSession, AnySession, checked_async, connection_of
from tenure.outbox.tables import done_table, explained, rows_table, sources_table, table_name

if TYPE_CHECKING:
    from tenure.client.call import TaskCall
    from tenure.client.client import Client

REFUSED_SHOWN: Final = 20
"""Rows with an error that a status has."""
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(NewJob).decode


class App(Protocol):
    """A `Tenure`."""

    _client: Client


@dataclass(frozen=True, slots=True)
class OutboxHandle:
    """A job that is enqueued when the transaction has committed: it will have this queue and id."""

    queue: str
    id: str
    _client: Client

    def __repr__(self) -> str:
        return f"<OutboxHandle {self.id!r} of queue {self.queue!r}>"

    @property
    def job(self) -> JobHandle[Any]:
        """The handle of the job. There is no such job until a relay has enqueued it.

        handle.job.result(timeout=10)
        """
        return JobHandle(self._client, self.queue, self.id)


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that could not be enqueued, and why. `will_retry`: the relays try again by themselves."""

    row: int
    queue: str
    id: str
    task: str | None
    error: str
    will_retry: bool


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """How many rows wait for a relay, are on their way, and have an error; for how long the oldest has been there.

    `rows`: the first rows with an error.
    """

    waiting: int
    moving: int
    refused: int
    oldest_s: float | None
    rows: tuple[RefusedRow, ...]


class Outbox:
    """A table of jobs to enqueue, which belong to the transactions that write them. `tenure relay` enqueues them.

        outbox = Outbox(app, engine=create_engine("postgresql+psycopg:///shop"))
        outbox.create(outbox.engine)

        with Session.begin() as session:
            session.add(order)
            outbox.enqueue(session, confirm.call(order.id))

    `engine`: the database, for relays; `enqueue` uses the session's own. `table`: its name; a second table is named
    after it. Several outboxes of an app may have tables of their own. Raises `InvalidArgument` and, for a protocol
    without follow-up jobs, `UnsupportedFeature`.
    """

    def __init__(self, app: App, table: str = "tenure_outbox", *, engine: Engine | None = None) -> None:
        client = getattr(app, "_client", None)
        if client is None:
            raise invalid("app", "a Tenure", type(app).__name__)
        _check_engine(engine)
        self.flows = client.flows
        self.table = table_name(table)
        self.engine = engine
        self.metadata = MetaData()
        """The tables, for Alembic's `target_metadata`."""
        self.rows = rows_table(table, self.metadata)
        self.sources = sources_table(table, self.metadata)
        done_table(self.metadata)
        self._client: Client = client

    def __repr__(self) -> str:
        return f"<Outbox {self.table!r} of namespace {self.namespace!r}>"

    @property
    def namespace(self) -> str:
        """The namespace of the app."""
        return self._client.settings.namespace

    def create(self, engine: Engine | Connection) -> None:
        """Make the tables that are missing.

        outbox.create(engine)
        await connection.run_sync(outbox.create)  # of an AsyncEngine
        """
        self.metadata.create_all(engine)

    def enqueue(self, session: AnySession, call: TaskCall[Any]) -> OutboxHandle:
        """Write a job into the transaction of a session or connection. A relay enqueues it after the commit.

            handle = outbox.enqueue(session, thumbnail.using(delay=60).call("cat.png"))

        Enqueue middleware sees the job here; options travel with the row. A delay counts from when the relay enqueues
        the job. Raises `InvalidArgument` (also in autocommit), `PayloadTooLarge` and `NotConfigured` (no such table).
        """
        connection = connection_of(session, "await outbox.aenqueue(session, call)")
        handle, row = self._row(call)
        made = insert(self.rows).values(row)
        if connection.dialect.name == "postgresql":
            # It sends the notification with the commit, and only one for each transaction.
            made = made.returning(func.pg_notify(self.table, ""))
        try:
            connection.execute(made)
        except DBAPIError as error:
            raise explained(error, self.table) from error
        return handle

    async def aenqueue(self, session: AnyAsyncSession, call: TaskCall[Any]) -> OutboxHandle:
        """Write a job into the transaction of an async session or connection: see `enqueue`.

        await outbox.aenqueue(session, thumbnail.call("cat.png"))
        """
        return await checked_async(session).run_sync(self.enqueue, call)

    def _row(self, call: TaskCall[Any]) -> tuple[OutboxHandle, dict[str, Any]]:
        """Return the handle of a call, and the columns of its row."""
        job = self._client.follow_up(call, "call")
        return OutboxHandle(job.queue, job.id, self._client), {
            "id": job.id,
            "namespace": self.namespace,
            "queue": job.queue,
            "task": job.task,
            "job": _encode(job),
            "made_ms": int(time.time() * SECOND),
        }

    def status(self, engine: Engine) -> OutboxStatus:
        """Count the rows that are not jobs yet.

        outbox.status(engine).waiting
        """
        rows = self.rows.c
        is_refused, is_moving = rows.error.is_not(None), rows.slot.is_not(None)
        counted = select(
            func.count(),
            func.sum(case((is_moving & ~is_refused, 1), else_=0)),
            func.sum(case((is_refused, 1), else_=0)),
            func.min(rows.made_ms),
        ).select_from(self.rows)
        try:
            with engine.connect() as connection:
                count, moving, refused, oldest_ms = connection.execute(counted).one()
                found = connection.execute(self._refused_rows()).all() if refused else ()
        except DBAPIError as error:
            raise explained(error, self.table) from error
        moving, refused = int(moving or 0), int(refused or 0)
        oldest_s = None if oldest_ms is None else max(0.0, time.time() - oldest_ms / SECOND)
        return OutboxStatus(
            count - moving - refused, moving, refused, oldest_s, tuple(RefusedRow(*one) for one in found)
        )

    def _refused_rows(self) -> Select[Any]:
        rows = self.rows.c
        columns = (rows.row, rows.queue, rows.id, rows.task, rows.error, rows.slot.is_not(None))
        return select(*columns).where(rows.error.is_not(None)).order_by(rows.row).limit(REFUSED_SHOWN)


def _check_engine(engine: object) -> None:
    """Refuse what relays cannot use. Raises `InvalidArgument`."""
    if engine is not None and (not isinstance(engine, Engine) or engine.dialect.is_async):
        got = engine.dialect.driver if isinstance(engine, Engine) else type(engine).__name__
        raise invalid("engine", "an Engine of SQLAlchemy with a blocking driver", got)


def read_job(app_namespace: str, namespace: str, queue: str, data: bytes) -> NewJob:
    """Read the job of a row. Raises `InvalidArgument` if no relay of this app can enqueue it."""
    if namespace != app_namespace:
        raise InvalidArgument(
            f"The row belongs to an outbox of namespace {namespace!r}, and this relay's app has {app_namespace!r}. "
            "Give each app a table of its own."
        )
    try:
        job = _decode(data)
    except MsgspecError:
        raise InvalidArgument("The row has no job that this release can read.") from None
    if job.queue != queue:
        raise InvalidArgument(f"The row is for queue {queue!r}, and its job for queue {job.queue!r}.")
    return job
