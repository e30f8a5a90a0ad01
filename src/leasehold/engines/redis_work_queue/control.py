"""The engine for those who act on jobs from outside: retry, discard, cancel, purge."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import ErrorInfo, JobRecord, State
from leasehold.core.shape import CancelAnswer, CancelCount, LaneFailure, QueueSettings
from leasehold.core.steps import Arg, Draw, Invoke, Nonce, Steps
from leasehold.engines.redis_work_queue.records import as_bytes, read_record, write_data, write_error
from leasehold.engines.redis_work_queue.scripts import SCRIPTS
from leasehold.engines.redis_work_queue.wire import unsupported

_WAITING: Final = (State.SCHEDULED, State.UNROUTABLE, State.READY)


class RedisWorkQueueController:
    """Acting half of the engine."""

    _config: str

    def prefix(self, queue: str) -> str:
        raise NotImplementedError

    def retry(self, queue: str, id: str, payload: bytes | None = None) -> Steps[bool]:
        data = b""
        if payload is not None:
            reply = yield Invoke(SCRIPTS["show"], (self.prefix(queue),), (as_bytes(id),))
            if not reply:
                return False
            data = _edited(read_record(queue, as_bytes(id), reply[1]), payload)
        return (yield from self._act("retry", queue, as_bytes(id), int(payload is not None), data)) == b"1"

    def discard(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._act("discard", queue, as_bytes(id))) == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        answer = yield from self._act("cancel", queue, self._config, as_bytes(id), _body(reason))
        if answer == b"2":
            raise unsupported("the wish to cancel a job that runs")
        return CancelAnswer.CANCELLED if answer == b"1" else CancelAnswer.NOTHING

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        """All that wait. Those that run are left alone: they cannot be asked."""
        if lane is not None:
            raise unsupported("lanes")
        cancelled = 0
        for state in _WAITING:
            cancelled += yield from self._remove_all(queue, state, True, reason)
        return CancelCount(cancelled, 0)

    def purge(self, queue: str, state: State) -> Steps[int]:
        if state is State.ACTIVE:
            raise InvalidArgument("Active jobs belong to their workers: stop the workers, or cancel the jobs.")
        if state is State.COMPLETED:
            return 0
        return (yield from self._remove_all(queue, state, False, ""))

    def _remove_all(self, queue: str, state: State, cancel: bool, reason: str) -> Steps[int]:
        removed = 0
        for _ in range(limits.PURGE_ROUNDS):
            how: tuple[Arg, ...] = (state.value, limits.MAX_BATCH, int(cancel), _body(reason))
            reply = yield from self._act("purge", queue, self._config, *how)
            looked, gone = map(int, reply.split(b" "))
            removed += gone
            if looked == 0:
                break
        return removed

    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | None = None,
        paused: bool | None = None,
    ) -> Steps[QueueSettings]:
        asked = (("a maximum length", max_length), ("lanes", lane_failure), ("paused queues", paused))
        for name, value in asked:
            if value is not None:
                raise unsupported(name)
        return _settings()

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        raise unsupported("lanes")

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        raise unsupported("lanes")

    def quiet(self, worker: str, quiet: bool = True) -> Steps[bool]:
        raise unsupported("quiet workers")

    def _act(self, script: str, queue: str, *args: Arg) -> Steps[bytes]:
        nonce: Nonce = yield Draw()
        reply: bytes = yield Invoke(SCRIPTS[script], (self.prefix(queue),), (nonce.session, nonce.number, *args))
        return reply


def _settings() -> Steps[QueueSettings]:
    """Nothing can be set."""
    yield Draw()
    return QueueSettings()


def _edited(record: JobRecord, payload: bytes) -> bytes:
    """The data of the same job with another payload."""
    return write_data(replace(record, payload=payload, malformed=""))


def _body(reason: str) -> bytes:
    """What the end of a cancelled job says."""
    return write_error(ErrorInfo("Cancelled", reason))
