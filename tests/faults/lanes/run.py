"""One run: a Redis, a proxy that harms, workers, a producer, a human and chaos; then the judgement of the checker."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tenure import Tenure
from tenure.core.job import State
from tenure.core.shape import LaneFailure, LaneState
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer, keys_of
from tests.faults.harness import jobs, marks
from tests.faults.harness.chaos import Chaos, Plan, Sites
from tests.faults.harness.checker import check
from tests.faults.harness.ending import Stuck, left, write_ends, write_totals
from tests.faults.harness.fleet import Fleet
from tests.faults.harness.history import Diary, Event, Op, Tail, read
from tests.faults.harness.proxy import Dice, Proxy
from tests.faults.harness.torn import torn_ends
from tests.faults.harness.verdict import Bounds, Policy, Report
from tests.faults.lanes.human import Human
from tests.faults.lanes.producer import Mixture, Producer

TICK_S: Final = 0.01
COUNT_S: Final = 0.1
SAY_S: Final = 2.0
STALL_S: Final = 60.0
"""A queue in which nothing begins for so long does not go on by itself."""
STILL_S: Final = 0.5
"""A queue that has been empty for so long stays empty."""
HARMED: Final = ("enqueue", "enqueue_shaped", "claim", "claim_full", "settle", "settle_full")
WANTED: Final = {"held kills": 1, "stale": 1, "cut": 1, "held restarts": 1}
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
    plan: Plan = field(default_factory=lambda: Plan(kill_s=2.0, stop_s=4.0, restart_s=20.0))
    mixture: Mixture = field(default_factory=Mixture)


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


def run(policy: Policy, seed: int, form: Form, folder: Path, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run it and judge it. The history stays in `folder`. Raises `Stuck` with the state of the queue."""
    began = time.monotonic()
    diary = Diary(folder)
    draw = random.Random(seed)
    with contextlib.ExitStack() as stack:
        stack.callback(diary.close)
        server = stack.enter_context(RedisServer(find_server(), args=REDIS_ARGS))
        dice = Dice(marks.of(*HARMED), form.harm)
        proxy = stack.enter_context(Proxy(server.socket_path, dice, random.Random(draw.random())))
        direct = stack.enter_context(jobs.make_app(server.url))
        direct.control.configure(jobs.QUEUE, lane_failure=LaneFailure(policy.value))
        show = Show(policy, seed, form, direct, proxy, say)
        producer = Producer(proxy.url, form.lanes, form.jobs, form.mixture, random.Random(draw.random()), diary)
        stack.callback(producer.close)
        producer.put(round(form.jobs * AT_ONCE))
        environment = {"TENURE_URL": proxy.url, jobs.FOLDER: str(folder)}
        fleet = stack.enter_context(Fleet(form.workers, form.slots, environment, folder, diary))
        human = Human(server.url, policy, folder, random.Random(draw.random()), diary)
        stack.callback(human.close)
        fleet.wait_until_started()
        sites = Sites(server, fleet, Tail(folder), diary, producer.put_for_fault)
        chaos = Chaos(form.plan, sites, server.url, random.Random(draw.random()))
        stack.callback(chaos.end)
        _until_drained(form, show, producer, human, chaos, began + form.limit_s, fleet)
        chaos.end()
        refused, torn = fleet.refused(), torn_ends(server)
        write_totals(write_ends(direct, jobs.QUEUE, diary), diary)
        diary.write(Event(Op.FAULT, note="cut", n=sum(proxy.harmed.values())))
        leftover = sorted(name.decode() for name in keys_of(server) if b"lane0" in name)
    stands = {} if policy is Policy.SKIP else {"stands": 1}
    report = check(read(folder), policy, Bounds({**WANTED, **stands}))
    harmed = {harm.value: count for harm, count in proxy.harmed.items()}
    return Outcome(policy, seed, time.monotonic() - began, report, harmed, refused, torn, leftover)


@dataclass(slots=True)
class Show:
    """Says how the run goes, and what the queue looks like."""

    policy: Policy
    seed: int
    form: Form
    app: Tenure
    proxy: Proxy
    say: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    said: float = 0.0

    def left(self) -> int:
        """How many jobs have not ended."""
        return left(self.app, jobs.QUEUE)

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
    """Everything that happens, in one thread, until nothing is left and each kind of fault has hit."""
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
            waiting = show.left()
            chaos.ceased = chaos.ceased or (chaos.enough and producer.left == 0 and waiting < form.lanes)
            chaos.tail.poll()
            show.progress(producer.enqueued - waiting, chaos)
            if chaos.tail.starts > starts or not waiting:
                starts, started_at = chaos.tail.starts, now
            # Some are kept for the faults that are still to come: each asks for waves of its own.
            free = producer.left - (0 if chaos.enough else reserve)
            if waiting < form.lanes * waves and free > 0:
                producer.put(min(waves, free))
            is_over = not waiting and producer.left == 0 and not human.busy and chaos.enough
            empty_since = (empty_since or now) if is_over else None
        if empty_since is not None and now - empty_since > STILL_S:
            return
        if now > deadline or now - started_at > STALL_S:
            what = (
                f"nothing began for {STALL_S:.0f} s" if now <= deadline else f"not drained after {form.limit_s:.0f} s"
            )
            raise Stuck(f"{what}\n{show.state()}\n{fleet.trouble()}")
        time.sleep(TICK_S)
