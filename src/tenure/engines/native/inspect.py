"""The native engine for those who look: queues, counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tenure.core import limits
from tenure.core.engine import AUDIT_MAX
from tenure.core.errors import InvalidArgument, TenureError, invalid, is_silent, wrong_field
from tenure.core.job import JobView, Page, QueueView, State
from tenure.core.minutes import Minutes
from tenure.core.names import shown
from tenure.core.rates import LimitHolder, LimitPage, LimitRule, LimitView, SharePage
from tenure.core.shape import LaneFailure, LanePage, LaneState, LaneView, QueueSettings
from tenure.core.steps import Command, Invoke, Steps
from tenure.core.values import replace
from tenure.core.why import JobFacts
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.base import Scripted
from tenure.engines.kit.encoding import as_bytes, as_text, fields_of, number_of
from tenure.engines.kit.pages import check_page, read_cursor, write_cursor
from tenure.engines.native.config import NativeConfig
from tenure.engines.native.keys import decoded, encoded, queue_of
from tenure.engines.native.minutes import read_minutes
from tenure.engines.native.records import read_view
from tenure.engines.native.why import read_facts

_LENGTH: Final = re.compile(r"\d{1,12}", re.ASCII)
RESTING: Final = "resting 0"
"""The cursor of the first limits that rest."""
_TIME: Final = re.compile(r"\d{0,15}", re.ASCII)


class NativeInspector(Scripted):
    """Reading half of the native engine."""

    config: NativeConfig

    def _view(self, queue: str, state: State, id: bytes, row: list[Any]) -> JobView:
        return read_view(queue, state, id, row, self.config.alone_from)

    def queue(self, name: str) -> Steps[QueueView]:
        *common, settings, parked, blocked, suspects, limited, outgoing, sent = yield from self._ask("counts", name)
        values = {field: as_text(value) for field, value in fields_of(settings).items()}
        return replace(
            self._counted(name, common),
            settings=read_settings(values, f"{self.prefix(name)}:settings"),
            parked_lanes=parked,
            blocked_lanes=blocked,
            suspects=suspects,
            limited=limited,
            outgoing=outgoing,
            outgoing_ms=int(sent) // 1_000 if sent else None,  # such a number is a time in microseconds
        )

    def minutes(self, queue: str) -> Steps[Minutes]:
        now_ms, data = yield from self._ask("minutes", queue)
        return read_minutes(now_ms, data)

    def audit(self) -> Steps[list[bytes]]:
        entries: list[bytes] = yield Command(("LRANGE", f"{self.shared()}:audit", 0, AUDIT_MAX - 1))
        return entries

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        raw_id = as_bytes(id)
        reply = yield from self._ask("show", queue, raw_id, 0)
        return self._view(queue, State(reply[0].decode()), raw_id, reply[1:]) if reply else None

    def facts(self, queue: str, id: str) -> Steps[JobFacts | None]:
        raw_id = as_bytes(id)
        reply = yield from self._ask("why", queue, raw_id)
        if not reply:
            return None
        row, pairs = reply
        view = self._view(queue, State(row[0].decode()), raw_id, row[1:]) if row else None
        return read_facts(view, pairs, self.layout)

    def sample(self, queue: str, cursor: str, limit: int) -> Steps[tuple[list[str], str]]:
        following, *ids = yield from self._ask("sample", queue, cursor, limit)
        return list(map(as_text, ids)), as_text(following)

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = limits.PAGE_MAX,
        lane: str | None = None,
        after: str | None = None,
        heads: bool = False,
    ) -> Steps[Page]:
        if lane is not None and state is not State.READY:
            raise InvalidArgument(f"Of a lane, only the jobs that wait in it can be listed, not those {state.value}.")
        check_page(offset, limit)
        cursor = read_cursor(after, state, lane)
        end, rows = yield from self._ask(
            "page", queue, state.value, encoded(lane or ""), offset, limit, *cursor, int(heads)
        )
        if lane is not None:
            total = (yield from self.lane(queue, lane)).waiting
        else:
            total = (yield from self.queue(queue)).counts[state]
        jobs = tuple(self._view(queue, state, row[0], row[1:]) for row in rows)
        return Page(jobs, total, write_cursor(end, state, lane))

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        return _read_lane((yield from self._ask("lane", queue, encoded(lane))), self.prefix(queue))

    def lane_page(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        if state is LaneState.IDLE:
            raise invalid("state", "ready, busy, blocked or parked", "idle", "Redis has nothing of idle lanes.")
        following, rows = yield from self._ask("lanes", queue, state.value, cursor, limit)
        return LanePage(tuple(_read_lane(row, self.prefix(queue)) for row in rows), following)

    def workers(self, holders: Callable[[str], Steps[dict[str, int]]] | None = None) -> Steps[list[WorkerView]]:
        """`holders`: asked in place of the method of that name."""
        seen = yield from self.announced()
        active: dict[str, int] = {}
        for queue in sorted({queue for worker in seen for queue in worker.queues if "/" not in queue}):
            for name, held in (yield from (holders or self.holders)(queue)).items():
                active[name] = active.get(name, 0) + held
        return [replace(worker, active=active.get(worker.id, 0)) for worker in seen]

    def holders(self, queue: str) -> Steps[dict[str, int]]:
        """The workers that hold jobs of a queue, and how many. None where Redis refuses that, or its node is lost."""
        try:
            pairs = yield from self._ask("holders", queue)
        except TenureError as error:
            if is_silent(error):
                raise
            return {}
        return {as_text(name): held for name, held in zip(pairs[::2], pairs[1::2], strict=True)}

    def limit(self, name: str) -> Steps[LimitView]:
        place = yield from self._place_of(name)
        if not place:
            return LimitView(name)
        return _read_limit(name, (yield Invoke(self.scripts["limit"], place, (encoded(name),))))

    def _place_of(self, name: str) -> Steps[tuple[str, ...]]:
        """The beginning of the keys of a limit, as the keys of its scripts; empty for a limit that has none."""
        yield from ()
        return (self.shared(),)

    def limit_names(self, cursor: str = "") -> Steps[LimitPage]:
        return (yield from self._limit_names((self.shared(),), cursor))

    def resting_limits(self) -> Steps[list[str]]:
        return list((yield from self._limit_names((self.shared(),), RESTING)).names)

    def _limit_names(self, keys: tuple[str, ...], cursor: str) -> Steps[LimitPage]:
        place, _, after = (cursor or "limits 0").partition(" ")
        if place not in ("limits", "waiting", "used", "resting") or not after.isdigit():
            raise invalid("cursor", "one of an earlier page, or empty", repr(cursor[:40]))
        place, after, found = yield Invoke(self.scripts["limits"], keys, (place, after, limits.PAGE_MAX))
        names = tuple(decoded(as_text(name)) for name in found)
        return LimitPage(names, f"{as_text(place)} {as_text(after)}" if place else "")

    def shares(self, cursor: int = 0) -> Steps[SharePage]:
        after, found = yield Invoke(self.scripts["shares"], (self.shared(),), (cursor, limits.PAGE_MAX))
        weights = {
            decoded(as_text(name)): number_of(weight) or 1 for name, weight in zip(found[::2], found[1::2], strict=True)
        }
        return SharePage(weights, int(after))


def _three_of(text: bytes) -> list[int | None]:
    """The numbers of a limit: concurrency, interval and burst."""
    return [number_of(word) for word in (*text.split(b":"), b"", b"", b"")[:3]]


def _read_limit(name: str, reply: list[Any]) -> LimitView:
    stored, state, active, waiting, now, given, held = reply
    concurrency, interval, burst = _three_of(stored)
    rests = number_of(state.partition(b" ")[2]) or 0
    queues = [queue_of(as_text(prefix)) for prefix in waiting[::3]]
    most, every, at_once = _three_of(given)
    jobs = zip(*(map(as_text, held[part::4]) for part in range(4)), strict=True)
    holders = [LimitHolder(queue_of(prefix), id, worker, int(since)) for prefix, id, worker, since in jobs]
    return LimitView(
        name,
        concurrency,
        interval,
        burst,
        active,
        dict(zip(queues, waiting[1::3], strict=True)),
        rests if rests > now else None,
        dict(zip(queues, waiting[2::3], strict=True)),
        LimitRule(name, 1, most, every, at_once or 1) if given else None,
        tuple(sorted(holders, key=lambda one: (one.since_ms, one.queue, one.id))),
    )


def read_settings(values: dict[str, str], key: str) -> QueueSettings:
    """The settings of a queue as they lie in Redis. What another version wrote and we do not know is left out.

    Raises `WrongState`, with the key, for what another program has written.
    """
    rule, longest = values.get("lane_failure", ""), values.get("max_length", "0")
    if not _LENGTH.fullmatch(longest):
        raise wrong_field(key, "max_length", f"a number up to {limits.MAX_QUEUE_LENGTH:,}", shown(longest))
    return QueueSettings(
        max_length=int(longest),
        lane_failure=LaneFailure(rule) if rule in set(LaneFailure) else LaneFailure.SKIP,
        paused="paused" in values,
    )


def _read_lane(row: list[Any], prefix: str) -> LaneView:
    name, waiting, busy, limit, parked, blockers, state = row
    at, _, job = as_text(parked).partition(" ")
    first = as_text(blockers[0]) if blockers else None
    if not _TIME.fullmatch(at):
        raise wrong_field(f"{prefix}:parked", as_text(name), "a time and an id", shown(at))
    lane, parked_ms = decoded(as_text(name)), int(at) if at else None
    return LaneView(lane, LaneState(as_text(state)), waiting, busy, limit, parked_ms, job or None, first)
