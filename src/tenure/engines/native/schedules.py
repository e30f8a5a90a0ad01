"""The native engine for schedules. See lua/lib/schedules.lua for their keys, and lua/tick.lua for a tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, starmap
from typing import Any, Final

from tenure.core import limits
from tenure.core.errors import TenureError, WrongState
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
from tenure.core.steps import Steps
from tenure.engines.kit.chunks import Part, args_of, chunks, known
from tenure.engines.kit.config import PRESENCE_TTL_MS
from tenure.engines.kit.encoding import as_bytes, as_text, cancelled
from tenure.engines.kit.engine import ScriptedEngine
from tenure.engines.native.config import KEEP_DUE_MS
from tenure.engines.native.control import NO_MAP
from tenure.engines.native.keys import decoded, encoded
from tenure.engines.native.wire import new_part, too_long, whole

_NO_SOURCE: Final = "-"
_CANCELLED_BY: Final = "the next tick of its schedule came"
_TICKED: Final = {
    "1": Ticked.ENQUEUED,
    "s": Ticked.STALE,
    "e": Ticked.EARLY,
    "m": Ticked.MOVED,
    "k": Ticked.SKIPPED,
    "j": Ticked.JOINED,
}
"""The letters of lua/tick.lua for ticks that were made or are over."""
_CANCEL_WEIGHT: Final = 20
"""A cancel asks every worker that holds jobs for the one that it ends."""


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

    def tick(self, queue: str, ticks: Sequence[Tick]) -> Steps[list[Ticked | TenureError]]:
        found: list[Ticked | TenureError] = []
        for chunk in chunks(starmap(_tick_part, enumerate(ticks))):
            found += yield from self._tick(queue, chunk)
        return found

    def _tick(self, queue: str, chunk: list[Part]) -> Steps[list[Ticked | TenureError]]:
        how = (cancelled(_CANCELLED_BY), self.signal_channel(""), as_bytes(queue))
        try:
            reply = as_text((yield from self._act("tick", queue, self._config, *how, *args_of(chunk))))
        except WrongState as error:
            if len(chunk) == 1:
                return [error]
            found: list[Ticked | TenureError] = []
            for part in chunk:  # the other schedules have their ticks all the same
                found += yield from self._tick(queue, [part])
            return found
        letters, _, numbers = reply.partition(" ")
        return [_TICKED.get(letter) or too_long(queue, f"{numbers} 1") for letter in letters]

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


def _tick_part(position: int, tick: Tick) -> Part:
    """One tick, as lua/tick.lua takes it. Its job is due now."""
    part = Part(0, ("", ""), 0) if tick.job is None else new_part(0, tick.job)
    id, record, _, rule = whole(part)
    expected = "-" if tick.expected_ms is None else tick.expected_ms
    seen = (encoded(tick.name), tick.digest, expected, tick.run_fire_ms, tick.next_ms, tick.next_fire_ms)
    args = (*seen, tick.missed, tick.overlap.value, id, record, rule)
    weight = 1 + part.weight + (_CANCEL_WEIGHT if tick.overlap is Overlap.CANCEL else 0)
    return Part(position, args, part.size, weight)


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
