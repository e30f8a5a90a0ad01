"""Processes that hang and go on as if nothing had happened: S06, S07."""

from __future__ import annotations

from typing import Final

from tests.faults.harness import jobs, marks
from tests.faults.harness.chaos import Plan
from tests.faults.harness.hands import Hands
from tests.faults.harness.proxy import Dice, Harm
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

SLOTS: Final = 3
SHORT_S: Final = 0.3
"""A lease by hand that is meant to lapse."""
LONG_S: Final = 60.0
LAPSE_S: Final = 15.0


@scenario(
    "S06",
    "workers are stopped (SIGSTOP) for longer than their lease and go on; leases by hand lapse",
    Bounds(
        {"stops": 2, "stale": 3, "leases by hand that lapsed": 4},
        drained_s=20,
        awake_s=5,
        repeats=4,
        repeats_a_hit=2 * SLOTS,
    ),
    jobs=60,
)
def zombies(stage: Stage) -> None:
    """Stopped for longer than their lease, then let go on: what they bring is refused, all of it."""
    stage.serve()
    _lapse_by_hand(stage)
    fleet = stage.fleet(2, SLOTS)
    stops = max(2, stage.size // 50)

    def more() -> None:
        stage.add(4, jobs.STEP, stage.draw.randint(500, 900))

    chaos = stage.chaos(Plan(stop_s=0.2, most=stops, least=stops), fleet, more)
    stage.add(stage.size, jobs.STEP_IN_THREAD, 30)
    stage.until(lambda: chaos.enough, "stops", 30.0 * stops)
    stage.recover()


def _lapse_by_hand(stage: Stage) -> None:
    """Leases lapse, others take the jobs: with the first ones nothing can be done any more."""
    hands = Hands(stage, stage.app)
    acts = (hands.complete, hands.retry, hands.fail, hands.release)
    stage.add(len(acts), jobs.STEP, 1)
    first = {lease.id: lease for _ in acts if (lease := hands.lease(SHORT_S)) is not None}
    second = {}

    def taken() -> bool:
        if (lease := hands.lease(LONG_S)) is not None:
            second[lease.id] = lease
        return len(second) == len(acts)

    stage.until(taken, "leases that lapsed are given to others", LAPSE_S)
    for id, act in zip(second, acts, strict=True):
        stage.expect(not hands.extend(first[id], LONG_S), f"{id} was extended by who had lost it")
        stage.expect(not act(first[id]), f"{id} was settled by who had lost it")
        stage.expect(hands.complete(second[id]), f"{id} could not be completed by who holds it")
        stage.fault("leases by hand that lapsed")


@scenario(
    "S07",
    "workers that give back the jobs of dead ones are stopped meanwhile, their requests arrive late",
    Bounds({"stops": 2, "held kills": 2, "late": 3}, drained_s=20, repeats=2, repeats_a_hit=2 * SLOTS),
    jobs=100,
)
def cleaners(stage: Stage) -> None:
    """Who gives back a dead worker's jobs is stopped in the middle of it, and what it had asked for arrives when others
    have done it and run the jobs already."""
    stage.serve()
    late = Dice(marks.of("maintain", "heartbeat", "claim", "claim_full"), 0.1, {Harm.LATE: 3, Harm.LOST: 1})
    proxy = stage.proxy(late)
    fleet = stage.fleet(3, SLOTS, proxy.url)
    hits = max(2, stage.size // 50)

    def more() -> None:
        stage.add(6, jobs.STEP, stage.draw.randint(300, 600))

    chaos = stage.chaos(Plan(kill_s=0.5, stop_s=0.5, most=hits, least=hits), fleet, more)
    stage.add(stage.size, jobs.STEP, 40)
    stage.until(lambda: chaos.enough, "kills and stops", 30.0 * hits)
    proxy.calm = True
    stage.fault("late", proxy.harmed[Harm.LATE])
    stage.recover()


ALL: Final = (zombies, cleaners)
