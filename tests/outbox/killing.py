"""A relay that is stopped at each of its steps, and jobs that are counted when they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Engine, event

from tenure import Tenure, TenureError
from tenure.core.outcome import Completed
from tenure.core.steps import Steps, T
from tenure.outbox import Outbox, Relay

QUEUES = ("orders", "mails", "parted")


class Killed(BaseException):
    """The process ends here."""


class Points:
    """Calls `act` at each point where a relay may end: around calls to Redis, SQL statements and commits.

    `only_redis`: only where no transaction is open.
    """

    def __init__(self, app: Tenure, engine: Engine, act: Callable[[int], None], only_redis: bool = False) -> None:
        self._app, self._engine, self._act = app, engine, act
        self._only_redis = only_redis
        self.count = 0
        self._connections: list[Any] = []

    def _pass(self, *_: object) -> None:
        self.count += 1
        try:
            self._act(self.count)
        except Killed:
            # As the end of a process does. A cursor in the traceback would keep the transaction open.
            for connection in self._connections:
                with suppress(Exception):  # it may be closed
                    connection.rollback()
            raise

    def _note_connection(self, connection: Any, *_: object) -> None:
        self._connections.append(connection)

    @contextmanager
    def watched(self) -> Iterator[None]:
        client: Any = self._app._client
        dialect: Any = self._engine.dialect
        run, commit = client.run, dialect.do_commit
        names = () if self._only_redis else ("before_cursor_execute", "after_cursor_execute")

        def commit_between(connection: Any) -> None:
            self._pass()
            commit(connection)
            self._pass()

        for name in names:
            event.listen(self._engine, name, self._pass)
        event.listen(self._engine, "checkout", self._note_connection)
        if not self._only_redis:
            dialect.do_commit = commit_between
        client.run = lambda steps: run(self._steps(steps))
        try:
            yield
        finally:
            event.remove(self._engine, "checkout", self._note_connection)
            client.run = run
            dialect.do_commit = commit
            for name in names:
                event.remove(self._engine, name, self._pass)

    def _steps(self, steps: Steps[T]) -> Steps[T]:
        try:
            call = next(steps)
            while True:
                self._pass()
                try:
                    reply = yield call
                except TenureError as error:
                    call = steps.throw(error)
                else:
                    self._pass()
                    call = steps.send(reply)
        except StopIteration as stop:
            value: T = stop.value
            return value


def finish(outbox: Outbox, engine: Engine, now: Callable[[], float]) -> None:
    """Another relay does all that is left."""
    relay = Relay(outbox, engine, now)
    while relay.step() is not None:
        pass


def run_jobs(app: Tenure) -> list[str]:
    """Run all jobs that wait, as a worker does. Return their ids. Nothing is left of them in Redis."""
    ran: list[str] = []
    app._client.run(app.engine.maintain(QUEUES, ["pay"]))  # jobs that a relay has left on their way to a partition
    while True:
        leased = app._client.run(app.engine.lease("w", QUEUES, 100))
        if not leased.leases:
            return ran
        app._client.run(app.engine.settle([(lease, Completed()) for lease in leased.leases]))
        ran += [lease.record.id for lease in leased.leases]
