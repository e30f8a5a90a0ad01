"""Flows while everything fails: S76."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from tenure import Flow, FlowState, RedisError, chain, group
from tests.faults.harness import ending, jobs, marks
from tests.faults.harness.proxy import Dice, Harm
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

SLOTS: Final = 4
KILLS: Final = 4
RESTARTS: Final = 2
MEMBERS: Final = 12
LINKS: Final = 4
JOBS_A_KILL: Final = 60
HARMED: Final = (
    *("claim", "claim_full", "settle", "settle_full", "maintain"),
    *("outgoing", "take", "forget_sent", "flow_grow", "flow_change"),
)
HARMS: Final = {Harm.LOST: 6, Harm.TORN: 3, Harm.UNSENT: 1}


@scenario(
    "S76",
    "flows while workers are killed and stopped, replies are cut, and Redis is killed",
    Bounds({"kills": KILLS, "stops": 1, "replies harmed": 1}, drained_s=60, awake_s=20),
    jobs=KILLS * JOBS_A_KILL,
)
def flows(stage: Stage) -> None:
    """What follows a flow comes once, and not before the last end; each element of a chain comes once, in order."""
    stage.serve()
    args = [word for queue in (jobs.QUEUE, *jobs.FLOWS) for word in ("-q", queue)]
    proxy = stage.proxy(Dice(marks.of(*HARMED), 0.03, HARMS))
    fleet = stage.fleet(3, SLOTS, args=args)
    stage.fleet(2, SLOTS, proxy.url, args=args)
    kills = max(KILLS, stage.size // JOBS_A_KILL)
    made: dict[str, tuple[Flow, int]] = {}
    for n in range(kills):
        for _ in range(max(1, JOBS_A_KILL // MEMBERS)):
            make(stage, f"flow{len(made)}", made)
        stage.spend(stage.draw.uniform(0.3, 1.0))
        fleet.kill(stage.draw.choice(fleet.running), family=n % 2 == 0)
        if n % max(1, kills // RESTARTS) == 0:
            stage.restart(0)
    pid = stage.draw.choice(fleet.running)
    fleet.stop(pid)
    stage.spend(4.0)
    fleet.let_go_on(pid)
    proxy.calm = True
    stage.fault("replies harmed", sum(proxy.harmed.values()))
    stage.until(lambda: are_over(stage, made), "the flows end", 120)
    judge(stage, made)
    stage.recover()


def make(stage: Stage, name: str, made: dict[str, tuple[Flow, int]]) -> None:
    """A group in two queues; some members fail, some for good, some add others, and one is a chain."""
    draw, tasks = stage.draw, stage.app.tasks
    fails = draw.random() < 0.3
    calls: list[Any] = []
    for n in range(MEMBERS - 1):
        member = tasks["member"].using(queue=draw.choice(jobs.FLOWS))
        is_fatal = fails and n == 0
        calls.append(
            member.call(name, f"m{n}", draw.randint(1, 80), draw.choice([0, 0, 1]), is_fatal, draw.choice([0, 0, 2]))
        )
    first = tasks["link"].call(0)
    calls.append(chain(first, *(tasks["link"].using(queue=draw.choice(jobs.FLOWS)) for _ in range(LINKS - 1))))
    success, end = (tasks["follower"].call(name, kind) for kind in ("success", "end"))
    made[name] = group(calls).enqueue(success, end), int(fails)


def are_over(stage: Stage, made: dict[str, tuple[Flow, int]]) -> bool:
    try:
        return all(flow.view().state is not FlowState.OPEN for flow, _ in made.values()) and not any(
            ending.left(stage.app, queue) for queue in jobs.FLOWS
        )
    except RedisError:
        return False


def judge(stage: Stage, made: dict[str, tuple[Flow, int]]) -> None:
    """Compare what ran, in its order, with what the flows should be."""
    lines = [line.split() for line in (stage.folder / jobs.FLOWS[0]).read_text().splitlines()]
    ids: dict[tuple[str, ...], set[str]] = defaultdict(set)
    first: dict[tuple[str, ...], int] = {}
    for at, (*what, id) in enumerate(lines):
        key = (*what, id.rpartition(".")[0]) if what[0] == "link" else tuple(what)
        ids[key].add(id)
        first.setdefault(key, at)
    for name, (flow, fatal) in made.items():
        view = flow.view()
        members = {what[2] for what in ids if what[:2] == ("done", name)}
        stage.expect(view.left == 0, f"{name}: {view.left} members are left")
        stage.expect((view.completed, view.failed) == (len(members) + 1 - fatal, fatal), f"{name}: {view}, {members}")
        for one in members:
            stage.expect(len(ids["done", name, one]) == 1, f"{name}: {one} is {len(ids['done', name, one])} jobs")
        followed = {kind: ids.get((kind, name, "-"), set()) for kind in ("success", "end")}
        counts = {kind: len(found) for kind, found in followed.items()}
        stage.expect(counts == {"success": 1 - fatal, "end": 1}, f"{name}: what followed: {counts}, failed: {fatal}")
        inner = f"{flow.id.partition('/')[2]}.{MEMBERS - 1}"
        links = [first.get(("link", str(n), inner), -1) for n in range(LINKS)]
        stage.expect(links == sorted(links) and links[0] >= 0, f"{name}: its chain ran in the order {links}")
        ends = [first["done", name, one] for one in members] + links
        stage.expect(max(ends) < first.get(("end", name, "-"), 0), f"{name}: what follows came early")
        flow.forget()


ALL: Final = (flows,)
