"""Plays the history of a seed, and makes that of a failure short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.testing.server import RedisServer
from tests.simulation.ending import Ending
from tests.simulation.history import ACTIONS, Action, history
from tests.simulation.reading import Line
from tests.simulation.scheduler import Stage
from tests.simulation.shrink import shrink
from tests.simulation.values import Violation
from tests.support.engines import ENTRIES, SIXTH, Entry

FORMATS: Final = tuple(entry for entry in ENTRIES if entry is not SIXTH)
"""The queues that are simulated: those that users have."""
TRACE_MOST: Final = 60


@dataclass(frozen=True, slots=True)
class Failure:
    """What a history did wrong, and what happened until then."""

    seed: int
    what: str
    actions: Sequence[Action]
    trace: Sequence[str]


def play(entry: Entry, server: RedisServer, line: Line, seed: int, count: int = ACTIONS) -> Failure | None:
    """Play the history of a seed. None: all was as it must be."""
    return play_these(entry, server, line, seed, history(seed, count))


def play_these(entry: Entry, server: RedisServer, line: Line, seed: int, actions: Sequence[Action]) -> Failure | None:
    stage = Stage(entry, server, line, seed)
    try:
        stage.play(actions)
        Ending(stage).finish()
    except Violation as violation:
        return Failure(seed, str(violation), actions, stage.trace)
    return None


def report(entry: Entry, server: RedisServer, line: Line, failure: Failure) -> str:
    """Return the shortest history that was found, in words."""
    found = {len(failure.actions): failure}

    def fails(actions: Sequence[Action]) -> bool:
        again = play_these(entry, server, line, failure.seed, actions)
        if again is not None:
            found[len(actions)] = again
        return again is not None

    shrink(failure.actions, fails)
    short = found[min(found)]
    lines = [f"  {line}" for line in short.trace[-TRACE_MOST:]]
    return "\n".join([f"The shortest history found, of {len(short.actions)} actions: {short.what}", *lines])
