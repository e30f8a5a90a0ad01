"""Changes of the number of partitions of a queue under load. See decision 0027.

During a change, a job with a lane, a key or an id of its own goes to its old partition as long as something of
these is there, and else to its new one. Workers move the rest: delayed jobs, records of ended jobs, keys and parked
lanes. A lane that has jobs drains where it is. When nothing is left where it does not belong, the change is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Final, TypeAlias

from tenure.core import limits
from tenure.core.errors import InvalidArgument, NotDurable, ReplyError
from tenure.core.job import Repartition
from tenure.core.logfmt import log_line
from tenure.core.partitions import MAX_PARTITIONS, PartitionMap, place_of
from tenure.core.shape import QueueSettings
from tenure.core.steps import Arg, Command, Draw, Nonce, Steps, T
from tenure.engines.kit.encoding import as_text
from tenure.engines.kit.moving import RESUME_MS
from tenure.engines.native.engine import NativeEngine
from tenure.engines.native.partitions.maps import MAP_TRIES, PartitionMaps
from tenure.engines.native.wire import MOVES, WOKE

_log: Final = logging.getLogger("tenure")
PAGES_MOST: Final = 10
"""Pages of one partition in one round of maintenance."""
MOVER_MS: Final = 5 * limits.SECOND
"""For how long after a page no other worker moves jobs of the queue."""
LOOK_S: Final = 10.0
"""How often a worker looks for jobs outside of the partitions of a queue."""
LOOKS_MOST: Final = 32
"""How many partitions it looks at each time."""
SettingsOf: TypeAlias = Callable[[str], Steps[QueueSettings]]
_KEPT: Final = ("jobs", "kept", "moving", "outs")
"""Keys that a partition has while it has jobs, or records of those that did not complete."""


class PartitionChanges:
    """Changes the numbers of partitions of an engine's queues. `post`: names a partition with jobs to a worker."""

    def __init__(
        self, engine: NativeEngine, maps: PartitionMaps, settings_of: SettingsOf, post: Callable[[str], Steps[None]]
    ) -> None:
        self._engine = engine
        self._maps = maps
        self._settings_of = settings_of
        self._post = post
        self._name = token_hex(8)
        self._looked: dict[str, tuple[int, float]] = {}
        """Where the next look outside of a queue's partitions begins, and when."""

    def begin(self, queue: str, number: int) -> Steps[PartitionMap]:
        """Begin to change the number of partitions.

        Raises `InvalidArgument` during another change, and when the queue has what one of several partitions
        cannot have.
        """
        map = yield from self._maps.read_or_create(queue, number)
        if map.before and not map.is_announced:
            raise InvalidArgument(
                f"Queue {queue!r} is being changed from {map.before} to {map.number} partitions. `tenure info "
                f"{queue}` shows what is left to move; change the number again after that."
            )
        if map.number == number:
            outside = yield from self.outside(queue, map.places)
            if outside:
                return (yield from self._install(queue, map, number, outside[-1] + 1))
            return (yield from self._install(queue, map, 1, 0)) if map.is_announced else map
        for partition in range(max(number, map.number)):  # a map that a lost node cannot note would stop the producers
            yield Command(("EXISTS", f"{self._engine.prefix(place_of(queue, partition))}:settings"))
        if map.number == 1:
            # First such jobs are refused, then those that are there are looked for: so none comes behind the look.
            if not map.is_announced:
                map = yield from self._install(queue, map, 1, 1)
            why = yield from self._unpartable(queue)
            if why:
                yield from self._install(queue, map, 1, 0)
                raise InvalidArgument(f"Queue {queue!r} keeps one partition, since it has {why}")
        return (yield from self._install(queue, map, number, map.number))

    def _install(self, queue: str, map: PartitionMap, number: int, before: int) -> Steps[PartitionMap]:
        max_length = (yield from self._settings_of(queue)).max_length
        wanted = PartitionMap(number, map.version + 1, before, max_length)
        found = yield from self._maps.install(queue, wanted)
        if (found.number, found.version, found.before) != (number, wanted.version, before):
            raise InvalidArgument(
                f"Another process has changed the partitions of queue {queue!r} at the same time. `tenure info "
                f"{queue}` shows their number."
            )
        return found

    def _unpartable(self, queue: str) -> Steps[str]:
        """Why a queue must have one partition; empty: it need not."""
        engine, cursor = self._engine, 0
        for _ in range(limits.PURGE_ROUNDS):
            page = yield from engine.schedule_page(queue, cursor)
            for stored in page.schedules:
                if stored.spec and (stored.spec.shape.lane is not None or stored.spec.shape.unique is not None):
                    return f"a schedule whose jobs have a lane or a unique key: {stored.name!r}."
            cursor = page.cursor
            if not cursor:
                break
        after = "0"
        for _ in range(limits.PURGE_ROUNDS):
            reply = yield from engine.unpartable(queue, after)
            after, id, has_limits, moving = as_text(reply[0]), as_text(reply[1]), reply[2], reply[3]
            if has_limits:
                return "jobs with limits. Try again when the queue has been empty once since the last of them."
            if moving:
                return "jobs on their way to another server. End that migration first."
            if id:
                return f"a job with a lane and a unique key: {id!r}. Try again when such jobs have ended."
            if after == "0":
                return ""
        return "more unique keys than can be looked through. Try again when it has fewer."

    def following(self, queue: str, call: Callable[[PartitionMap], Steps[T]]) -> Steps[T]:
        """Make a call by the map of the queue; again, if another process has replaced the map meanwhile, or when a job
        that it met has arrived in its partition."""
        for _ in range(MAP_TRIES):
            try:
                return (yield from self._maps.following(queue, call))
            except ReplyError as error:
                if error.prefix != MOVES:
                    raise
                yield from self.finish_moves(queue)
        try:
            return (yield from self._maps.following(queue, call))
        except ReplyError as error:
            if error.prefix != MOVES:
                raise
            raise InvalidArgument(
                f"A job of queue {queue!r} cannot move to the partition that it belongs to since the number of "
                "partitions was changed: another job there has its id. Discard one of the two."
            ) from error

    def outside(self, queue: str, first: int, most: int = MAX_PARTITIONS) -> Steps[list[int]]:
        """List the partitions that have jobs, of at most `most` from `first` on."""
        found = []
        for partition in range(first, min(first + most, MAX_PARTITIONS)):
            prefix = self._engine.prefix(place_of(queue, partition))
            if (yield Command(("EXISTS", *(f"{prefix}:{key}" for key in _KEPT)))):
                found.append(partition)
        return found

    def take_back(self, queue: str, map: PartitionMap) -> Steps[None]:
        """Look for jobs outside of the partitions of a queue, now and then, and begin to move them into these.

        They are there when Redis has lost a map, or was restored in parts.
        """
        now = time.monotonic()
        first, at = self._looked.get(queue, (map.places, 0.0))
        if now < at:
            return
        first = max(first, map.places)
        following = first + LOOKS_MOST
        self._looked[queue] = following if following < MAX_PARTITIONS else 0, now + LOOK_S
        if (yield from self.outside(queue, first, LOOKS_MOST)):
            outside = yield from self.outside(queue, map.places)
            shown = "+".join(str(one) for one in outside)
            log_line(_log, "partitions_outside", None, {"queue": queue, "partitions": map.number, "outside": shown})
            yield from self._maps.install(queue, PartitionMap(map.number, map.version + 1, outside[-1] + 1))

    def round(self, queue: str) -> Steps[int]:
        """Move some jobs of a queue that changes. Return how long until the next round may find more; -1: unknown.

        One worker does it at a time. It is harmless if two do.
        """
        if not (yield from self._is_mover(queue)):
            return -1
        map = yield from self._maps.ask(queue)  # the one that was known may be that of a Redis before it was restored
        if not map.before:
            return -1
        waits = []
        for partition in map.sources:
            # A failover may have lost the note. A note of the end of the change comes last: see `_end`.
            noted = yield from self._maps.note_in(queue, partition, map)
            waits.append((yield from self._move_pages(queue, partition)) if noted.before else -1)
        if all(wait_ms < 0 for wait_ms in waits):
            if (yield from self._maps.ask(queue)) == map:
                yield from self._end(queue, map)
            return -1
        return min(wait_ms for wait_ms in waits if wait_ms >= 0)

    def _is_mover(self, queue: str) -> Steps[bool]:
        key = f"{self._engine.prefix(queue)}:mover_is"
        if (yield Command(("SET", key, self._name, "NX", "PX", MOVER_MS))):
            return True
        if (yield Command(("GET", key))) != self._name.encode():
            return False
        yield Command(("PEXPIRE", key, MOVER_MS))
        return True

    def _move_pages(self, queue: str, partition: int) -> Steps[int]:
        wait_ms = 0
        for _ in range(PAGES_MOST):
            try:
                wait_ms = yield from self.move(queue, partition)
            except NotDurable:  # the page stays at its source; the next round sends it again, and waits again
                return MOVER_MS
            if wait_ms:
                break
        return wait_ms

    def finish_moves(self, queue: str) -> Steps[None]:
        """End the moves that are under way. Raises `NotDurable`."""
        for partition in (yield from self._maps.of(queue)).sources:
            if (yield Command(("EXISTS", f"{self._engine.prefix(place_of(queue, partition))}:moving"))):
                yield from self.move(queue, partition)

    def move(self, queue: str, partition: int, only: str = "") -> Steps[int]:
        """Move a page of what is in a partition and belongs to others, or what an earlier move has begun; or only one
        job. Return how long until the next page may find more; -1: nothing is left.

        A process may die between any two calls: the next one continues. Raises `NotDurable`.
        """
        engine, source = self._engine, place_of(queue, partition)
        nonce: Nonce = yield Draw()
        # A source that came back without this step would have the jobs a second time.
        moving = engine.move_out(source, f"{nonce.session}-{nonce.number}", only, (only or queue,))
        name, age_ms, rows, token, wait_ms = yield from moving
        if rows and age_ms < RESUME_MS:  # else it is no longer known whether they have arrived
            arrived = bytearray(b"0" * len(rows))
            lacking: NotDurable | None = None
            for home in sorted({home for _, home, _ in rows}):
                there = [n for n, (_, other, _) in enumerate(rows) if other == home]
                arriving = self._arrive(place_of(queue, home), as_text(name), token, [rows[n][0] for n in there])
                try:
                    names = tuple(as_text(rows[n][2]) for n in there)
                    answer = yield from (arriving if lacking else engine.copied(arriving, names))
                except NotDurable as error:
                    lacking = error  # the jobs have arrived, and are found there
                    continue
                for n, letter in zip(there, answer, strict=False):
                    arrived[n] = letter
            if lacking is not None:
                raise lacking
            yield from engine.end_move(source, as_text(name), bytes(arrived))
        return int(wait_ms)

    def _arrive(self, place: str, name: str, token: Arg, rows: list[Arg]) -> Steps[bytes]:
        answer = yield from self._engine.arrive(place, name, token, rows)
        if answer.endswith(WOKE):
            yield from self._post(place)
        return answer

    def view(self, queue: str, map: PartitionMap) -> Steps[Repartition]:
        """A change as a user sees it."""
        left: int | None = 0
        for partition in map.sources:
            place = place_of(queue, partition)
            version, count = yield Command(("HMGET", f"{self._engine.prefix(place)}:mover", "clean", "left"))
            is_clean = version == str(map.version).encode()
            left = None if left is None or (not is_clean and count is None) else left + (0 if is_clean else int(count))
        return Repartition(map.before, map.number, left)

    def _end(self, queue: str, map: PartitionMap) -> Steps[None]:
        over, engine = PartitionMap(map.number, map.version), self._engine
        for partition in range(map.places):
            if partition >= map.number:
                view = yield from engine.queue(place_of(queue, partition))
                yield from engine.add_totals(queue, f"dropped-{map.version}-{partition}", view.totals)
            yield from self._maps.note_in(queue, partition, over)
        yield from self._maps.write(queue, over)
