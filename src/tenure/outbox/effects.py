"""`once` and `aonce`: the effect of a job in your SQL transaction, once, however often the job runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from sqlalchemy import MetaData, delete, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from tenure.core.encoding.codec import decode_json, encode_json
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.limits import SECOND
from tenure.outbox.sessions import AnyAsyncSession, AnySession, checked_async, connection_of
from tenure.outbox.tables import DONE_NAME, done_table, explained
from tenure.runtime.jobs.job import Job, current_job

CLEAN_ROWS: Final = 1_000
"""Rows that `clean` deletes in one transaction."""
_DONE: Final = done_table(MetaData())
RUNS_KEPT: Final = 10_000
_first_runs: Final[deque[tuple[object, ...]]] = deque(maxlen=RUNS_KEPT)
"""Runs that were first, and their databases: no second `once` of such a run can be, in any thread."""
_INSERTS: Final = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


class First:
    """Whether this run of the job is the first one to commit: true or false. `result`: what `save` has kept."""

    def __init__(self, is_first: bool, result: Any = None) -> None:
        self._is_first = is_first
        self._saved: bytes | None = None
        self.result = result

    def __bool__(self) -> bool:
        return self._is_first

    def __repr__(self) -> str:
        return f"<First {self._is_first}>"

    def save(self, value: Any) -> None:
        """Keep a result, as JSON, for a later run of the job. Raises `PayloadInvalid` for what JSON cannot hold.

        first.save({"charge": charge.id})
        """
        if not self._is_first:
            raise InvalidArgument("save belongs to the first run, and an earlier run has committed. Write `if first:`.")
        self._saved = encode_json(value)
        self.result = decode_json(self._saved)


@contextmanager
def once(session: AnySession) -> Iterator[First]:
    """Note in the transaction of a session that the running job has had its effect. False: it had it before.

        @app.task
        def pay(order: int) -> str:
            with Session.begin() as session, once(session) as first:
                if first:
                    session.add(Payment(order))
                    first.save("paid")
                return first.result

    The transaction is yours: commit it. While another run of the job has not committed, this waits for it, as long as
    the database lets it. Raises `InvalidArgument` outside a handler and `NotConfigured` (no such table).
    """
    job = _job()
    first = _begin(session, job)
    yield first
    _keep(session, job, first)


@asynccontextmanager
async def aonce(session: AnyAsyncSession) -> AsyncIterator[First]:
    """Note the effect of the running job in the transaction of an async session: see `once`.

    async with aonce(session) as first:
        if first:
            session.add(Payment(order))
    """
    job, run_sync = _job(), checked_async(session).run_sync
    first = await run_sync(_begin, job)
    yield first
    await run_sync(_keep, job, first)


def _job() -> Job:
    job = current_job()
    if job is None:
        raise InvalidArgument("once belongs in a handler of one job: no job runs in this thread.")
    return job


def _begin(session: AnySession, job: Job) -> First:
    connection = connection_of(session, "async with aonce(session)")
    dialect = connection.dialect.name
    if dialect not in _INSERTS:
        raise invalid("session", f"of {' or '.join(_INSERTS)}", f"of {dialect}")
    run = job.queue, job.id, job.token, connection.engine
    insert: Any = _INSERTS[dialect](_DONE)
    noted = insert.values(queue=job.queue, id=job.id, done_ms=int(time.time() * SECOND)).on_conflict_do_nothing()
    try:
        if connection.execute(noted.returning(_DONE.c.id)).first() is not None:
            _first_runs.append(run)
            return First(True)
        stored = connection.scalar(select(_DONE.c.result).where(*_is(job)))
    except DBAPIError as error:
        raise explained(error, DONE_NAME) from error
    if run in list(_first_runs):  # a copy: other threads append
        raise InvalidArgument(
            "once stands twice in this handler, and the second one would always be false. Write both effects in one "
            "transaction, or the second one in a job that follows."
        )
    return First(False, None if stored is None else decode_json(stored))


def _keep(session: AnySession, job: Job, first: First) -> None:
    if not first:
        return
    kept: Any = session.execute(update(_DONE).where(*_is(job)).values(result=first._saved))
    if kept.rowcount != 1:
        raise InvalidArgument(
            "The transaction was rolled back within the block of once, and with it the note that the effect is there. "
            "Leave the block with an error instead."
        )


def _is(job: Job) -> tuple[Any, Any]:
    return _DONE.c.queue == job.queue, _DONE.c.id == job.id


def clean(engine: Engine, age_s: float) -> int:
    """Forget effects that are older than this many seconds. Return how many.

    clean(engine, 30 * 86400)
    """
    before_ms = int((time.time() - age_s) * SECOND)
    keys = _DONE.c.queue, _DONE.c.id
    count = 0
    try:
        while True:
            with engine.begin() as connection:
                old = connection.execute(select(*keys).where(_DONE.c.done_ms < before_ms).limit(CLEAN_ROWS)).all()
                if old:
                    connection.execute(delete(_DONE).where(tuple_(*keys).in_([tuple(row) for row in old])))
            count += len(old)
            if len(old) < CLEAN_ROWS:
                return count
    except DBAPIError as error:
        raise explained(error, DONE_NAME) from error
