"""What happens between the workers and Redis: S12, S13, S15, S16, S30."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tenure.core.job import ErrorInfo, NewJob, State
from tenure.core.outcome import Completed, Failed, Released, Retried
from tenure.core.shape import PLAIN, Shape
from tenure.redis.sync import SyncDriver
from tests.faults.harness import jobs, marks
from tests.faults.harness.proxy import Cut, Dice, Harm, Hole, Weather
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

HOLE_S: Final = 7.0
BACK_S: Final = 10.0
BLOCK_S: Final = 2.0
NOTICE_S: Final = 2.0
SLACK_S: Final = 1.0
"""For the machine: to run the test and several others at one time."""
ERROR: Final = ErrorInfo("Error", "x")
ERRORS: Final = 40
REFUSALS: Final = (
    b"-READONLY You can't write against a read only replica.\r\n",
    b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n",
    b"-LOADING Redis is loading the dataset in memory\r\n",
    b"-CLUSTERDOWN The cluster is down\r\n",
    b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
    b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
    b"-NOREPLICAS Not enough good replicas to write.\r\n",
)


@scenario(
    "S12",
    "the connection breaks after so many bytes of a request or of its reply, each operation",
    Bounds({"cuts": 100}),
    jobs=400,
)
def cuts(stage: Stage) -> None:
    """The connection breaks at every byte of every request and of every reply: what was asked for happens once."""
    stage.serve()
    proxy = stage.proxy()
    driver = SyncDriver(proxy.url)
    stage.open.callback(driver.close)
    engine: Any = stage.app.engine
    run = driver.run
    step = max(1, 8_000 // max(1, stage.size))
    done = [0]

    def lease(name: str) -> Any:
        (held,) = run(engine.lease(f"w{name}", [jobs.QUEUE], 1)).leases
        return held

    def enqueue(name: str, shape: Shape = PLAIN) -> None:
        job = NewJob(jobs.QUEUE, name, b"[0,1]", task=jobs.STEP, shape=shape)
        assert [answer.created for answer in run(engine.enqueue([job]))] == [True]

    def settle(outcome: Any) -> Callable[[str], None]:
        def act(name: str) -> None:
            assert run(engine.settle([(lease_of[name], outcome)])) == [True]

        return act

    def with_job(name: str) -> None:
        enqueue(name)

    def with_laned_job(name: str) -> None:
        enqueue(name, Shape(lane="lane"))

    def with_lease(name: str) -> None:
        enqueue(name)
        lease_of[name] = lease(name)

    lease_of: dict[str, Any] = {}
    operations: dict[str, tuple[str, Callable[[str], object], Callable[[str], object]]] = {
        "enqueue": ("enqueue", lambda name: None, enqueue),
        "claim": ("claim", with_job, lambda name: lease_of.update({name: lease(name)})),
        "complete": ("settle", with_lease, settle(Completed())),
        "retry": ("settle_full", with_lease, settle(Retried(ERROR))),
        "fail": ("settle_full", with_lease, settle(Failed(ERROR))),
        "release": ("settle_full", with_lease, settle(Released())),
        "extend": ("extend", with_lease, lambda name: run(engine.extend(lease_of[name], 5_000))),
        "beat": ("heartbeat", with_lease, lambda name: run(engine.heartbeat(f"w{name}", [jobs.QUEUE], []))),
        "leave": ("leave", with_lease, lambda name: run(engine.leave(f"w{name}", [jobs.QUEUE]))),
        "maintain": ("maintain", with_job, lambda name: run(engine.maintain([jobs.QUEUE], []))),
        "claim of a lane": ("claim_full", with_laned_job, lambda name: lease_of.update({name: lease(name)})),
    }
    for what, (script, prepare, act) in operations.items():
        _cut_everywhere(stage, proxy, what, script, step, prepare, act, done)
    stage.fault("cuts", done[0])
    stage.heal()


def _cut_everywhere(
    stage: Stage,
    proxy: Any,
    what: str,
    script: str,
    step: int,
    prepare: Callable[[str], object],
    act: Callable[[str], object],
    done: list[int],
) -> None:
    marker = marks.of(script)[0]
    for name in ("known", "measured"):  # the first time Redis may be sent the text of the script
        stage.server.command("FLUSHALL")
        prepare(name)
        act(name)
    request, reply = proxy.passed
    for of_reply in (False, True):
        keep = stage.draw.randrange(step)
        while keep < (reply if of_reply else request):
            stage.server.command("FLUSHALL")
            name = f"{what}-{of_reply}-{keep}"
            prepare(name)
            proxy.cut = Cut(marker, keep, of_reply)
            act(name)
            stage.expect(proxy.cut is None, f"{name}: the request did not come by")
            proxy.cut = None
            stage.sample()
            view = stage.app.inspect.queue(jobs.QUEUE)
            stage.expect(sum(view.counts.values()) == 1, f"{name}: the job is there {sum(view.counts.values())} times")
            counted = {total: view.totals.get(total, 0) for total in ("completed", "failed", "retried", "crashed")}
            wanted = {"complete": "completed", "fail": "failed", "retry": "retried"}.get(what)
            good = all(count == int(total == wanted) for total, count in counted.items())
            stage.expect(good, f"{name}: counted {counted}")
            done[0] += 1
            keep += step
    stage.server.command("FLUSHALL")


@scenario(
    "S13",
    "a black hole between workers and Redis swallows everything, both ways",
    Bounds({"swallowed": 2}, awake_s=BACK_S, drained_s=30, repeats=2),
    jobs=40,
)
def hole(stage: Stage) -> None:
    """For a while nothing arrives, either way, without a word: afterwards the workers come back by themselves."""
    stage.serve()
    proxy = stage.proxy()
    stage.fleet(2, 2, proxy.url)
    seconds = HOLE_S if stage.size <= hole.jobs else 60.0
    held = stage.add(2, jobs.STEP, 500)
    stage.until(lambda: stage.started(held), "jobs run")
    proxy.dig(Hole.ALL)
    stage.add(stage.size, jobs.STEP, 20)
    stage.spend(seconds)
    stage.fault("swallowed", proxy.swallowed)
    proxy.dig(Hole.NONE)
    stage.recover()


@scenario(
    "S15",
    "replies late by up to 300 ms and byte by byte, 5 % of the connections break",
    Bounds({"resets": 3}, awake_s=5, drained_s=20, repeats=0),
    jobs=60,
)
def weather(stage: Stage) -> None:
    """Slow replies, byte by byte, and broken connections: slower, and otherwise as ever."""
    stage.serve()
    dice = Dice([b"EVALSHA", b"EVAL", b"BLPOP"], 0.05, {Harm.LOST: 1, Harm.TORN: 1, Harm.UNSENT: 1})
    proxy = stage.proxy(dice, Weather(delay_s=0.3, drip=True))
    stage.fleet(2, 4, proxy.url)
    stage.add(stage.size, jobs.STEP, 30, 1)
    stage.until(lambda: sum(proxy.harmed.values()) >= 3 and stage.left() == 0, "work is done", 90)
    stage.fault("resets", sum(proxy.harmed.values()))
    stage.recover()


@scenario(
    "S16",
    "the connections of an idle worker are half open: no reset, no reply",
    Bounds({"half-open": 1}, repeats=0, drained_s=20),
    jobs=10,
)
def half_open(stage: Stage) -> None:
    """The other end of an idle worker's connections is gone, and nobody has said so."""
    stage.serve()
    proxy = stage.proxy()
    stage.fleet(1, 2, proxy.url)
    stage.add(2, jobs.STEP, 1)
    stage.drain()
    stage.spend(1.0)
    for _ in range(max(1, stage.size // 10)):
        # Redis does not know that the connection is dead: it gives the wake-up to it.
        stage.until(lambda: b"blocked_clients:1" in stage.server.command("INFO", "clients"), "the worker waits")
        proxy.dig(Hole.OLD)
        began = time.monotonic()
        id = stage.add_one(jobs.STEP, 1)
        stage.until(lambda id=id: stage.view(id).state is State.COMPLETED, "the job is done")  # type: ignore[misc]
        seconds = time.monotonic() - began
        bound = BLOCK_S + NOTICE_S + SLACK_S
        stage.expect(seconds <= bound, f"the dead connections were noticed after {seconds:.1f} s, expected {bound} s")
        proxy.dig(Hole.NONE)
        stage.fault("half-open")
    stage.fault("swallowed", proxy.swallowed)
    stage.recover()


@scenario(
    "S30",
    "READONLY, LOADING, BUSY, CLUSTERDOWN, UNBLOCKED, ... in answer to any call",
    Bounds({"error replies": ERRORS}, repeats=0, drained_s=20, awake_s=5),
    jobs=80,
)
def refusals(stage: Stage) -> None:
    """Redis answers with errors that pass: each is understood, nothing is done twice, nobody gives up."""
    stage.serve()
    dice = Dice([b"EVALSHA", b"EVAL", b"BLPOP"], 0.2, {Harm.ERROR: 1}, REFUSALS)
    proxy = stage.proxy(dice)
    producer = stage.app_at(proxy.url)
    stage.fleet(2, 4, proxy.url)
    for _ in range(stage.size // 4):
        stage.add_one(jobs.STEP, 5, app=producer)
        stage.add_one(jobs.STEP, 5, 1, app=producer)
        stage.tick()
    while proxy.harmed[Harm.ERROR] < ERRORS:
        stage.add_one(jobs.STEP, 5, 1, app=producer)
        stage.tick()
    proxy.calm = True
    stage.fault("error replies", proxy.harmed[Harm.ERROR])
    stage.recover()


ALL: Final = (cuts, hole, weather, half_open, refusals)
