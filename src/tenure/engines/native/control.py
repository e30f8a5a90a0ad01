"""The native engine for those who act on jobs from outside: retry, discard, cancel, purge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenure.core import limits, names
from tenure.core.engine import SHOW_STACKS
from tenure.core.errors import NotUnique, invalid
from tenure.core.job import State
from tenure.core.shape import PLAIN, CancelAnswer, CancelCount, LaneFailure, QueueSettings, Shape
from tenure.core.steps import Arg, Command, Draw, Invoke, Nonce, Steps, T
from tenure.engines.kit.base import check_purge
from tenure.engines.kit.config import PURGE_MOST
from tenure.engines.kit.encoding import as_bytes, as_text, cancelled
from tenure.engines.native.config import QUIET_TTL_MS
from tenure.engines.native.inspect import NativeInspector, read_settings
from tenure.engines.native.keys import encoded
from tenure.engines.native.records import limit_words
from tenure.engines.native.scripts import IMPORTS, SCRIPTS

_WAITING: Final = ("again", "scheduled", "unroutable", "isolated", "ready")
"""Where jobs wait, as lua/sweep.lua calls it. While nothing is claimed, a job only goes to a place that comes later."""

_PLACES: Final = {State.SCHEDULED: ("again", "scheduled")}
"""Where the jobs of a state lie, if it is more than one place."""

NO_MAP: Final = 0
"""The version of the map of a queue that never had partitions."""
PARK: Final = "1"
PARK_USED: Final = "?"
"""Parks a lane only if the place has something of it."""
_RESUME: Final = "0"
_CANCELS: Final = {"0": CancelAnswer.NOTHING, "1": CancelAnswer.CANCELLED, "2": CancelAnswer.REQUESTED}


class NativeController(NativeInspector):
    """Acting half of the native engine."""

    def copied(self, steps: Steps[T], ids: tuple[str, ...]) -> Steps[T]:
        """Run a write after which another node forgets these jobs, or a read of what another node gets. Raises
        `NotDurable` if too few replicas have what was written.

        Nothing to wait for on one server: a replica that has the later write has the one before it.
        """
        return (yield from steps)

    # `map_version`: of the map of partitions that the caller knows. A partition that has noted another one refuses it.

    def retry(
        self,
        queue: str,
        id: str,
        payload: bytes | None = None,
        reshaped: Shape | None = None,
        map_version: int = NO_MAP,
    ) -> Steps[bool]:
        shape = reshaped or PLAIN
        key = shape.unique.key if shape.unique is not None else ""
        words = (int(reshaped is not None), limit_words(shape.limits), encoded(shape.share or ""), encoded(key))
        args = (as_bytes(id), int(payload is not None), payload or b"", map_version, *words)
        reply = yield from self._act("retry", queue, *args)
        if key and reply.startswith(b":"):
            raise NotUnique(queue, as_text(reply[1:]))
        return reply == b"1"

    def reschedule(
        self,
        queue: str,
        id: str,
        *,
        delay_ms: int | None = None,
        run_at_ms: int | None = None,
        priority: int | None = None,
        map_version: int = NO_MAP,
    ) -> Steps[bool]:
        due = str(run_at_ms) if run_at_ms is not None else "" if delay_ms is None else f"+{delay_ms}"
        args = (as_bytes(id), due, "" if priority is None else priority, map_version)
        reply = yield from self._act("reschedule", queue, *args)
        if reply == b"2":
            raise invalid("priority", "0 for a job with a lane, limits or a share", str(priority))
        return reply == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        [answer] = yield from self.cancel_each(queue, [id], reason)
        return answer

    def cancel_each(self, queue: str, ids: Sequence[str], reason: str) -> Steps[list[CancelAnswer]]:
        """As `cancel`, for at most 500 jobs."""
        args: tuple[Arg, ...] = (self._config, cancelled(reason), self.signal_channel(""), as_bytes(queue))
        args += tuple(map(as_bytes, ids))
        return [_CANCELS[letter] for letter in as_text((yield from self._act("cancel", queue, *args)))]

    def cancel_all(
        self, queue: str, lane: str | None = None, reason: str = "", map_version: int = NO_MAP
    ) -> Steps[CancelCount]:
        # The first call puts the queue, or the lane, on hold: nothing is claimed until `release`. Workers are asked
        # next, so that the jobs that they hold do not wait again. A hold that was over between two calls proves
        # nothing: look again.
        ended = requested = 0
        holders, body = "active", cancelled(reason)
        for _ in range(limits.PURGE_ROUNDS):
            _, asked, lasted = yield from self._sweep(queue, lane, body, holders, map_version, begins=True)
            requested += asked
            for place in _WAITING:
                if lasted:
                    count, _, lasted = yield from self._sweep(queue, lane, body, place, map_version)
                    ended += count
            if lasted:
                break
            holders = "claimed"
        yield from self._act("release", queue, encoded(lane or ""))
        return CancelCount(ended, requested)

    def _sweep(
        self, queue: str, lane: str | None, body: bytes, place: str, map_version: int, begins: bool = False
    ) -> Steps[tuple[int, int, bool]]:
        """End the jobs in one place. Return how many ended, how many of their workers were asked, and whether the hold
        has lasted. `begins`: the first call begins it."""
        ended = requested = 0
        lasted, after = True, b""
        signal: tuple[Arg, ...] = (self.signal_channel(""), as_bytes(queue))
        for _ in range(limits.PURGE_ROUNDS):
            where: tuple[Arg, ...] = (place, encoded(lane or ""), after, PURGE_MOST, body)
            reply = yield from self._act("sweep", queue, self._config, *where, *signal, map_version)
            *numbers, after = reply.split(b" ", 4)
            held, more, gone, asked = map(int, numbers)
            ended, requested = ended + gone, requested + asked
            lasted = lasted and (held == 1 or begins)
            begins = False
            if not more:
                break
        return ended, requested, lasted

    def purge(self, queue: str, state: State, map_version: int = NO_MAP) -> Steps[int]:
        check_purge(state)
        removed = 0
        for place in _PLACES.get(state, (state.value,)):
            removed += (yield from self._sweep(queue, None, b"", place, map_version))[0]
        if state.value in _WAITING:
            yield from self._act("release", queue, b"")
        return removed

    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | None = None,
        paused: bool | None = None,
    ) -> Steps[QueueSettings]:
        values = yield from self.set_in(queue, max_length, lane_failure, paused)
        return read_settings(values, f"{self.prefix(queue)}:settings")

    def set_in(
        self, place: str, max_length: int | None, lane_failure: LaneFailure | None, paused: bool | None
    ) -> Steps[dict[str, str]]:
        """As `configure`. Return all that is set in the place, as it lies in Redis."""
        if max_length is not None:
            names.count(max_length, "max_length", most=limits.MAX_QUEUE_LENGTH)
        reply = yield from self._act("configure", place, *write_settings(max_length, lane_failure, paused))
        return dict(word.split("=", 1) for word in as_text(reply).split())

    def park_lane(self, queue: str, lane: str, map_version: int = NO_MAP, how: str = PARK) -> Steps[bool]:
        """`how` may be `PARK_USED`: see there."""
        return (yield from self._act("park", queue, encoded(lane), how, map_version)) == b"1"

    def resume_lane(self, queue: str, lane: str, map_version: int = NO_MAP) -> Steps[bool]:
        return (yield from self._act("park", queue, encoded(lane), _RESUME, map_version)) == b"1"

    # For an engine around this one, with queues in several places: see `partitions.engine`.

    def stored_map(self, queue: str, wanted: int, noted: str = "", keep_ms: int | None = None) -> Steps[str]:
        """Read the map of a queue's partitions, as lua/partitions.lua does it: write the first one, or a newer one."""
        args = (as_bytes(queue), str(wanted), noted, "" if keep_ms is None else str(keep_ms))
        return as_text((yield Invoke(self.scripts["partitions"], (self.shared(),), args)))

    def note_map(self, place: str, *args: Arg) -> Steps[str]:
        """Note a map in one place. Return the note that is there then."""
        return as_text((yield from self._ask("note_map", place, *args)))

    def move_out(self, place: str, name: str, only: str, ids: tuple[str, ...]) -> Steps[Any]:
        """Take a page of jobs that belong to other places, or one job: see lua/move.lua. `ids`: as in `copied`."""
        return (yield from self.copied(self._ask("move", place, name, as_bytes(only)), ids))

    def arrive(self, place: str, name: str, token: Arg, rows: Iterable[Arg]) -> Steps[bytes]:
        """Add the jobs of a move, once."""
        answer: bytes = yield Invoke(IMPORTS["arrive"], self._keys(place), (f"move-{name}", 1, token, *rows))
        return answer

    def end_move(self, place: str, name: str, arrived: bytes) -> Steps[None]:
        """Forget the jobs of a move that have arrived, and return the others to their place."""
        yield from self._ask("end_export", place, name, arrived)

    def unpartable(self, queue: str, after: str) -> Steps[Any]:
        """A page of what only one place can have: see lua/unpartable.lua."""
        return (yield from self._ask("unpartable", queue, after))

    def add_totals(self, queue: str, name: str, totals: Mapping[str, int]) -> Steps[None]:
        """Add the totals of a place that goes, once under this name."""
        pairs: list[Arg] = [arg for pair in totals.items() for arg in pair]

        def add() -> Steps[None]:
            yield Invoke(IMPORTS["add_totals"], self._keys(queue), (name, 1, *pairs))

        yield from self.copied(add(), (queue,))

    def post(self, queue: str, partition: int) -> Steps[None]:
        """Name a partition that has jobs to one of the workers that wait."""
        yield Invoke(self.scripts["post"], (self.prefix(queue),), (partition,))

    def advance(self, queue: str, ms: int) -> Steps[None]:
        yield from self._act("advance", queue, ms)

    def advance_limits(self, ms: int) -> Steps[None]:
        yield from self._advance_limits((self.shared(),), ms)

    def _advance_limits(self, place: tuple[str, ...], ms: int) -> Steps[None]:
        start, cursor = f"{place[0]}:limit:", "0"
        for _ in range(limits.PURGE_ROUNDS):
            cursor, keys = yield Command(("SCAN", cursor, "MATCH", f"{start}*", "COUNT", PURGE_MOST))
            if keys:
                found = (as_text(key).removeprefix(start) for key in keys)
                yield from self._act_at(place, "advance_limits", ms, *found)
            if as_text(cursor) == "0":
                break

    def set_limit(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        interval_us: int | None = None,
        burst: int | None = None,
    ) -> Steps[None]:
        numbers = ("" if number is None else number for number in (concurrency, interval_us, burst))
        place = yield from self._place_to_set(name)
        yield from self._act_at(place, "set_limit", encoded(name), 0, *numbers)

    def clear_limit(self, name: str) -> Steps[bool]:
        place = yield from self._place_of(name)
        return bool(place) and (yield from self._act_at(place, "set_limit", encoded(name), 1, "", "", "")) == b"1"

    def _place_to_set(self, name: str) -> Steps[tuple[str, ...]]:
        """As `_place_of`. Raises `InvalidArgument` for a limit that has none."""
        return (yield from self._place_of(name))

    def set_share(self, name: str, weight: int) -> Steps[None]:
        yield from self._act_at((self.shared(),), "set_share", encoded(name), weight)

    def note_audit(self, entry: bytes) -> Steps[None]:
        yield from self._act_at((self.shared(),), "note_audit", entry)

    def _act_at(self, place: tuple[str, ...], script: str, *args: Arg) -> Steps[bytes]:
        """A call about what belongs to no queue, under a nonce. `place`: the keys of the script."""
        nonce: Nonce = yield Draw()
        reply: bytes = yield Invoke(SCRIPTS[script], place, (nonce.session, nonce.number, *args))
        return reply

    def ask_stacks(self, worker: str) -> Steps[None]:
        yield Command(("PUBLISH", self.signal_channel(worker), SHOW_STACKS))

    def quiet(self, worker: str, quiet: bool = True) -> Steps[bool]:
        nonce: Nonce = yield Draw()
        args: tuple[Arg, ...] = (nonce.session, nonce.number, worker, int(quiet), QUIET_TTL_MS)
        reply: bytes = yield Invoke(SCRIPTS["quiet"], (self.shared(),), (*args, self.signal_channel(worker)))
        return reply == b"1"


def write_settings(max_length: int | None, lane_failure: LaneFailure | None, paused: bool | None) -> list[str]:
    """Settings and their values, as lua/configure.lua takes them. None: the setting stays as it is."""
    changes: list[str] = []
    if max_length is not None:
        changes += ["max_length", str(max_length or "")]
    if lane_failure is not None:
        changes += ["lane_failure", "" if lane_failure is LaneFailure.SKIP else lane_failure.value]
    if paused is not None:
        changes += ["paused", "1" if paused else ""]
    return changes
