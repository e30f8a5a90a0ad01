"""Reads the variables of the models out of Redis after each call of a simulated history: a trace for the checker.

A subject is one model with the histories that it can explain: what their processes do, and how its variables stand in
Redis. Variables that are only in processes or on the way are hidden: the checker finds values for them.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from tenure.core.errors import TenureError
from tenure.core.job import Lease as HeldLease
from tenure.core.job import NewJob
from tenure.core.limits import HOUR
from tenure.core.outcome import Completed, Crashed, Failed, Outcome, Released, Retried
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import CatchUp
from tenure.core.shape import Shape
from tenure.core.steps import Command, Invoke, Reply
from tenure.engines.native.keys import namespace_prefix, queue_prefix
from tenure.testing.server import RedisServer
from tests.simulation.actors import CODE, LATE_MS, STEP_MS, TASK, Operation, Process, schedule_of
from tests.simulation.history import PROCESSES, history
from tests.simulation.reading import Line
from tests.simulation.scheduler import Stage
from tests.simulation.values import Doing, Violation
from tests.support.engines import NATIVE, Options
from tests.support.native import dump
from tests.support.world import BOOM, NAMESPACE

Row: TypeAlias = dict[str, Any]
"""The values of the variables that can be seen, and in `who` the process that made the call."""
ACTIONS: Final = 400
MINUTE_MS: Final = STEP_MS + 1_000
CRASHES: Final = 99
"""No job is ended because its workers died: no model has that."""


def same(*names: str) -> tuple[tuple[str, str], ...]:
    """Variables that rows have under their own names."""
    return tuple((name, name) for name in names)


@dataclass(slots=True)
class Keys:
    """All keys of queues `q` and `p`, read after a call."""

    found: Mapping[bytes, Any]
    now_ms: int

    def of(self, queue: str, name: str, default: Any) -> Any:
        return self.found.get(f"{queue_prefix(NAMESPACE, queue)}:{name}".encode(), default)

    def jobs(self, queue: str = "q") -> dict[bytes, bytes]:
        return dict(self.of(queue, "jobs", {}))

    def held(self, queue: str = "q") -> dict[bytes, tuple[str, int]]:
        """The worker and the token of each job that is held."""
        start = f"{queue_prefix(NAMESPACE, queue)}:held:".encode()
        return {
            id: (name.removeprefix(start).decode(), int(claim.split()[0]))
            for name, claims in self.found.items()
            if name.startswith(start)
            for id, claim in claims.items()
        }


@dataclass
class Subject:
    """`seen`: names in a row, each with the expression of the model. `hidden`: steps of the model between two rows, at
    most. `still`: what they do not change. `view`: what makes two states of the model different. `guard`: which steps
    are looked at. `most`: about so many jobs."""

    model: ClassVar[str]
    seen: ClassVar[Sequence[tuple[str, str]]]
    hidden: ClassVar[int]
    view: ClassVar[str]
    still: ClassVar[str]
    guard: ClassVar[str] = "TRUE"
    most: ClassVar[int] = 5
    ids: list[bytes] = field(default_factory=list)
    """Jobs in the order of their enqueue."""
    rows: list[Row] = field(default_factory=list)

    def shape(self, number: int) -> Shape:
        return Shape()

    def outcomes(self, number: int) -> Sequence[Outcome]:
        return Completed(b"r", 0), Released()

    def look(self, keys: Keys) -> Row | None:
        """The values of a row. None: the model has not begun."""
        raise NotImplementedError

    def constants(self) -> dict[str, Any]:
        """The values of the model's constants for these rows, which get the model's own numbers."""
        raise NotImplementedError

    def note(self, keys: Keys, who: str) -> None:
        row = self.look(keys)
        if row is not None:
            self.rows.append(row | {"who": who})

    def drop_repeats(self) -> None:
        """Leave out rows in which nothing has changed."""
        pairs = zip([{}, *self.rows], self.rows, strict=False)
        self.rows = [row for before, row in pairs if {**row, "who": ""} != {**before, "who": ""}]

    def number(self, name: str, first: int = 1) -> None:
        """Give the tokens in sets or lists of this variable numbers in the order of their size."""
        known = sorted({token for row in self.rows for token in row[name]} - {0})
        for row in self.rows:
            row[name] = type(row[name])(token and first + known.index(token) for token in row[name])

    def fill(self, name: str, value: Any) -> None:
        """Give jobs that are not enqueued yet this value."""
        for row in self.rows:
            row[name] = [*row[name], *[value] * (len(self.ids) - len(row[name]))]

    def workers(self, name: str) -> frozenset[str]:
        return frozenset(value for row in self.rows for value in row[name] if value != "none")


@dataclass
class Lease(Subject):
    """The history of the first job."""

    model = "Lease"
    seen = (
        ("ready", "ready"),
        ("worker", "{e[1] : e \\in held}"),
        ("token", "{e[2] : e \\in held}"),
        ("done", "done # {}"),
    )
    hidden = 4
    most = 1
    view = "at, quiet, ready, held, token, mine, call, done # {}, [w \\in Workers |-> last[w].number = number[w]]"
    still = "token, done"
    guard = (
        "(lost' # lost \\/ call' # call) /\\ (\\A m \\in sent' : m.kind # \"extend\")"
        " /\\ \\A w \\in Workers : w # Trace[at + 1].who => call'[w] = call[w]"
    )
    """Every reply arrives, and only the process that made the call of a row sends anything before it."""

    def outcomes(self, number: int) -> Sequence[Outcome]:
        return Completed(b"r", 0), Released(), Retried(BOOM, LATE_MS), Retried(BOOM), Crashed(), Released(), Crashed()

    def look(self, keys: Keys) -> Row | None:
        jobs, held = keys.jobs(), keys.held()
        self.ids += [] if self.ids else sorted(jobs)[:1]
        if not self.ids:
            return None
        id = self.ids[0]
        claims = [held[id]] if id in held else []
        waiting = [*keys.of("q", "ready", []), *keys.of("q", "isolated", [])]
        waiting += [entry.partition(b"/")[2] for entry in keys.of("q", "scheduled", {})]
        return {
            "ready": id in waiting,
            "worker": {worker for worker, _ in claims},
            "token": {token for _, token in claims},
            "done": id not in jobs,
        }

    def constants(self) -> dict[str, Any]:
        self.number("token", first=4)
        flags = dict.fromkeys(("Fenced", "Extends", "Remembers", "Refuses", "Grows"), True)
        workers = self.workers("worker") | {row["who"] for row in self.rows}
        return {"Workers": workers, "MaxLost": 99, "MaxDeaths": 0, "MayJump": False, "MaxOthers": 99, **flags}


@dataclass
class Lane(Subject):
    model = "Lane"
    seen = same("line", "busy", "rank", "holder", "turns", "ended", "added")
    hidden = 1
    still = "parked"
    view = "at, quiet, line, busy, rank, holder, turns, ended, added"
    ranks: dict[bytes, int] = field(default_factory=dict)

    def shape(self, number: int) -> Shape:
        return Shape(lane="A")

    def outcomes(self, number: int) -> Sequence[Outcome]:
        return Completed(b"r", 0), Failed(BOOM), Retried(BOOM, LATE_MS), Retried(BOOM), Released(), Crashed()

    def look(self, keys: Keys) -> Row | None:
        entries = [entry.rpartition(b"/") for entry in keys.of("q", "lane:A", [])]
        busy = {id: int(text.split()[0]) for id, text in keys.of("q", "busy", {}).items()}
        self.ids += [id for _, _, id in entries if id not in self.ids]
        self.ranks |= busy | {id: int(rank[1:]) for rank, _, id in entries if rank}
        held, jobs = keys.held(), keys.jobs()
        return {
            "line": [self.ids.index(id) + 1 for _, _, id in entries],
            "busy": {self.ids.index(id) + 1 for id in busy},
            "rank": [self.ranks.get(id, 0) for id in self.ids],
            "holder": [held.get(id, ("none",))[0] for id in self.ids],
            "turns": b"A" in keys.of("q", "turns", []),
            "ended": {n for n, id in enumerate(self.ids, 1) if id not in jobs},
            "added": len(self.ids),
        }

    def constants(self) -> dict[str, Any]:
        self.number("rank")
        self.fill("rank", 0)
        self.fill("holder", "none")
        flags = dict.fromkeys(("Keeps", "Blocks", "Follows"), True)
        own = {"Jobs": len(self.ids), "Workers": self.workers("holder"), "Limit": 1, "MaxBack": 999}
        return {**own, "Policy": "continue", "Back": "before", **flags}


@dataclass
class Limit(Subject):
    """Each job has a lane of its own, and all have one limit of one job at a time. The trace ends when a job that
    crashed twice waits apart from its lane: the model has no suspects."""

    model = "Limit"
    seen = same("state", "token", "places", "opened")
    hidden = 5
    still = "most"
    view = "at, quiet, state, token, places, opened, running"
    tokens: dict[bytes, int] = field(default_factory=dict)
    is_over: bool = False

    def shape(self, number: int) -> Shape:
        return Shape(lane=f"L{number}", limits=(CODE["a"],))

    def look(self, keys: Keys) -> Row | None:
        jobs, held = keys.jobs(), keys.held()
        self.is_over = self.is_over or bool(keys.of("q", "isolated", []))
        if self.is_over:
            return None
        self.ids += sorted(set(jobs) - set(self.ids))
        self.tokens |= {id: token for id, (_, token) in held.items()}
        lanes = {id: b"L" + id[1:] for id in self.ids}
        gated, opened = keys.of("q", "gated", {}), keys.of("q", "opened", {})
        places = keys.found.get(f"{namespace_prefix(NAMESPACE)}:places:a".encode(), set())

        def state(id: bytes) -> str:
            return "done" if id not in jobs else "held" if id in held else "gate" if lanes[id] in gated else "turn"

        return {
            "state": [state(id) for id in self.ids],
            "token": [self.tokens.get(id, 0) for id in self.ids],
            "places": {int(entry.split()[1]) for entry in places},
            "opened": {n for n, id in enumerate(self.ids, 1) if lanes[id] in opened},
        }

    def constants(self) -> dict[str, Any]:
        self.number("token")
        self.number("places")
        self.fill("state", "turn")
        self.fill("token", 0)
        flags = dict.fromkeys(("Entries", "Awaits", "Stops", "Frees", "Opens", "Passes"), True)
        return {
            "Jobs": set(range(1, len(self.ids) + 1)),
            "MaxLost": 999,
            "MayRaise": False,
            "MayCancel": False,
            **flags,
        }


@dataclass
class Tick(Subject):
    model = "Tick"
    seen = same("clock", "planned", "ran", "count")
    hidden = 1
    still = "clock, planned, ran, count"
    view = "at, quiet, clock, planned, ran, count, ticks"
    base_ms: int = 0
    ran: dict[int, set[bytes]] = field(default_factory=dict)

    def look(self, keys: Keys) -> Row | None:
        state = keys.of("q", "ticks", {}).get(b"s1")
        if state is None:
            return None
        planned, _, _, _, _, ran, *_ = map(int, state.split()[:6])
        self.base_ms = self.base_ms or planned
        for id, record in keys.jobs().items():
            if at := re.search(rb"^[^\n]* s=(\d+)", record):
                self.ran.setdefault(self.index(int(at[1])), set()).add(id)
        count = [len(self.ran.get(n, ())) for n in range(1, max(self.ran, default=0) + 1)]
        return {
            "clock": self.index(keys.now_ms),
            "planned": self.index(planned),
            "ran": self.index(ran),
            "count": count,
        }

    def index(self, ms: int) -> int:
        return max(0, 1 + (ms - self.base_ms) // STEP_MS)

    def note(self, keys: Keys, who: str) -> None:
        """Time passes in steps of its own."""
        row = self.look(keys)
        while row and self.rows and self.rows[-1]["clock"] < row["clock"]:
            self.rows.append(self.rows[-1] | {"clock": self.rows[-1]["clock"] + 1})
        super().note(keys, who)

    def constants(self) -> dict[str, Any]:
        last = max(max(row["clock"], row["planned"]) for row in self.rows) + 1
        for row in self.rows:
            row["count"] = [*row["count"], *[0] * (last - len(row["count"]))]
        flags = dict.fromkeys(("Catches", "Compares", "Digests", "ByRedis", "MovesOn", "Checks"), True)
        return {"Last": last, "MaxPuts": 0, "MayJump": False, **flags}


@dataclass
class Channel(Subject):
    """Jobs of `q` are followed by jobs of `p`."""

    model = "Channel"
    seen = same("written", "trimmed", "last", "applied")
    hidden = 3
    still = "trimmed, last, applied"
    view = "at, quiet, written, trimmed, last, applied, page"
    numbers: list[int] = field(default_factory=list)
    there: set[bytes] = field(default_factory=set)
    applied: dict[bytes, int] = field(default_factory=dict)

    def outcomes(self, number: int) -> Sequence[Outcome]:
        return (Completed(b"r", 0, (NewJob("p", f"f{number}", b"p", task=TASK),)),)

    def look(self, keys: Keys) -> Row | None:
        entries = [msgspec.msgpack.decode(text, type=list[Any]) for text in keys.of("q", "out:p", [])]
        for number, id, *_ in entries:
            if int(number) not in self.numbers:
                self.numbers.append(int(number))
                self.ids.append(id.encode())
        taken = int(keys.of("p", "in", {}).get(b"q", 0))
        there = set(keys.jobs("p"))
        for id in there - self.there:
            self.applied[id] = self.applied.get(id, 0) + 1
        self.there = there
        return {
            "written": len(self.numbers),
            "trimmed": len(self.numbers) - len(entries),
            "last": sum(number <= taken for number in self.numbers),
            "applied": [self.applied.get(id, 0) for id in self.ids],
        }

    def constants(self) -> dict[str, Any]:
        self.fill("applied", 0)
        return {"N": len(self.ids), "Relays": {"r1", "r2"}, "MaxDeaths": 999, "Numbers": True, "Named": True}


SUBJECTS: Final[dict[str, type[Subject]]] = {one.model: one for one in (Lease, Lane, Limit, Tick, Channel)}


class Narrow(Process):
    """A process that does only what the model of its subject knows."""

    @property
    def about(self) -> Subject:
        return SUBJECTS[self.subject]()

    def enqueue(self, draw: random.Random, doing: Doing) -> Operation:
        numbers = [self.numbers() for _ in range(min(draw.randint(1, 2), self.about.most - len(self.model.jobs)))]
        if numbers:
            yield from self.add(
                [NewJob("q", f"q{n}", b"p", task=TASK, shape=self.about.shape(n)) for n in numbers], doing
            )

    def claim(self, draw: random.Random, doing: Doing) -> Operation:
        yield from self.take(doing, draw.choice([("q",), ("q", "p")]), draw.randint(1, 2), 4)

    def outcome(self, draw: random.Random, lease: HeldLease) -> Outcome:
        return draw.choice(self.about.outcomes(self.numbers()))

    def schedule(self, draw: random.Random, doing: Doing) -> Operation:
        _, known = yield from self.engine.schedules.schedule("q", "s1")
        if known is None:
            spec = schedule_of("q", "s1.0", "s1", CatchUp.ALL)
            first = self.model.first_ticks[spec.payload.decode()] = rules.first(spec, self.clock())
            yield from self.engine.schedules.put_schedule(spec, rules.digest_of(spec), "", first, first)


class Recorder(Stage):
    """Plays a history, and notes a row after each call."""

    def __init__(self, server: RedisServer, line: Line, seed: int, traced: Subject) -> None:
        self.traced = traced
        super().__init__(NATIVE, server, line, seed, Narrow)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pass_time(-(self.clock % HOUR))  # else ticks are due at other moments of each run
        self.options, self.subject, self.is_partitioned = Options(max_crashes=CRASHES), self.traced.model, False
        self.model.max_crashes = CRASHES
        self.observer = self.make_engine()
        self.processes = [self.make_process(kind) for kind in PROCESSES]
        self.strands = [self.make_strands(one) for one in self.processes]

    def execute(self, call: Command | Invoke, doing: Doing) -> tuple[Reply, TenureError | None]:
        try:
            return super().execute(call, doing)
        finally:
            self.traced.note(Keys(dump(self.server), self.clock), doing.actor)


def record(server: RedisServer, line: Line, seed: int, model: str, actions: int = ACTIONS) -> Subject:
    """Play the history of a seed. What it does wrong stands in the trace."""
    traced = SUBJECTS[model]()
    stage = Recorder(server, line, seed, traced)
    chosen = [
        one._replace(number=min(one.number, MINUTE_MS)) if one.what == "time" else one for one in history(seed, actions)
    ]
    with contextlib.suppress(Violation):
        stage.play(chosen)
    return traced
