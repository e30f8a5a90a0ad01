"""The maps of partitions: what a process knows of them, and how the map of a queue is replaced. See decision 0027.

A new map is noted in each partition first, and written for the whole queue then. From the moment when a partition has
noted it, a caller with the old one is refused there. The caller reads the new one, or completes the change if the
process that began it has died.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from tenure.core.errors import ReplyError, TenureError, Unreachable, is_away, is_silent, wrong_field
from tenure.core.logfmt import log_line
from tenure.core.names import shown
from tenure.core.partitions import MAX_PARTITIONS, PartitionMap, place_of, read_map, read_noted, share_of, write_map
from tenure.core.steps import Arg, Command, Steps, T
from tenure.core.values import replace
from tenure.engines.kit.config import META_TTL_MS
from tenure.engines.kit.encoding import as_text
from tenure.engines.native.control import NativeController, write_settings
from tenure.engines.native.wire import OUTDATED

_log: Final = logging.getLogger("tenure")
KNOWN_S: Final = 60.0
"""How long a process trusts the map that it has read."""
MAP_TRIES: Final = 10
"""How often a call by an old map is made."""
_NONE: Final = PartitionMap()
_NO_NOTE: Final = "0:1:0:0:0"
_RULE: Final = f"a map of 1 to {MAX_PARTITIONS} partitions, such as 8 or 8:2:4"


class KnownMap(NamedTuple):
    """What a process knows of the map of one queue."""

    map: PartitionMap = _NONE
    until: float = 0.0
    """The monotonic time up to which the map is trusted; 0.0: read the map again before the next call."""
    is_fallback: bool = False
    """Whether calls continue by this map while Redis cannot be asked for the newest one."""


_UNKNOWN: Final = KnownMap()


class PartitionMaps:
    """The maps of an engine's queues. `wanted`: the numbers of partitions that queues get when they are first used."""

    def __init__(self, engine: NativeController) -> None:
        self._engine = engine
        self.wanted: dict[str, int] = {}
        self._known: dict[str, KnownMap] = {}
        """The maps in Redis, as they were last read."""
        self._noted: dict[str, PartitionMap] = {}
        """Others, which a partition has noted."""
        self._told: set[str] = set()
        """What has been logged: queues with another number in this code than in Redis, and errors."""

    def known(self, queue: str) -> PartitionMap:
        """The map as it was last read."""
        return self._known.get(queue, _UNKNOWN).map

    def of(self, queue: str) -> Steps[PartitionMap]:
        """Return the map that is known, while it is trusted; else read it in Redis."""
        known = self._known.get(queue, _UNKNOWN)
        if time.monotonic() < known.until:
            return known.map
        try:
            return (yield from self.ask(queue))
        except TenureError as error:
            if is_away(error) or not known.is_fallback:
                raise
            if not isinstance(error, Unreachable) and str(error) not in self._told:
                self._told.add(str(error))
                log_line(_log, "redis_refused", None, {"what": "partitions", "error": error})
            return known.map  # the node of the namespace is away, that of the queue may not be

    def are_whole(self, queues: Iterable[str]) -> bool:
        """Whether none of these queues ever had partitions, by maps that are still trusted.

        Most queues have none: the native engine serves them, without a generator around its operations.
        """
        now = time.monotonic()
        for queue in queues:
            known = self._known.get(queue, _UNKNOWN)
            if known.map.version or now >= known.until:
                return False
        return True

    def read_or_create(self, queue: str, number: int) -> Steps[PartitionMap]:
        """Read the map in Redis. If the queue was never used, create a map of `number` partitions; they note it."""
        yield from self._stored(queue, number)
        self._known[queue] = _UNKNOWN
        return (yield from self.ask(queue))

    def to_configure(self, queue: str, lists: bool) -> Steps[PartitionMap]:
        """Read the map again. `lists`: list the queue, which gets the partitions of the code that uses it first.

        A queue that is paused before its first job is in the list: an operator has to see it, and to move it.
        """
        self._known[queue] = _UNKNOWN
        return self._read(queue, META_TTL_MS, 0) if lists else self._read(queue, None)

    def ask(self, queue: str) -> Steps[PartitionMap]:
        """Read the map in Redis. If the queue was never used, create the map with the number in this code.

        What this process knew does not count: Redis may have been restored or emptied since.
        """
        return self._read(queue, None)

    def register(self, queue: str) -> Steps[PartitionMap]:
        """Add the queue to the list of queues, and read its map in the same call."""
        return self._read(queue, META_TTL_MS)

    def _read(self, queue: str, keep_ms: int | None, wanted: int = 1) -> Steps[PartitionMap]:
        now, in_code = time.monotonic(), self.wanted.get(queue)
        stored = yield from self._stored(queue, in_code or wanted, keep_ms=keep_ms)
        noted = self._noted.pop(queue, None)
        if noted is None and stored.is_first and not self.known(queue).version:
            noted = yield from self._first_note(queue)
        if noted is not None and noted.version != stored.version:
            # A newer one: the process that installed it has died. An older one, or none: that partition is new, or has
            # lost its note.
            stored = yield from self.install(queue, max(noted, stored, key=lambda map: map.version))
        if in_code not in (None, stored.number) and queue not in self._told:
            self._told.add(queue)
            log_line(_log, "partitions_differ", None, {"queue": queue, "code": in_code, "redis": stored.number})
        self._known[queue] = KnownMap(stored, now + KNOWN_S, is_fallback=True)
        return stored

    def _first_note(self, queue: str) -> Steps[PartitionMap | None]:
        """Read what the first partition has noted. None: its node is away, and the calls that need a note ask later."""
        try:
            text = yield Command(("HGET", f"{self._engine.prefix(queue)}:settings", "map"))
        except Unreachable as error:
            if is_silent(error):
                raise
            return None
        return self._read_note(queue, as_text(text or b""))

    def note(self, queue: str, text: str) -> None:
        """Take what a partition has noted; empty: nothing. If it is another map, the next call reads that in Redis."""
        known = self.known(queue)
        if not text and not known.version:  # as it is for most queues
            return
        try:
            noted = read_noted(text or _NO_NOTE)
        except ValueError:
            noted = _NONE  # the next call notes the map again
        if noted.version != known.version:
            self._noted[queue] = noted
            # Not trusted any more. While Redis cannot be asked, workers continue by this one, if they ever read it.
            self._known[queue] = KnownMap(known, is_fallback=queue in self._known)

    def note_refusal(self, queue: str, error: ReplyError) -> None:
        """Take what a partition has noted, as its script refused a call by another map. Raises any other error."""
        if error.prefix != OUTDATED:
            raise error
        text = str(error).removeprefix(OUTDATED).strip()
        self._read_note(queue, text)
        self.note(queue, text)

    def following(self, queue: str, call: Callable[[PartitionMap], Steps[T]]) -> Steps[T]:
        """Make a call by the map of the queue; again, if another process has replaced the map meanwhile."""
        map = yield from self.of(queue)
        for _ in range(MAP_TRIES - 1):
            try:
                return (yield from call(map))
            except ReplyError as error:
                self.note_refusal(queue, error)
            map = yield from self.ask(queue)
        return (yield from call(map))

    def install(self, queue: str, wanted: PartitionMap) -> Steps[PartitionMap]:
        """Make this the map of the queue, unless the queue has a newer one. Return the map that the queue has then.

        If two processes install different maps of one version, partition 0 decides: the map that it notes first stays.

        Several processes may do this at one time, and any of them may die after each call.
        """
        if wanted.is_first:  # until the first partition notes it, that one has the settings of the whole queue
            wanted = replace(wanted, max_length=(yield from self._engine.queue(queue)).settings.max_length)
        noted = yield from self.note_in(queue, 0, wanted, _share(wanted, 0))
        settings = (yield from self._engine.queue(queue)).settings if noted.before or noted.is_first else None
        for partition in range(1, noted.places):
            values = _share(noted, partition)
            # Partitions that are new, or were outside of the map, get the settings of the queue.
            if settings is not None and partition >= min(noted.before, noted.number):
                values += write_settings(None, settings.lane_failure, settings.paused)
            yield from self.note_in(queue, partition, noted, values)
        return (yield from self.write(queue, noted))

    def write(self, queue: str, map: PartitionMap) -> Steps[PartitionMap]:
        """Write the map of a queue, unless there is a newer one. Return the map that the queue has then."""
        stored = yield from self._stored(queue, 1, write_map(map))
        self._known[queue] = KnownMap(stored, time.monotonic() + KNOWN_S, is_fallback=True)
        return stored

    def note_in(
        self, queue: str, partition: int, map: PartitionMap, settings: Sequence[str] = ()
    ) -> Steps[PartitionMap]:
        """Note a map in one partition, with settings that it gets then. Return the map that is noted there then."""
        args: tuple[Arg, ...] = (map.version, map.number, map.before, partition, map.max_length, *settings)
        place = place_of(queue, partition)
        return self._read_note(place, (yield from self._engine.note_map(place, *args)))

    def _read_note(self, place: str, text: str) -> PartitionMap:
        """Read the note of a partition. Raises `WrongState`."""
        try:
            return read_noted(text or _NO_NOTE)
        except ValueError:
            key = f"{self._engine.prefix(place)}:settings"
            raise wrong_field(key, "map", "the note of a map of partitions", shown(text)) from None

    def _stored(self, queue: str, wanted: int, noted: str = "", keep_ms: int | None = None) -> Steps[PartitionMap]:
        stored = yield from self._engine.stored_map(queue, wanted, noted, keep_ms)
        try:
            return read_map(stored)
        except ValueError:
            key = f"{self._engine.shared()}:partitions"
            raise wrong_field(key, queue, _RULE, shown(stored), is_needed=True) from None


def _share(map: PartitionMap, partition: int) -> list[str]:
    """The share of a partition in the maximum length of the queue, as a setting that it gets with the map."""
    is_new = 0 < map.before <= partition  # one that was dropped earlier may have a share of then
    is_shared = map.max_length and (map.before or map.is_first)
    has_share = partition < map.number and (is_new or is_shared)
    return write_settings(share_of(map.max_length, partition, map.number), None, None) if has_share else []
