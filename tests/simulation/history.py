"""Draws histories: lists of actions, each drawn from a seed and independent of what happens.

An action that has no meaning when it comes does nothing, so each part of a history is a history, too.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from tenure.core.limits import HOUR
from tests.simulation.weights import STRANDS
from tests.support.engines import GRACE_MS, LEASE_MS

PROCESSES: Final = ("client", "client", "worker", "worker", "worker", "keeper")
WORKERS: Final = (2, 3, 4)
ACTIONS: Final = 150
LATE_MOST: Final = 8
"""Copies of calls that are under way at a time."""


class Action(NamedTuple):
    """`what`: call, kill, stop, wake, time or deliver. `fate` of a call: its reply arrives (ok), is lost so that the
    call is sent again (lost), the call itself is under way for long and sent again (late), or the caller gives up after
    it was executed (gone) or before (cut). `number` draws all that the operation chooses, or is the time in ms."""

    what: str
    who: int = 0
    strand: str = ""
    fate: str = ""
    number: int = 0

    def __str__(self) -> str:
        parts = (self.what, str(self.who) if self.what != "time" else "", self.strand, self.fate, str(self.number))
        return " ".join(part for part in parts if part)


def history(seed: int, count: int = ACTIONS) -> list[Action]:
    """Draw the history of a seed."""
    draw, actions = random.Random(seed), list[Action]()
    while len(actions) < count:
        chance = draw.random()
        if chance < 0.02:
            actions.append(Action("kill", draw.randrange(len(PROCESSES))))
        elif chance < 0.035:
            actions += _outage(draw)
        elif chance < 0.1:
            actions.append(Action("time", number=draw.choice([100, 600, 5_000, 31_000, 61_000, HOUR])))
        elif chance < 0.14:
            actions.append(Action("deliver", number=draw.randrange(LATE_MOST)))
        elif chance < 0.16:
            actions.append(Action("wake", draw.randrange(len(PROCESSES))))
        else:
            actions.append(_call(draw, draw.randrange(len(PROCESSES))))
    return actions


def _call(draw: random.Random, who: int) -> Action:
    strand = draw.choice(STRANDS[PROCESSES[who]])
    if PROCESSES[who] == "worker":
        strand = draw.choice([strand, "claim", "settle", "settle", "settle"])
    fate = draw.choice(["ok"] * 14 + ["lost", "lost", "late", "gone", "cut"])
    return Action("call", who, strand, fate, draw.randrange(10**9))


def _outage(draw: random.Random) -> list[Action]:
    """A process stops for longer than its lease; others look twice. Perhaps it wakes up."""
    who, beats = draw.randrange(len(PROCESSES)), [one for one in WORKERS if draw.random() < 0.5]
    actions = [Action("stop", who)]
    for ms in (LEASE_MS // 2 + 50, LEASE_MS // 2 + 50, GRACE_MS + 50):
        actions.append(Action("time", number=ms))
        for one in beats:
            actions += [Action("call", one, "beat", "ok", draw.randrange(10**9)) for _ in range(2)]
    tends = [Action("call", one, "tend", "ok", draw.randrange(10**9)) for one in WORKERS]
    return [*actions, *tends] + [Action("wake", who)] * (draw.random() < 0.8)
