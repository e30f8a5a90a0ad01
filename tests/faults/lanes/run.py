"""One run: a Redis, a proxy that harms, workers, a producer, a human and chaos; then the judgement of the checker."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from leasehold import Leasehold
from leasehold.core.job import ENDS, State
from leasehold.core.limits import PAGE_MAX
from leasehold.core.shape import LaneFailure, LaneState
from leasehold.engines.native.scripts import SCRIPTS
from leasehold.redis.binary import find_server
from leasehold.testing.server import RedisServer, keys_of
from tests.faults.lanes import jobs
from tests.faults.lanes.chaos import Chaos, Plan, Sites, torn_ends
from tests.faults.lanes.checker import Bounds, Policy, Report, check
from tests.faults.lanes.fleet import Fleet
from tests.faults.lanes.history import Diary, Event, Op, Tail, read
from tests.faults.lanes.human import Human
from tests.faults.lanes.producer import Mixture, Producer
from tests.faults.lanes.proxy import Dice, Proxy

TICK_S: Final = 0.01
COUNT_S: Final = 0.1
SAY_S: Final = 2.0
STALL_S: Final = 60.0
"""A queue in which nothing begins for so long does not go on by itself."""
STILL_S: Final = 0.5
"""A queue that has been empty for so long stays empty."""
HARMED: Final = ("enqueue", "claim", "settle")
AT_ONCE: Final = 0.6
"""The part of the jobs that is enqueued before the workers start."""
LISTED: Final = 10
REDIS_ARGS: Final = ("--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
"""What was answered is in the file, whatever becomes of the process."""


@dataclass(frozen=True, slots=True)
class Form:
    """How large a run is, and how rough."""

    lanes: int = 200
    jobs: int = 500
    workers: int = 4
    slots: int = 4
    limit_s: float = 1_800.0
    harm: float = 0.01
    plan: Plan = field(default_factory=Plan)
    mixture: Mixture = field(default_factory=Mixture)
    bounds: Bounds = field(default_factory=Bounds)


SHORT: Final = Form(
    lanes=20,
    jobs=25,
    limit_s=50.0,
    harm=0.03,
    plan=Plan(kill_s=1.0, stop_s=0.5, restart_s=2.0, most=2),
    mixture=Mixture(ms=(1, 15), slow=5.0, retried=6.0, fatal=2.0),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went. `refused`: outcomes that the workers say they brought too late. `torn`: how often Redis was
    killed in the middle of a write. `leftover`: keys of lanes that nobody needs any more."""

    policy: Policy
    seed: int
    seconds: float
    report: Report
    harmed: dict[str, int]
    refused: int
    torn: int
    leftover: list[str]

    @property
    def ok(self) -> bool:
        return self.report.ok and not self.leftover


class Stuck(AssertionError):
    """The run did not come to its end in time."""


def run(policy: Policy, seed: int, form: Form, folder: Path, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run it and judge it. The history stays in `folder`. Raises `Stuck` with the state of the queue."""
    began = time.monotonic()
    diary = Diary(folder)
    draw = random.Random(seed)
    with contextlib.ExitStack() as stack:
        stack.callback(diary.close)
        server = stack.enter_context(RedisServer(find_server(), args=REDIS_ARGS))
        dice = Dice([mark for name in HARMED for mark in _marks(name)], form.harm)
        proxy = stack.enter_context(Proxy(server.socket_path, dice, random.Random(draw.random())))
        direct = stack.enter_context(jobs.make_app(server.url))
        direct.control.configure(jobs.QUEUE, lane_failure=LaneFailure(policy.value))
        show = Show(policy, seed, form, direct, proxy, say)
        producer = Producer(proxy.url, form.lanes, form.jobs, form.mixture, random.Random(draw.random()), diary)
        stack.callback(producer.close)
        producer.put(round(form.jobs * AT_ONCE))
        environment = {"LEASEHOLD_URL": proxy.url, jobs.FOLDER: str(folder)}
        fleet = stack.enter_context(Fleet(form.workers, form.slots, environment, folder, diary))
        human = Human(server.url, policy, folder, random.Random(draw.random()), diary)
        stack.callback(human.close)
        fleet.wait_until_started()
        sites = Sites(server, fleet, Tail(folder), diary, lambda: producer.put(1))
        chaos = Chaos(form.plan, sites, server.url, random.Random(draw.random()))
        stack.callback(chaos.end)
        _until_drained(form, show, producer, human, chaos, began + form.limit_s, fleet)
        chaos.end()
        refused, torn = fleet.refused(), torn_ends(server)
        leftover = _write_ends(direct, server, diary, sum(proxy.harmed.values()))
    report = check(read(folder), policy, form.bounds)
    harmed = {harm.value: count for harm, count in proxy.harmed.items()}
    return Outcome(policy, seed, time.monotonic() - began, report, harmed, refused, torn, leftover)


@dataclass(slots=True)
class Show:
    """Says how the run goes, and what the queue looks like."""

    policy: Policy
    seed: int
    form: Form
    app: Leasehold
    proxy: Proxy
    say: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    said: float = 0.0

    def left(self) -> int:
        """How many jobs have not ended."""
        counts = self.app.inspect.queue(jobs.QUEUE).counts
        return sum(count for state, count in counts.items() if state not in ENDS)

    def progress(self, ended: int, chaos: Chaos) -> None:
        now = time.monotonic()
        if now - self.said >= SAY_S:
            self.said = now
            total = self.form.lanes * self.form.jobs
            self.say(
                f"{now - self.began:6.1f} s  {ended:,} of {total:,} ended, {chaos.tail.starts:,} runs, "
                f"{chaos.summary()}, {sum(self.proxy.harmed.values())} replies harmed"
            )

    def state(self) -> str:
        """The queue as it is now, for who has to find out why nothing goes on."""
        inspect, lines = self.app.inspect, [f"policy {self.policy.value}, seed {self.seed}"]
        view = inspect.queue(jobs.QUEUE)
        lines.append(f"counts {dict(view.counts)}\ntotals {view.totals}\nparked lanes {view.parked_lanes}")
        for lane_state in (LaneState.READY, LaneState.BUSY, LaneState.PARKED):
            lines += [str(one) for one in inspect.lanes(jobs.QUEUE, lane_state).lanes[:LISTED]]
        for state in (State.ACTIVE, State.SCHEDULED, State.READY, State.FAILED):
            lines += [str(one)[:400] for one in inspect.page(jobs.QUEUE, state).jobs[:LISTED]]
        return "\n".join(lines)


def _until_drained(
    form: Form, show: Show, producer: Producer, human: Human, chaos: Chaos, deadline: float, fleet: Fleet
) -> None:
    """Everything that happens, in one thread, until nothing is left."""
    waves = max(1, form.jobs // 10)
    reserve = producer.left // 2
    empty_since: float | None = None
    count_at, starts, started_at = 0.0, 0, time.monotonic()
    while True:
        now = time.monotonic()
        chaos.go_on()
        human.look()
        if now >= count_at:
            count_at = now + COUNT_S
            left = show.left()
            chaos.ceased = chaos.ceased or (chaos.enough and producer.left == 0 and left < form.lanes)
            chaos.tail.poll()
            show.progress(producer.enqueued - left, chaos)
            if chaos.tail.starts > starts or not left:
                starts, started_at = chaos.tail.starts, now
            # Some are kept for the faults that are still to come: each asks for a wave of its own.
            free = producer.left - (0 if chaos.enough else reserve)
            if left < form.lanes * waves and free > 0:
                producer.put(min(waves, free))
            empty_since = None if left or producer.left or human.busy else empty_since or now
        if empty_since is not None and now - empty_since > STILL_S:
            return
        if now > deadline or now - started_at > STALL_S:
            what = (
                f"nothing began for {STALL_S:.0f} s" if now <= deadline else f"not drained after {form.limit_s:.0f} s"
            )
            raise Stuck(f"{what}\n{show.state()}\n{fleet.trouble()}")
        time.sleep(TICK_S)


def _write_ends(app: Leasehold, server: RedisServer, diary: Diary, harmed: int) -> list[str]:
    """Write down what Redis says of every job. Answers the keys of lanes that are still there."""
    for state in sorted(ENDS):
        diary.write_all([Event(Op.FINAL, job=id, token=token, note=state.value) for id, token in _ended(app, state)])
    totals = app.inspect.queue(jobs.QUEUE).totals
    diary.write_all([Event(Op.TOTAL, note=name, n=value) for name, value in totals.items()])
    diary.write(Event(Op.CUT, n=harmed))
    return sorted(name.decode() for name in keys_of(server) if b"lane0" in name)


def _ended(app: Leasehold, state: State) -> Iterator[tuple[str, int]]:
    offset, total = 0, 1
    while offset < total:
        page = app.inspect.page(jobs.QUEUE, state, offset, PAGE_MAX)
        yield from ((view.id, int(view.token or 0)) for view in page.jobs)
        offset, total = offset + PAGE_MAX, page.total


def _marks(name: str) -> list[bytes]:
    """How a script is called: by its digest, or, when Redis does not know it, by its text."""
    script = SCRIPTS[name]
    return [script.sha.encode(), script.text[:60].encode()]
