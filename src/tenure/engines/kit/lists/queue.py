"""What inspectors and controllers of formats with one list of waiting jobs share: look up, cancel, purge."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final

from tenure.core import limits
from tenure.core.job import JobRecord, JobView, State
from tenure.core.shape import PLAIN
from tenure.core.steps import Arg, Steps
from tenure.engines.kit.base import check_purge
from tenure.engines.kit.config import EngineConfig
from tenure.engines.kit.encoding import as_text, message_of, number_of, read_error
from tenure.engines.kit.inspect import LanelessInspector
from tenure.engines.kit.suspects import why_it_waits

FIND_PAGE: Final = 500
"""Jobs of the list that one call looks at to find one by its id."""
FIND_MOST: Final = 100_000
"""Jobs that are looked at in all. One further behind counts as unknown until it comes nearer."""


class ListQueue(LanelessInspector):
    """Reads rows of the engine's lua/lib/view.lua, and calls the scripts of this package."""

    config: EngineConfig

    @staticmethod
    @abstractmethod
    def _read(queue: str, id: bytes, data: bytes) -> JobRecord:
        """The job of these bytes."""

    @abstractmethod
    def _row(self, queue: str, id: str) -> Steps[list[Any] | None]:
        """A row of a job, wherever it is."""

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        row = yield from self._row(queue, id)
        return self._view(queue, row) if row else None

    def _find(self, queue: str, name: bytes) -> Steps[list[Any] | None]:
        """A row of a job that waits."""
        start = 0
        while 0 <= start < FIND_MOST:
            found = yield from self._ask("find", queue, name, start, FIND_PAGE)
            if isinstance(found, list):
                return found
            start = found
        return None

    def _data(self, queue: str, id: str) -> Steps[bytes]:
        """The bytes of a job; empty for none."""
        row = yield from self._row(queue, id)
        return row[2] if row else b""

    def _view(self, queue: str, row: list[Any]) -> JobView:
        id, state, data, failures, crashes, doubtful, error, due, worker, token, started, ended, expires, *cancel = row
        record = self._read(queue, id, data)
        is_ready = state == State.READY.value.encode()
        return JobView(
            record.id,
            queue,
            State(state.decode()),
            task=record.task,
            payload=record.payload,
            headers=record.headers,
            timeout_ms=record.timeout_ms,
            failures=failures,
            crashes=crashes,
            due_ms=int(float(due)) if due else None,
            worker=as_text(worker) or None,
            token=number_of(token),
            started_ms=number_of(started),
            ended_ms=number_of(ended),
            expires_ms=number_of(expires),
            error=read_error(error) if error else None,
            shape=record.shape if record.shape.persistent else PLAIN,
            cancelling=message_of(cancel[0]) if any(cancel) else None,
            waits=why_it_waits(doubtful, self.config.alone_from) if is_ready else None,
        )

    def _page_args(self) -> tuple[Arg, ...]:
        return (self._config,)

    def purge(self, queue: str, state: State) -> Steps[int]:
        check_purge(state)
        if state is State.COMPLETED:
            return 0
        if state is State.READY:
            return (yield from self._take_out(queue, b""))
        purged = yield from self._in_rounds("purge", queue, self._config, state.value, b"")
        yield from self._unmark(queue)
        return purged

    def _cancel_waiting(self, queue: str, body: bytes) -> Steps[int]:
        """Cancel all jobs that wait or are kept for later."""
        ended = 0
        for state in (State.SCHEDULED, State.UNROUTABLE):
            ended += yield from self._in_rounds("purge", queue, self._config, state.value, body)
        return ended + (yield from self._take_out(queue, body))

    def _take_out(self, queue: str, body: bytes) -> Steps[int]:
        """Remove or cancel all jobs in the list."""
        taken = yield from self._in_rounds("take_out", queue, self._config, limits.MAX_BATCH, body)
        yield from self._unmark(queue)
        return taken

    def _unmark(self, queue: str) -> Steps[None]:
        """Remove the marks of jobs that scripts removed, where the format has marks."""
        yield from ()
