"""The base of engines whose transitions are scripts: where their keys are, how their scripts are called, and the
operations that are alike in all of them."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, NewerLayout, ReplyError
from tenure.core.job import WAITING, JobView, Page, QueueView, State
from tenure.core.limits import PAGE_MAX, PURGE_ROUNDS
from tenure.core.ports import (
    DelayPort,
    FlowPort,
    HistoryPort,
    LanePort,
    PartitionPort,
    PresencePort,
    RequestPort,
    ResultPort,
    SettingsPort,
)
from tenure.core.rates import LimitPort
from tenure.core.schedules.schedule import SchedulePort
from tenure.core.shape import QueueSettings
from tenure.core.steps import Arg, Command, Draw, Invoke, Nonce, Reply, Script, Steps
from tenure.core.values import replace
from tenure.core.why import JobFacts
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.config import PRESENCE_TTL_MS
from tenure.engines.kit.encoding import as_bytes, as_text, fields_of, number_of

T = TypeVar("T")

NEWER_LAYOUT: Final = "TNLAYOUT"
"""The first word of the error of lua/lib/layout.lua: a newer release has written to a queue."""
_TOTALS: Final = frozenset(
    {"completed", "failed", "broken", "cancelled", "crashed", "retried", "rounds"}
    | {f"trimmed_{state}" for state in ("completed", "failed", "broken", "cancelled")}
)
"""The fields of the hash `meta` that count events."""
_decode_worker = msgspec.json.Decoder(WorkerView).decode


class Scripted(metaclass=ABCMeta):
    """The base of the engine, the inspector and the controller of one wire format.

    An engine has the ports (`core.ports`) that it sets: none as a rule.
    """

    scripts: ClassVar[Mapping[str, Script]]
    layout: ClassVar[int]
    """The newest layout version that this release reads, which is the one it writes."""
    results: ResultPort | None = None
    schedules: SchedulePort | None = None
    limits: LimitPort | None = None
    lanes: LanePort | None = None
    delays: DelayPort | None = None
    settings: SettingsPort | None = None
    partitions: PartitionPort | None = None
    history: HistoryPort | None = None
    flows: FlowPort | None = None
    presence: PresencePort | None = None
    requests: RequestPort | None = None
    _config: str
    """The engine's numbers, as its scripts take them."""

    @abstractmethod
    def prefix(self, queue: str) -> str:
        """The beginning of all keys of a queue."""

    @property
    @abstractmethod
    def features(self) -> frozenset[Feature]: ...

    @abstractmethod
    def job(self, queue: str, id: str) -> Steps[JobView | None]: ...

    @abstractmethod
    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = PAGE_MAX,
        lane: str | None = None,
        after: str | None = None,
        heads: bool = False,
    ) -> Steps[Page]: ...

    @abstractmethod
    def shared(self) -> str:
        """The beginning of the few keys that belong to no queue: which queues and workers there are."""

    def signal_channel(self, worker: str) -> str:
        return f"{self.shared()}:signal:{worker}"

    def layout_of(self, queue: str) -> Steps[int]:
        """The highest layout version that any release has written to a queue."""
        stored = yield Command(("HGET", f"{self.prefix(queue)}:meta", "layout"))
        return int(stored) if stored and stored.isdigit() else 1

    def queues(self) -> Steps[list[str]]:
        reply = yield Command(("ZRANGE", f"{self.shared()}:queues", 0, -1))
        # No queue has a name with a slash: another program has added it.
        return sorted(name for name in map(as_text, reply) if "/" not in name)

    def queue(self, name: str) -> Steps[QueueView]:
        return self._counted(name, (yield from self._ask("counts", name)))

    def settings_of(self, queue: str) -> Steps[QueueSettings]:
        return (yield from self.queue(queue)).settings

    def facts(self, queue: str, id: str) -> Steps[JobFacts | None]:
        view = yield from self.job(queue, id)
        if view is None:
            return None
        can_pause = Feature.PAUSE in self.features and view.state in WAITING
        return JobFacts(view=view, is_paused=can_pause and (yield from self.settings_of(queue)).paused)

    def sample(self, queue: str, cursor: str, limit: int) -> Steps[tuple[list[str], str]]:
        """Ready jobs only, in their order."""
        after = None if cursor == "0" else cursor
        page = yield from self.page(queue, State.READY, limit=min(limit, PAGE_MAX), after=after, heads=True)
        return [view.id for view in page.jobs], page.next or "0"

    def announced(self) -> Steps[list[WorkerView]]:
        """The workers that announced themselves lately. The jobs that they hold are not counted."""
        rows = yield Invoke(self.scripts["workers"], (self.shared(),), (PRESENCE_TTL_MS,))
        return [replace(view, seen_ms=int(float(at))) for _, at, text in rows if (view := _read_worker(text))]

    def discard(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._act("discard", queue, as_bytes(id))) == b"1"

    def _call(self, script: str, queue: str, args: tuple[Arg, ...]) -> Invoke:
        """A call about one queue. Its keys are in one hash slot."""
        return Invoke(self.scripts[script], self._keys(queue), args)

    def _keys(self, queue: str) -> tuple[str, ...]:
        """The keys of a call about one queue. The scripts make all other keys of the prefix, `KEYS[1]`."""
        return (self.prefix(queue),)

    def _ask(self, script: str, queue: str, *args: Arg) -> Steps[Reply]:
        """A call that is harmless by nature when it is sent again."""
        return (yield self._call(script, queue, args))

    def _act(self, script: str, queue: str, *args: Arg) -> Steps[bytes]:
        """A call under a nonce: sent again, it gets the answer of the first time."""
        nonce: Nonce = yield Draw()
        reply: bytes = yield self._call(script, queue, (nonce.session, nonce.number, *args))
        return reply

    def _in_rounds(self, script: str, queue: str, *args: Arg) -> Steps[int]:
        """Call a script until it answers 0. Behind that the answer has the number of jobs that were removed."""
        removed = 0
        for _ in range(PURGE_ROUNDS):
            more, gone, *_ = (yield from self._act(script, queue, *args)).split(b" ")
            removed += int(gone)
            if more == b"0":
                break
        return removed

    def _counted(self, name: str, reply: list[Any]) -> QueueView:
        *numbers, meta = reply
        fields = fields_of(meta)
        counts = dict(zip(State, numbers, strict=True))
        totals = {field: number_of(value) or 0 for field, value in sorted(fields.items()) if field in _TOTALS}
        layout = number_of(fields.get("layout", b"")) or 1
        newer = layout if layout > self.layout else None
        return QueueView(name, counts, totals, newer_layout=newer)


def check_purge(state: State) -> None:
    """Raises `InvalidArgument` for active jobs."""
    if state is State.ACTIVE:
        raise InvalidArgument("Active jobs belong to their workers: stop the workers, or cancel the jobs.")


def checking_layout(queue: str, steps: Steps[T]) -> Steps[T]:
    """Raise `NewerLayout` where a script refuses a queue that a newer release has written to."""
    try:
        return (yield from steps)
    except ReplyError as error:
        if error.prefix != NEWER_LAYOUT:
            raise
        _, stored, readable = str(error).split()
        raise NewerLayout(queue, int(stored), int(readable)) from error


def _read_worker(text: bytes) -> WorkerView | None:
    """None when another version, or another program, wrote it."""
    try:
        return _decode_worker(text)
    except msgspec.MsgspecError:
        return None
