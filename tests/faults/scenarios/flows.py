"""Flows while everything fails, on one server and on a cluster: S76, S77."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import Any, Final

from tenure import Flow, FlowState, NotDurable, RedisError, chain, group
from tenure.testing.server import RedisServer
from tests.faults.harness import ending, jobs, marks
from tests.faults.harness.proxy import Dice, Harm
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds
from tests.faults.scenarios.clusters import BACK_S, KEY, NODE_TIMEOUT_MS
from tests.faults.scenarios.failovers import DURABLE, surroundings
from tests.faults.scenarios.partings import FOLLOWS, is_master, part_replica
from tests.support.cluster import Cluster

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
NEXT_QUEUE: Final = "what_follows"
"""The queue of what follows in S77: its node lives. The two queues of the members are on one other node each."""
SLOW_MS: Final = 1_000
LAG_S: Final = 3.0
"""Calls have given up waiting for the replica by then, and maintenance has looked at what waits."""
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


@scenario(
    "S77",
    "flows on a cluster: a master is killed with ends and members that its replica lacks; durable=1",
    Bounds({"failovers": 2, "ends meanwhile": 20}, drained_s=60, awake_s=BACK_S),
    jobs=120,
)
def failed_over(stage: Stage) -> None:
    """Other nodes have not heard of what the failover undoes, so it comes again, once."""
    made = Cluster(stage.binary, replicas=1, node_timeout_ms=NODE_TIMEOUT_MS, options=FOLLOWS)
    cluster = stage.open.enter_context(made)
    stage.sampling = False
    environment = {DURABLE: "1"}
    with surroundings(**environment):
        stage.borrow(cluster.owner(KEY), cluster.url)
    args = [word for queue in (jobs.QUEUE, NEXT_QUEUE, *jobs.FLOWS) for word in ("-q", queue)]
    stage.fleet(3, SLOTS, cluster.url, args=args, environment=environment)
    flows: dict[str, tuple[Flow, int]] = {}
    for queue in jobs.FLOWS:
        key = f"{{{jobs.NAMESPACE}:{queue}}}"
        master, replica = cluster.owner(key), cluster.replica(key)
        assert cluster.owner(KEY) is cluster.owner(f"{{{jobs.NAMESPACE}:{NEXT_QUEUE}}}") is not master
        for n in range(max(1, stage.size // MEMBERS // len(jobs.FLOWS))):
            with suppress(NotDurable):  # nobody was promised this one
                make(stage, f"{queue}{n}", flows, SLOW_MS, NEXT_QUEUE)
        before = len(_lines(stage))
        part_replica(master)
        stage.spend(LAG_S)
        master.kill()
        stage.fault("ends meanwhile", sum(line[0] == "done" for line in _lines(stage)[before:]))
        stage.fault("failovers")
        stage.until(partial(is_master, replica), "the replica of the killed master was to take over")
        master.start()
        cluster.until_ok()
        stage.until(partial(_follows, master), "it was to follow the new one")
    stage.until(lambda: are_over(stage, flows), "the flows end", 120)
    followed = stage.app.inspect.queue(NEXT_QUEUE).totals["completed"]
    expected = len({(kind, name) for kind, name, *_ in _lines(stage) if kind in ("success", "end")})
    stage.expect(followed == expected, f"{followed} jobs followed flows, expected {expected}")
    judge(stage, flows)
    stage.recover()


def _follows(server: RedisServer) -> bool:
    """Whether the server is a replica with a link to its master."""
    return bool(server.command("ROLE")[3] == b"connected")


def make(
    stage: Stage, name: str, made: dict[str, tuple[Flow, int]], most_ms: int = 80, next_queue: str = jobs.FLOWS[0]
) -> None:
    """A group in two queues; some members fail, some for good, some add others, and one is a chain."""
    draw, tasks = stage.draw, stage.app.tasks
    fails = draw.random() < 0.3
    calls: list[Any] = []
    for n in range(MEMBERS - 1):
        member = tasks["member"].using(queue=draw.choice(jobs.FLOWS))
        is_fatal = fails and n == 0
        ms, failures, adds = draw.randint(1, most_ms), draw.choice([0, 0, 1]), draw.choice([0, 0, 2])
        calls.append(member.call(name, f"m{n}", ms, failures, is_fatal, adds))
    first = tasks["link"].call(0)
    calls.append(chain(first, *(tasks["link"].using(queue=draw.choice(jobs.FLOWS)) for _ in range(LINKS - 1))))
    success, end = (tasks["follower"].using(queue=next_queue).call(name, kind) for kind in ("success", "end"))
    made[name] = group(calls).enqueue(success, end), int(fails)


def are_over(stage: Stage, made: dict[str, tuple[Flow, int]]) -> bool:
    try:
        return all(flow.view().state is not FlowState.OPEN for flow, _ in made.values()) and not any(
            ending.left(stage.app, queue) for queue in (*jobs.FLOWS, NEXT_QUEUE)
        )
    except RedisError:
        return False


def _lines(stage: Stage) -> list[list[str]]:
    """What the jobs have written down, in its order."""
    return [line.split() for line in (stage.folder / jobs.FLOWS[0]).read_text().splitlines()]


def judge(stage: Stage, made: dict[str, tuple[Flow, int]]) -> None:
    """Compare what ran, in its order, with what the flows should be."""
    ids: dict[tuple[str, ...], set[str]] = defaultdict(set)
    first: dict[tuple[str, ...], int] = {}
    for at, (*what, id) in enumerate(_lines(stage)):
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


ALL: Final = (flows, failed_over)
