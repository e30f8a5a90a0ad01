"""The native engine for schedules. See lua/lib/schedules.lua for their keys, and lua/tick.lua for a tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from tenure.core import limits
from tenure.core.errors import ReplyError
from tenure.core.job import NewJob
from tenure.core.schedules.schedule import (
    Announced,
    DueSchedules,
    Overlap,
    SchedulePage,
    ScheduleSpec,
    ScheduleState,
    StoredSchedule,
    Tick,
    Ticked,
    Wanted,
    decode_spec,
    encode_spec,
)
from tenure.core.steps import Arg, Steps
from tenure.engines.kit.chunks import known
from tenure.engines.kit.config import PRESENCE_TTL_MS
from tenure.engines.kit.encoding import as_bytes, as_text, cancelled
from tenure.engines.kit.engine import ScriptedEngine
from tenure.engines.native.config import KEEP_DUE_MS
from tenure.engines.native.control import NO_MAP
from tenure.engines.native.keys import decoded, encoded
from tenure.engines.native.wire import TOO_LONG, WOKE, new_part, too_long, whole

_NO_SOURCE: Final = "-"
_CANCELLED_BY: Final = "the next tick of its schedule came"
_TICKED: Final = {one.value.encode(): one for one in Ticked}


class NativeScheduler(ScriptedEngine):
    """The schedules of the native engine."""

    def announce_schedules(
        self, queue: str, source: str, digests: Mapping[str, str], earlier: Mapping[str, Sequence[str]]
    ) -> Steps[Announced]:
        rows = ((encoded(name), digest, _joined(earlier.get(name, ()))) for name, digest in digests.items())
        args = chain.from_iterable(rows)
        reply = yield from self._ask("schedule_announce", queue, encoded(source), PRESENCE_TTL_MS, *args)
        now_ms, wanted, refused, ended = reply
        return Announced(
            now_ms,
            tuple(Wanted(_name(row[0]), row[1].decode(), int(row[2]), int(row[3])) for row in wanted),
            tuple(map(_name, refused)),
            tuple(map(_name, ended)),
        )

    def put_schedule(
        self, spec: ScheduleSpec, digest: str, expected: str, planned_ms: int, fire_ms: int, map_version: int = NO_MAP
    ) -> Steps[bool]:
        source = encoded(spec.source) if spec.source else _NO_SOURCE
        definition = f"{digest} {source}\n".encode() + encode_spec(spec)
        args = (encoded(spec.name), definition, expected, planned_ms, fire_ms, map_version)
        history = (PRESENCE_TTL_MS, _joined(spec.earlier))
        yield from self.register(spec.queue)
        return (yield from self._act("schedule_put", spec.queue, *args, *history)) == b"1"

    def due_schedules(self, queue: str, limit: int) -> Steps[DueSchedules]:
        now_ms, next_ms, rows = yield from self._ask("schedule_due", queue, min(limit, limits.PAGE_MAX), KEEP_DUE_MS)
        return DueSchedules(now_ms, known(next_ms), _stored(rows))

    def tick(self, queue: str, tick: Tick) -> Steps[Ticked]:
        seen = (tick.digest, tick.expected_ms, tick.run_fire_ms, tick.next_ms, tick.next_fire_ms, tick.missed)
        return (yield from self._tick(queue, tick.name, seen, tick.overlap, tick.job))

    def trigger(self, queue: str, name: str, job: NewJob) -> Steps[Ticked]:
        return (yield from self._tick(queue, name, ("", "-", 0, 0, 0, 0), Overlap.ALLOW, job))

    def _tick(
        self, queue: str, name: str, seen: tuple[Arg, ...], overlap: Overlap, job: NewJob | None
    ) -> Steps[Ticked]:
        # The job of a tick is due now.
        id, record, _, rule = ("", "", "", "0") if job is None else whole(new_part(0, job))
        config, signal = self._config, self.signal_channel("")
        how = (overlap.value, cancelled(_CANCELLED_BY), signal, as_bytes(queue))
        try:
            reply = yield from self._act("tick", queue, config, encoded(name), *seen, *how, id, record, rule)
        except ReplyError as error:
            if error.prefix != TOO_LONG:
                raise
            raise too_long(queue, error) from error
        return _TICKED.get(reply) or (Ticked.ENQUEUED if reply.removesuffix(WOKE) == b"1" else Ticked.JOINED)

    def schedule(self, queue: str, name: str) -> Steps[tuple[int, StoredSchedule | None]]:
        now_ms, *row = yield from self._ask("schedule_show", queue, encoded(name))
        return now_ms, _read(encoded(name).encode(), *row) if row else None

    def schedule_page(self, queue: str, cursor: int = 0) -> Steps[SchedulePage]:
        now_ms, after, rows = yield from self._ask("schedule_page", queue, cursor, limits.PAGE_MAX)
        return SchedulePage(now_ms, _stored(rows), int(after))

    def pause_schedule(self, queue: str, name: str, reason: str) -> Steps[bool]:
        return (yield from self._act("schedule_pause", queue, encoded(name), as_bytes(reason))) == b"1"

    def resume_schedule(self, queue: str, name: str, digest: str, planned_ms: int, fire_ms: int) -> Steps[bool]:
        args = (encoded(name), digest, planned_ms, fire_ms)
        return (yield from self._act("schedule_resume", queue, *args)) == b"1"

    def remove_schedule(self, queue: str, name: str) -> Steps[bool]:
        return (yield from self._act("schedule_remove", queue, encoded(name))) == b"1"


def _joined(names: Iterable[str]) -> str:
    return " ".join(map(encoded, names))


def _name(raw: bytes) -> str:
    return decoded(as_text(raw))


def _stored(rows: Iterable[list[Any]]) -> tuple[StoredSchedule, ...]:
    return tuple(_read(*row) for row in rows)


def _read(name: bytes, definition: bytes, state: bytes) -> StoredSchedule:
    head, _, text = definition.partition(b"\n")
    digest, _, _ = head.partition(b" ")
    return StoredSchedule(_name(name), as_text(digest), decode_spec(text), _read_state(state))


def _read_state(raw: bytes) -> ScheduleState:
    """The state; that of a schedule that is over, if another program has written it."""
    line, _, reason = as_text(raw).partition("\n")
    try:
        planned, fire, runs, skipped, missed, last_planned, ran, last, paused, *before = line.split(" ")
        counts = int(runs), int(skipped), int(missed)
        last_id = None if last == "-" else last
        times = int(last_planned), int(ran)
        earlier = tuple(zip(map(int, before[::2]), before[1::2], strict=True))
        return ScheduleState(int(planned), int(fire), *counts, *times, last_id, int(paused), reason, earlier)
    except ValueError:
        return ScheduleState(0, 0)
