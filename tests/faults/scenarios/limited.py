"""Limits of rate and concurrency while everything fails: S71."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from tenure import Limit
from tenure.core.rates import LimitRule
from tenure.engines.native.keys import queue_prefix
from tenure.testing.server import available_binaries
from tests.faults.harness import jobs, marks
from tests.faults.harness.chaos import Chaos, Plan
from tests.faults.harness.fleet import Fleet
from tests.faults.harness.history import Event, Op, read
from tests.faults.harness.places import SLACK_US, Ledger, Sampler, distribution
from tests.faults.harness.proxy import Dice, Harm
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.torn import forget_torn_end
from tests.faults.harness.verdict import Bounds

SLOTS: Final = 4
LIMITS: Final = (
    Limit("narrow", concurrency=2),
    Limit("wide", concurrency=5, cost=2),
    Limit("rate", per_second=60, burst=5),
    Limit("both", concurrency=4, per_second=40, burst=2),
)
KILLS: Final = 3
JOBS_A_KILL: Final = 20
KILL_S: Final = 10.0
"""How long a kill may take, with the start of the worker that follows."""
WAITING: Final = 40
"""The scenario keeps this many jobs waiting."""
HARMED: Final = ("claim", "claim_full", "settle", "settle_full", "heartbeat", "leave", "maintain")
HARMS: Final = {Harm.LOST: 6, Harm.TORN: 3, Harm.UNSENT: 1}
BACK_S: Final = 20.0
"""How long a lease may outlive its holder, on a busy machine."""


def _missing() -> str:
    newest = list(available_binaries())[-1]
    return "" if int(newest.split(".")[0]) >= 7 else "a Redis whose append-only file has several parts (7.0)"


@scenario(
    "S71",
    "limits while workers are killed and stopped, replies are cut, and Redis is killed",
    Bounds({"held kills": KILLS, "stops": 1, "restarts": 1, "replies harmed": 1}, drained_s=60, awake_s=20),
    jobs=KILLS * JOBS_A_KILL,
    missing=_missing,
)
def limited(stage: Stage) -> None:
    """No limit is exceeded, no place is lost, and each job runs."""
    stage.serve()
    ledger = Ledger(stage.server, stage.folder / "aof")
    ledger.keep()
    sampler = stage.open.enter_context(closing(Sampler(stage.server.url, queue_prefix(jobs.NAMESPACE, jobs.QUEUE))))
    proxy = stage.proxy(Dice(marks.of(*HARMED), 0.03, HARMS))
    fleet = stage.fleet(3, SLOTS)
    stage.fleet(2, SLOTS, proxy.url)
    kills = max(KILLS, stage.size // JOBS_A_KILL)
    chaos = stage.chaos(Plan(kill_s=0.4, stop_s=4.0, most=kills, least=max(1, kills // 10), spare=1), fleet)
    ids: list[str] = []
    restarts = max(1, kills // 25)
    for n in range(1, restarts + 1):
        _kill(stage, fleet, chaos, kills * n // restarts, ids)
        fleet.wait_until_started()
        _restart(stage, ledger)
    chaos.ceased = True
    chaos.end()
    proxy.calm = True
    stage.fault("replies harmed", sum(proxy.harmed.values()))
    fleet.wait_until_started()
    stage.recover()
    judge(stage, ledger, sampler, ids)


def _kill(stage: Stage, fleet: Fleet, chaos: Chaos, kills: int, ids: list[str]) -> None:
    """Add jobs until this many workers were killed."""

    def enough() -> bool:
        if stage.left() < WAITING:
            for _ in range(WAITING):
                chosen = stage.draw.sample(LIMITS, stage.draw.choice([1, 1, 2, 3]))
                ids.append(stage.add_one(jobs.STEP, stage.draw.randint(60, 250), limits=chosen))
        return fleet.kills >= kills and chaos.enough

    stage.until(enough, "kills", 60 + KILL_S * kills)


def _restart(stage: Stage, ledger: Ledger) -> None:
    stage.diary.write(Event(Op.RESTART, phase="invoke", n=stage.app.limits.get("narrow").active))
    stage.server.restart(kill=True)
    ledger.keep()
    forget_torn_end(stage.server)
    ledger.keep()
    stage.diary.write(Event(Op.RESTART, phase="ok"))


def judge(stage: Stage, ledger: Ledger, sampler: Sampler, ids: list[str]) -> None:
    """Compare what was held with what may be held."""
    rules: dict[str, LimitRule] = {one.name: one.rules({})[0] for one in LIMITS}
    starts = 0
    for name, held in ledger.replay(rules).items():
        most, starts = rules[name].concurrency, starts + held.starts
        stage.expect(most is None or held.most <= most, f"{name}: {held.most} places were held, allowed are {most}")
        stage.expect(held.early_us <= SLACK_US, f"{name}: a job started {held.early_us} µs before its rate allows it")
        stage.expect(not held.now, f"{name}: {len(held.now)} places are lost: {sorted(held.now)[:5]}")
        stage.expect(stage.app.limits.get(name).active == 0, f"{name}: places are held in the end")
        print(f"    {name}: {held.starts:,} starts, {held.most} places at most, {max(0, held.early_us)} µs early")
    stage.expect(starts >= len(ids), f"{starts} starts under limits of {len(ids)} jobs")
    back: dict[Op, list[float]] = {Op.KILL: [], Op.STOP: []}
    for event in read(stage.folder):
        if event.op in back:
            back[event.op] += sampler.until_gone(event.target, event.mono_ns)
    for op, seconds in back.items():
        stage.expect(
            not seconds or max(seconds) < BACK_S, f"places were back {max(seconds, default=0):.1f} s after a {op}"
        )
        print(f"    places of a worker that was hit by a {op}: back after, of {distribution(seconds)}")


ALL: Final = (limited,)
