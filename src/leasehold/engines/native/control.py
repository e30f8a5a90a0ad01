"""The native engine for those who act on jobs from outside: retry, discard, cancel, purge."""

from __future__ import annotations

from typing import Final

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import ErrorInfo, State
from leasehold.core.shape import CancelAnswer, CancelCount, LaneFailure, QueueSettings
from leasehold.core.steps import Arg, Draw, Invoke, Nonce, Steps
from leasehold.engines.native.inspect import read_settings
from leasehold.engines.native.keys import encoded, namespace_prefix, queue_prefix
from leasehold.engines.native.records import as_bytes, as_text, write_error
from leasehold.engines.native.scripts import SCRIPTS

_WAITING: Final = ("again", "scheduled", "unroutable", "isolated", "ready")
"""Where jobs wait, as lua/sweep.lua calls it. Those that follow another come first: its end starts them."""

_CANCELS: Final = {b"0": CancelAnswer.NOTHING, b"1": CancelAnswer.CANCELLED, b"2": CancelAnswer.REQUESTED}


class NativeController:
    """Acting half of the native engine."""

    namespace: str
    _config: str

    def retry(self, queue: str, id: str, payload: bytes | None = None) -> Steps[bool]:
        args = (as_bytes(id), int(payload is not None), payload or b"")
        return (yield from self._act("retry", queue, *args)) == b"1"

    def discard(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._act("discard", queue, as_bytes(id))) == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        args = (self._config, as_bytes(id), _body(reason), self.signal_channel(""), as_bytes(queue))
        return _CANCELS[(yield from self._act("cancel", queue, *args))]

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        cancelled = requested = 0
        # Workers are asked first: what they hold does not come back then. A second look finds what was claimed, or
        # given back, in a place that was looked at already.
        for place in ("active", *_WAITING, "claimed", *_WAITING):
            after = b""
            for _ in range(limits.PURGE_ROUNDS):
                where: tuple[Arg, ...] = (place, encoded(lane or ""), after, limits.MAX_BATCH, _body(reason))
                signal: tuple[Arg, ...] = (self.signal_channel(""), as_bytes(queue))
                reply = yield from self._act("sweep", queue, self._config, *where, *signal)
                *numbers, after = reply.split(b" ", 3)
                looked, gone, asked = map(int, numbers)
                cancelled += gone
                requested += asked
                if looked == 0:
                    break
        return CancelCount(cancelled, requested)

    def signal_channel(self, worker: str) -> str:
        return f"{namespace_prefix(self.namespace)}:signal:{worker}"

    def purge(self, queue: str, state: State) -> Steps[int]:
        if state is State.ACTIVE:
            raise InvalidArgument("Active jobs belong to their workers: stop the workers, or cancel the jobs.")
        removed = 0
        for _ in range(limits.PURGE_ROUNDS):
            reply = yield from self._act("purge", queue, state.value, limits.MAX_BATCH)
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
        changes: list[Arg] = []
        if max_length is not None:
            if not 0 <= max_length <= limits.MAX_QUEUE_LENGTH:
                raise InvalidArgument(f"max_length is {max_length}; expected 0 to {limits.MAX_QUEUE_LENGTH:,}.")
            changes += ["max_length", str(max_length or "")]
        if lane_failure is not None:
            changes += ["lane_failure", "" if lane_failure is LaneFailure.SKIP else lane_failure.value]
        if paused is not None:
            changes += ["paused", "1" if paused else ""]
        reply = yield from self._act("configure", queue, *changes)
        return read_settings(dict(word.split("=", 1) for word in as_text(reply).split()))

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        return (yield from self._act("park", queue, encoded(lane), 1)) == b"1"

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        return (yield from self._act("park", queue, encoded(lane), 0)) == b"1"

    def quiet(self, worker: str, quiet: bool = True) -> Steps[bool]:
        nonce: Nonce = yield Draw()
        args: tuple[Arg, ...] = (nonce.session, nonce.number, worker, int(quiet), limits.QUIET_TTL_MS)
        keys = (namespace_prefix(self.namespace),)
        reply: bytes = yield Invoke(SCRIPTS["quiet"], keys, (*args, self.signal_channel(worker)))
        return reply == b"1"

    def _act(self, script: str, queue: str, *args: Arg) -> Steps[bytes]:
        nonce: Nonce = yield Draw()
        invoke = Invoke(SCRIPTS[script], (queue_prefix(self.namespace, queue),), (nonce.session, nonce.number, *args))
        reply: bytes = yield invoke
        return reply


def _body(reason: str) -> bytes:
    """What the end of a cancelled job says."""
    return write_error(ErrorInfo("Cancelled", reason))
