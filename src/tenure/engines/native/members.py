"""Members of a group that it has noted no end of: which they are, and what their queues know of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from tenure.core import flows, limits
from tenure.core.flows import NewFlow
from tenure.core.job import JobView, NewJob, State
from tenure.core.shape import CancelAnswer
from tenure.core.steps import Command, Steps
from tenure.engines.kit.encoding import as_text, number_of
from tenure.engines.native.control import NativeController
from tenure.engines.native.keys import decoded, encoded

NOWHERE: Final = "*"
"""The queue of a member that never came to be."""
GONE: Final = f"{State.CANCELLED.value} {NOWHERE}\n".encode()
"""The word of a member of which nothing is left."""


class WholeQueues(Protocol):
    """The engine that sees a queue as a whole, however many partitions it has."""

    def follow(self, queue: str, id: str, job: NewJob | NewFlow) -> Steps[State | None]: ...

    def cancel_each(self, queue: str, ids: Sequence[str], reason: str) -> Steps[list[CancelAnswer]]: ...

    def job(self, queue: str, id: str) -> Steps[JobView | None]: ...

    def places(self, queue: str) -> Steps[Sequence[str]]: ...


class Members:
    """Looks for the members of groups that are in the places of an engine."""

    def __init__(self, engine: NativeController, whole: WholeQueues) -> None:
        self._engine = engine
        self._whole = whole

    def key(self, queue: str, id: str, part: str = "") -> str:
        return f"{self._engine.prefix(queue)}:flow:{id}{part and ':'}{part}"

    def without_end(self, queue: str, id: str, total: int) -> Steps[Iterator[int]]:
        bits: bytes | None = yield Command(("GET", self.key(queue, id, "ended")))
        return _unset(bits or b"", total)

    def queues(self, queue: str, id: str) -> Steps[list[str]]:
        names = yield Command(("SMEMBERS", self.key(queue, id, "queues")))
        return [decoded(as_text(name)) for name in names]

    def there(self, queue: str, ids: list[str], reason: str | None) -> Steps[list[str]]:
        """Which of these jobs are in a queue. With a reason, which wait or run: these are cancelled."""
        if reason is not None:
            answers = yield from self._whole.cancel_each(queue, ids, reason)
            return [id for id, answer in zip(ids, answers, strict=True) if answer]
        found = []
        for id in ids:
            if (yield from self._whole.job(queue, id)) is not None:
                found.append(id)
        return found

    def end_of(self, queues: Sequence[str], id: str) -> Steps[tuple[int, bytes] | None]:
        """When a job ended, and the word of it that its group should have. None: it has not ended."""
        for queue in queues:
            job = yield from self._whole.job(queue, id)
            if job is not None and job.state.ended:
                return job.ended_ms or 0, f"{job.state.value} {encoded(queue)}\n".encode() + (job.result or b"")
            if job is not None:
                return None
        return 0, GONE

    def may_come(self, queue: str, id: str) -> Steps[bool]:
        """Whether a living producer may be about to enqueue members that have their numbers."""
        seconds, micros = yield Command(("TIME",))
        now_ms = int(seconds) * limits.SECOND + int(micros) // 1_000
        grown_ms = number_of((yield Command(("HGET", self.key(queue, id), "grown"))) or b"") or 0
        return now_ms - grown_ms <= flows.PRODUCER_MS


def _unset(bits: bytes, total: int) -> Iterator[int]:
    """The numbers below `total` that have no bit."""
    for number in range(total):
        byte = number // 8
        if byte >= len(bits) or not bits[byte] & (0x80 >> number % 8):
            yield number
