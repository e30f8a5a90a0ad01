"""`Relay`: brings committed rows of an outbox to Redis, each as exactly one job.

1. A transaction numbers up to 500 rows under a source. It begins only if no rows of the source are left in their
   queues.
2. The jobs go to their queues in the order of their numbers. A queue notes the last number of each source in the step
   that adds the jobs, and ignores lower ones, however late they come (decision 0037).
3. Another transaction deletes the rows.

A relay may end, or stop for any time, between any two steps. Any other relay repeats the steps with the same numbers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from sqlalchemy import Select, delete, exists, func, insert, or_, select, update
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, InternalError, OperationalError

from tenure.core.backoff import Backoff
from tenure.core.errors import InvalidArgument, TenureError, is_away
from tenure.core.job import NewJob
from tenure.core.limits import SECOND
from tenure.core.steps import Command, Steps
from tenure.outbox.outbox import Outbox, read_job
from tenure.outbox.tables import explained, lock_for_writes
from tenure.outbox.waits import Wait, wait_for
from tenure.runtime.log import log_event

BATCH_ROWS: Final = 500
BATCH_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of the jobs of a batch, unless one job alone has more."""
SOURCES_MAX: Final = 64
"""How many batches may be on their way at a time."""
BUSY_MS: Final = 10 * SECOND
"""How long other relays leave a batch to the relay that has numbered it. Both may send it: it is only more work."""
IDLE: Final = Backoff(base=0.2, factor=1.5, cap=2.0, jitter=False)
"""How long to wait before the next look at a table without rows."""
AWAY: Final = Backoff(base=0.2, cap=10.0)
"""The same when Redis or the database is away, or a queue refuses jobs."""
HELD_MAX: Final = 1_000
"""Refusing queues that a relay remembers. With more, it forgets all."""
_LOST: Final = (OperationalError, InterfaceError, InternalError)
"""Errors of SQLAlchemy that may go away: no connection, a lock that was not released in time, a server that only reads
while another one takes over."""


@dataclass(frozen=True, slots=True)
class NumberedRow:
    row: int
    queue: str
    number: int
    job: NewJob | None
    """None: this release cannot read it."""


@dataclass(frozen=True, slots=True)
class Batch:
    slot: int
    source: str
    rows: Sequence[NumberedRow]


class Relay:
    """Enqueues the rows of an outbox. Any number of relays may work on a table.

        Relay(outbox, engine).run(stop)

    `now`: the time in seconds, for tests.
    """

    def __init__(self, outbox: Outbox, engine: Engine, now: Callable[[], float] = time.time) -> None:
        self._outbox = outbox
        self._engine = engine
        self._now = now
        self._rows, self._sources = outbox.rows, outbox.sources
        self._client = outbox._client
        self._held: dict[str, tuple[int, float]] = {}
        """Queues that refused jobs: how often in a row, and until when their rows stay."""

    def run(self, stop: threading.Event) -> int:
        """Relay rows until `stop` is set. Return how many. Raises `NotConfigured` when a table is missing."""
        count = idle = failures = 0
        log_event("relay_started", table=self._outbox.table)
        with wait_for(self._engine, self._outbox.table) as wait:
            while not stop.is_set():
                try:
                    moved = self.step()
                except (*_LOST, TenureError) as error:
                    failures += 1
                    self._lost(error, failures, stop)
                    continue
                if failures:
                    log_event("relay_restored", table=self._outbox.table)
                failures, idle = 0, 0 if moved else idle + 1
                count += moved or 0
                if moved is None:
                    self._idle(wait, idle, stop)
        log_event("relay_stopped", table=self._outbox.table, jobs=count)
        return count

    def _lost(self, error: Exception, failures: int, stop: threading.Event) -> None:
        """Wait after an error that may go away; raise any other."""
        if isinstance(error, TenureError) and not is_away(error):
            raise error
        if failures == 1:
            # The text of a database error may have parameters: arguments of jobs.
            why = str(error) if isinstance(error, TenureError) else type(error).__name__
            log_event("relay_lost", table=self._outbox.table, error=why)
        stop.wait(AWAY.delay_ms(failures, lambda: 1.0) / SECOND)

    @staticmethod
    def _idle(wait: Wait, idle: int, stop: threading.Event) -> None:
        wait(IDLE.delay_ms(idle, lambda: 1.0) / SECOND, stop)

    def step(self) -> int | None:
        """Relay one batch. Return how many jobs were enqueued; None: there is nothing to do now."""
        try:
            batch = self._begin()
            if batch is None:
                return None
            try:
                refused = self._deliver(batch)
            except TenureError:
                self._end(batch, (), {})
                raise
            done = [one.row for one in batch.rows if one.queue not in refused]
            self._end(batch, done, refused)
        except DBAPIError as error:
            raise explained(error, self._outbox.table) from error
        return len(done)

    # ------------------------------------------------------------------------------------------------------- numbering

    def _begin(self) -> Batch | None:
        """Number new rows, or take over rows that were numbered before. None: there are neither."""
        held = [queue for queue, (_, until) in self._held.items() if self._now() < until]
        with self._engine.connect() as connection:
            if not self._has_work(connection, held):
                return None
        # One clock for all relays: a source that another machine continues never counts back.
        micros = self._client.run(_redis_micros())
        try:
            with self._engine.begin() as connection:
                lock_for_writes(connection, self._sources)
                return self._take(connection, held, micros)
        except IntegrityError:
            return None  # another relay has made the same source

    def _has_work(self, connection: Connection, held: Collection[str]) -> bool:
        is_left = exists(self._left(held).where(self._is_free())).select()
        is_new = exists(self._new_rows(None)).select()
        return bool(connection.scalar(is_left) or connection.scalar(is_new))

    def _is_free(self) -> Any:
        return self._sources.c.busy_ms <= int(self._now() * SECOND)

    def _is_own(self) -> Any:
        """Rows of another namespace are for the relays of that one."""
        return self._rows.c.namespace == self._outbox.namespace

    def _left(self, held: Collection[str]) -> Select[Any]:
        """The sources with rows that were numbered, and can be delivered."""
        rows, sources = self._rows.c, self._sources.c
        joined = self._sources.join(self._rows, sources.slot == rows.slot)
        return select(sources.slot).select_from(joined).where(rows.queue.not_in(held), self._is_own())

    def _new_rows(self, slot: int | None) -> Select[Any]:
        """Rows without a number. A source gives a queue new numbers only when no rows of the queue are left under it,
        and no relay numbers jobs of a queue that refuses others."""
        rows, others = self._rows.c, self._rows.alias().c
        is_left = others.slot.is_not(None) & others.error.is_not(None)
        waits_for = select(others.queue).where(is_left if slot is None else or_(is_left, others.slot == slot))
        waits_for = waits_for.where(others.namespace == self._outbox.namespace)
        is_new = rows.slot.is_(None) & rows.error.is_(None)
        return select(rows.row).where(is_new, rows.queue.not_in(waits_for), self._is_own())

    def _take(self, connection: Connection, held: Collection[str], micros: int) -> Batch | None:
        taken = self._take_source(connection, held)
        if taken is None:
            return None
        slot, source, last = taken
        found = self._numbered(connection, slot, held)
        if not found:
            found, last = self._number(connection, slot, max(last + 1, micros))
        if not found:
            return None
        busy_ms = int(self._now() * SECOND) + BUSY_MS
        connection.execute(
            update(self._sources).where(self._sources.c.slot == slot).values(number=last, busy_ms=busy_ms)
        )
        return Batch(slot, source, found)

    def _take_source(self, connection: Connection, held: Collection[str]) -> tuple[int, str, int] | None:
        """Lock a source that no relay uses: one with rows that are left, or else any, or else a new one. None: there
        are as many as may be."""
        sources = self._sources.c
        free = select(sources.slot, sources.source, sources.number).where(self._is_free()).order_by(sources.slot)
        free = free.limit(1).with_for_update(skip_locked=True)
        for query in (free.where(sources.slot.in_(self._left(held))), free):
            if (row := connection.execute(query).first()) is not None:
                return row.slot, row.source, row.number
        slot = connection.scalar(select(func.count()).select_from(self._sources)) or 0
        if slot >= SOURCES_MAX:
            return None
        source = token_hex(8)
        connection.execute(insert(self._sources).values(slot=slot, source=source, number=0, busy_ms=0))
        return slot, source, 0

    def _numbered(self, connection: Connection, slot: int, held: Collection[str]) -> list[NumberedRow]:
        """The rows that are left under a source, in the order of their numbers."""
        rows = self._rows.c
        query = select(rows.row, rows.queue, rows.number, rows.namespace, rows.job)
        query = (
            query.where(rows.slot == slot, rows.queue.not_in(held), self._is_own())
            .order_by(rows.number)
            .limit(BATCH_ROWS)
        )
        return [
            NumberedRow(one.row, one.queue, one.number, self._read(one.namespace, one.queue, one.job)[0])
            for one in connection.execute(query)
        ]

    def _number(self, connection: Connection, slot: int, first: int) -> tuple[list[NumberedRow], int]:
        """Number new rows, in their order. Return them, and the last number."""
        rows = self._rows.c
        query = self._new_rows(slot).order_by(rows.row).limit(BATCH_ROWS).with_for_update(skip_locked=True)
        sizes = connection.execute(query.add_columns(func.length(rows.job))).all()
        chosen: list[int] = []
        size = 0
        for one in sizes:
            size += one[1]
            if chosen and size > BATCH_BYTES:
                break
            chosen.append(one.row)
        if not chosen:
            return [], first - 1
        start = first - chosen[0]
        taken: list[NumberedRow] = []
        columns = select(rows.row, rows.queue, rows.namespace, rows.job)
        for one in connection.execute(columns.where(rows.row.in_(chosen)).order_by(rows.row)).all():
            job, error = self._read(one.namespace, one.queue, one.job)
            if job is None:
                self._note(connection, rows.row == one.row, error)
            else:
                taken.append(NumberedRow(one.row, one.queue, start + one.row, job))
        if taken:
            numbered = update(self._rows).where(rows.row.in_([one.row for one in taken]))
            connection.execute(numbered.values(slot=slot, number=rows.row + start))
        return taken, start + chosen[-1]

    def _read(self, namespace: str, queue: str, data: bytes) -> tuple[NewJob | None, str]:
        try:
            return read_job(self._outbox.namespace, namespace, queue, data), ""
        except InvalidArgument as error:
            return None, str(error)

    def _note(self, connection: Connection, are_these: Any, error: str) -> None:
        connection.execute(update(self._rows).where(are_these).values(error=error))

    # ---------------------------------------------------------------------------------------------------- to the queues

    def _deliver(self, batch: Batch) -> dict[str, str]:
        """Enqueue the jobs. Return the queues that refuse theirs, and why. Raises an error when Redis is away."""
        refused: dict[str, str] = {}
        queues: dict[str, list[NumberedRow]] = {}
        for one in batch.rows:
            queues.setdefault(one.queue, []).append(one)
        for queue, rows in queues.items():
            jobs = [(one.number, one.job) for one in rows if one.job is not None]
            if len(jobs) < len(rows):
                # Another release has numbered the row. To leave it out would be to lose it: the queue would ignore its
                # number from then on.
                refused[queue] = f"Row {next(one.row for one in rows if one.job is None)} needs a newer release."
                continue
            try:
                self._client.run(self._client.durably(self._outbox.flows.deliver(batch.source, queue, jobs)))
            except TenureError as error:
                if is_away(error):
                    raise
                refused[queue] = str(error)
        return refused

    def _end(self, batch: Batch, done: Sequence[int], refused: dict[str, str]) -> None:
        """Delete rows that are jobs now, note why others are not, and leave the source to any relay.

        Another relay may have done all that. Then SQLite may use the number of a row for a new one, which has another
        source, a higher number in it, or neither.
        """
        rows = self._rows.c
        is_of_batch = (rows.slot == batch.slot) & (rows.number <= batch.rows[-1].number)
        with self._engine.begin() as connection:
            lock_for_writes(connection, self._sources)
            if done:
                connection.execute(delete(self._rows).where(rows.row.in_(done), is_of_batch))
            for queue, error in refused.items():
                theirs = rows.row.in_([one.row for one in batch.rows if one.queue == queue])
                self._note(connection, theirs & is_of_batch, error)
            connection.execute(update(self._sources).where(self._sources.c.slot == batch.slot).values(busy_ms=0))
        for queue in {one.queue for one in batch.rows} - refused.keys():
            self._held.pop(queue, None)
        for queue, error in refused.items():
            self._hold(queue, error)

    def _hold(self, queue: str, error: str) -> None:
        """Leave the rows of a queue that refuses jobs for a while."""
        if len(self._held) >= HELD_MAX:
            self._held.clear()
        failures = self._held.get(queue, (0, 0.0))[0] + 1
        if failures == 1:
            log_event("relay_refused", queue=queue, error=error)
        self._held[queue] = failures, self._now() + AWAY.delay_ms(failures, lambda: 1.0) / SECOND


def _redis_micros() -> Steps[int]:
    seconds, micros = yield Command(("TIME",))
    return int(seconds) * 1_000_000 + int(micros)
