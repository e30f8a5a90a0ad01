"""The engine for those who act on jobs from outside: retry, discard, cancel, purge, park."""

from __future__ import annotations

from msgspec import structs

from tenure.core.engine import Feature
from tenure.core.job import State
from tenure.core.shape import CancelAnswer, CancelCount, LaneFailure, QueueSettings, Shape
from tenure.core.steps import Steps
from tenure.core.unsupported import unsupported
from tenure.engines.kit.base import Scripted, check_purge
from tenure.engines.kit.config import PURGE_MOST
from tenure.engines.kit.encoding import as_bytes, cancelled
from tenure.engines.queue_farm.keys import DEFAULT_QUEUE, check_lane
from tenure.engines.queue_farm.records import read_record, write_data
from tenure.engines.queue_farm.wire import NAME, naming_key


class QueueFarmController(Scripted):
    """Acting half of the engine."""

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        data = b""
        if payload is not None:
            row = yield from self._ask("show", queue, as_bytes(id))
            if not row:
                return False
            record = read_record(queue, row, apply_timeouts=False)  # the data has no timeout
            data = write_data(structs.replace(record, payload=payload, malformed=""))
        args = (self._config, as_bytes(id), int(payload is not None), data)
        return (yield from naming_key(self._act("retry", queue, *args))) == b"1"

    def discard(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._act("discard", queue, self._config, as_bytes(id))) == b"1"

    def delete(self, lane: str, id: str, queue: str = DEFAULT_QUEUE) -> Steps[bool]:
        """Delete a job that waits in a lane, as an original client does. False: it does not wait there.

        A job that runs is left alone, with its data.
        """
        args = (self._config, as_bytes(id), as_bytes(check_lane(lane)))
        return (yield from self._act("delete", queue, *args)) == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        answer = yield from self._act("cancel", queue, self._config, as_bytes(id), cancelled(reason))
        if answer == b"2":
            raise unsupported(NAME, Feature.CANCEL)
        return CancelAnswer.CANCELLED if answer == b"1" else CancelAnswer.NOTHING

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        """All that wait. Those that run are left alone: they cannot be asked."""
        ended = yield from self._remove_all(queue, State.READY, 1, cancelled(reason), lane or "")
        return CancelCount(ended, 0)

    def purge(self, queue: str, state: State) -> Steps[int]:
        check_purge(state)
        if state in (State.COMPLETED, State.SCHEDULED, State.UNROUTABLE):
            return 0
        return (yield from self._remove_all(queue, state, 0, b"", ""))

    def _remove_all(self, queue: str, state: State, cancel: int, body: bytes, lane: str) -> Steps[int]:
        args = (self._config, state.value, PURGE_MOST, cancel, body, as_bytes(lane))
        return (yield from self._in_rounds("purge", queue, *args))

    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | None = None,
        paused: bool | None = None,
    ) -> Steps[QueueSettings]:
        """Pausing holds for Tenure workers: original ones do not know of it."""
        for feature, value in ((Feature.MAX_LENGTH, max_length), (Feature.LANE_POLICIES, lane_failure)):
            if value is not None:
                raise unsupported(NAME, feature)
        word = "" if paused is None else str(int(paused))
        return QueueSettings(paused=(yield from self._act("configure", queue, word)) == b"1")

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        return (yield from self._act("park", queue, self._config, as_bytes(lane), 1)) == b"1"

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        return (yield from self._act("park", queue, self._config, as_bytes(lane), 0)) == b"1"
