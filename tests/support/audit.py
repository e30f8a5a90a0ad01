"""What is wrong with the keys of a queue, in sentences: a job in two places or in none, a key without an owner."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

from tenure.core.job import State
from tests.support.gates import LIMIT_KEYS
from tests.support.shapes import SHAPE_KEYS, Key, scheduled_id, shape_faults

ENDS: Final = (b"completed", b"failed", b"broken", b"cancelled")
_NAMED: Final = (b"held:", b"unroutable:", b"lane:", b"ready:", b"gate:", b"share:", b"announced:", b"out:", b"flow:")
FIXED: Final = frozenset({b"meta", b"settings"})
"""What a drained queue may leave behind without an end in time of its own: its counters, and what was set for it."""


class Audit:
    """One queue's keys by suffix."""

    def __init__(self, found: dict[bytes, Key]) -> None:
        self.found = found

    def run(self) -> list[str]:
        found = [*self._unknown(), *self._jobs(), *self._ghosts(), *self._held(), *self._parked(), *self._ended()]
        return found + shape_faults(self.found)

    def value(self, suffix: bytes, empty: Any) -> Any:
        return self.found[suffix].value if suffix in self.found else empty

    def entries(self) -> list[tuple[bytes, bytes]]:
        """All entries of the lists of waiting jobs but `isolated`: the name of each as a ghost, and its id."""
        found = [(id, id) for id in self.value(b"ready", [])]
        for suffix, key in self.found.items():
            if suffix.startswith((b"lane:", b"ready:")):
                ids = (re.sub(rb"^@\d+/", b"", entry) for entry in key.value)
                found += [(b"@" + suffix + b"/" + id, id) for id in ids]
        return found

    def places(self) -> dict[bytes, list[str]]:
        where: dict[bytes, list[str]] = {id: [] for id in self.value(b"jobs", {})}
        ghosts = Counter({id: int(count) for id, count in self.value(b"ghosts", {}).items()})
        for name, id in self.entries():
            if ghosts[name] > 0:
                ghosts[name] -= 1
            else:
                where.setdefault(id, []).append(State.READY)
        for id in self.value(b"isolated", []):
            where.setdefault(id, []).append(State.READY)
        for id in [*map(scheduled_id, self.value(b"scheduled", {})), *self.value(b"again", {}).values()]:
            where.setdefault(id, []).append(State.SCHEDULED)
        for suffix in self.found:
            if suffix.startswith((b"held:", b"unroutable:")):
                for id in self.found[suffix].value:
                    where.setdefault(id, []).append(suffix.decode(errors="replace"))
        for state in ENDS:
            for id in self.value(state, {}):
                where.setdefault(id, []).append(state.decode())
        return where

    def _unknown(self) -> list[str]:
        plain = {
            b"jobs",
            b"ready",
            b"isolated",
            b"scheduled",
            b"holders",
            b"suspects",
            b"tries",
            b"ghosts",
            b"wake",
            b"unroutable",
            b"post",
            b"mover",
        }
        plain |= {b"ended", b"kept", *ENDS, *FIXED, *SHAPE_KEYS, *LIMIT_KEYS}
        wrong = []
        for suffix, key in self.found.items():
            if suffix in (b"watched", b"poison", b"mover_is", b"minutes") or suffix.startswith(b"call:"):
                if key.ttl_ms < 0:
                    wrong.append(f"{suffix!r} has no time to live")
            elif suffix not in plain and not suffix.startswith(_NAMED):
                wrong.append(f"{suffix!r} is no key of the layout")
        return wrong

    def _jobs(self) -> list[str]:
        jobs, where = self.value(b"jobs", {}), self.places()
        wrong = [f"{id!r} is in {found or 'no place'}" for id, found in where.items() if len(found) != 1]
        for id, found in where.items():
            ended = any(State(place).ended for place in found if place in set(State))
            if ended == (id in jobs):
                wrong.append(f"{id!r} is in {found}, its record is {'there' if id in jobs else 'gone'}")
        wrong += [f"{id!r} has tries and no job" for id in self.value(b"tries", {}) if id not in jobs]
        return wrong

    def _ghosts(self) -> list[str]:
        ghosts = {id: int(count) for id, count in self.value(b"ghosts", {}).items()}
        listed = Counter(name for name, _ in self.entries())
        wrong = [
            f"{count} ghosts of {id!r}, {listed[id]} entries" for id, count in ghosts.items() if count > listed[id]
        ]
        total = int(self.value(b"meta", {}).get(b"ghosts", 0))
        if total != sum(ghosts.values()):
            wrong.append(f"meta counts {total} ghosts, there are {sum(ghosts.values())}")
        if len(self.value(b"wake", [])) > 1:
            wrong.append("more than one wake-up is waiting")
        return wrong

    def _held(self) -> list[str]:
        holders = set(self.value(b"holders", {}))
        held = {suffix.removeprefix(b"held:") for suffix in self.found if suffix.startswith(b"held:")}
        wrong = [f"{worker!r} holds jobs and is no holder" for worker in held - holders]
        wrong += [f"{worker!r} is a holder of nothing" for worker in holders - held]
        return wrong + [
            f"{worker!r} is suspected, holding nothing" for worker in set(self.value(b"suspects", {})) - holders
        ]

    def _parked(self) -> list[str]:
        tasks = {suffix.removeprefix(b"unroutable:") for suffix in self.found if suffix.startswith(b"unroutable:")}
        listed = self.value(b"unroutable", set())
        return [f"task {task!r} is parked or listed, not both" for task in tasks ^ listed]

    def _ended(self) -> list[str]:
        ended = {id for state in ENDS for id in self.value(state, {})}
        kept = {id for state in ENDS[1:] for id in self.value(state, {})}
        wrong = [f"{id!r} has an end and no state, or the other way" for id in ended ^ set(self.value(b"ended", {}))]
        return wrong + [f"{id!r} is kept for nothing, or not kept" for id in kept ^ set(self.value(b"kept", {}))]
