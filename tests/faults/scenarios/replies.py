"""Requests and replies that are lost, cut, or arrive late: S09, S10, S11, S12."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenure.core.errors import DuplicateJob
from tests.faults.harness import jobs, marks
from tests.faults.harness.hands import Hands
from tests.faults.harness.history import Event, Op
from tests.faults.harness.proxy import LATE_S, Dice, Harm, Proxy
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

RATE: Final = 0.3
HARMS: Final = {Harm.LOST: 4, Harm.TORN: 2, Harm.UNSENT: 1, Harm.LATE: 3}
LEASE_S: Final = 600.0


@contextmanager
def lossy(stage: Stage, what: str, *scripts: str) -> Iterator[Proxy]:
    """A proxy before Redis that harms replies to these scripts; at the end what is late arrives, and all is done."""
    stage.serve()
    proxy = stage.proxy(Dice(marks.of(*scripts), RATE, HARMS))
    yield proxy
    proxy.calm = True
    stage.spend(2 * LATE_S)
    for harm, times in proxy.harmed.items():
        stage.fault(f"{what} {harm.value}", times)
    stage.recover()


@scenario(
    "S09",
    "replies to enqueues are lost, cut or late",
    Bounds({"enqueue lost": 1, "enqueue late": 1}, repeats=0, drained_s=20),
    jobs=60,
)
def of_enqueue(stage: Stage) -> None:
    """The answer to an enqueue does not come: asked again, there is one job all the same, run once."""
    with lossy(stage, "enqueue", "enqueue", "enqueue_shaped") as proxy:
        producer = stage.app_at(proxy.url)
        task = producer.tasks[jobs.STEP]
        stage.fleet(1, 8)
        for n in range(stage.size):
            asked_ns = time.monotonic_ns()
            # The ids are Tenure's: nothing but the nonce tells one call from the same call again.
            options = {} if n % 3 else {"lane": f"lane{n % 7}"}
            handle = task.using(**options).enqueue(n, 1)  # type: ignore[arg-type]
            told = Event(Op.ENQUEUE, phase="invoke", job=handle.id, lane=options.get("lane", ""), n=n, note="completed")
            stage.diary.write(told, asked_ns)
            stage.diary.write(Event(Op.ENQUEUE, phase="ok", job=handle.id, n=n))
            if n % 10 == 0:
                own = f"own{n}"
                stage.diary.write(Event(Op.ENQUEUE, phase="invoke", job=own, n=n, note="completed"))
                try:
                    task.using(id=own).enqueue(n, 1)
                except DuplicateJob:
                    stage.expect(False, f"{own} was called a duplicate of itself")
                stage.diary.write(Event(Op.ENQUEUE, phase="ok", job=own, n=n))
            stage.tick()


@scenario(
    "S10",
    "replies to claims are lost, cut or late",
    Bounds({"claim lost": 1, "claim late": 1}, repeats=0, drained_s=20),
    jobs=120,
)
def of_claim(stage: Stage) -> None:
    """The answer to a claim does not come: asked again, it is the same job with the same token."""
    with lossy(stage, "claim", "claim", "claim_full") as proxy:
        ids = stage.add(stage.size // 2, jobs.STEP, 1)
        hands = Hands(stage, stage.app_at(proxy.url))
        for _ in ids:
            # For so long that what a lost claim has taken does not come back by itself.
            if (lease := hands.lease(LEASE_S)) is not None:
                hands.complete(lease)
            stage.tick()
        stage.expect(stage.left() == 0, f"{stage.left()} jobs are held by claims that no worker knows")
        stage.fleet(2, 4, proxy.url)
        stage.add(stage.size // 2, jobs.STEP, 10)
        stage.drain()


@scenario(
    "S11",
    "replies to completions, retries and extensions are lost, cut or late",
    Bounds({"settle lost": 1, "settle late": 1}, repeats=0, drained_s=20),
    jobs=80,
)
def of_settle(stage: Stage) -> None:
    """The answer to a completion does not come: asked again it is True, and the job was completed once."""
    with lossy(stage, "settle", "settle", "settle_full", "extend") as proxy:
        hands = Hands(stage, stage.app_at(proxy.url))
        for _ in stage.add(stage.size // 2, jobs.STEP, 1):
            lease = hands.lease(LEASE_S)
            assert lease is not None
            if stage.draw.random() < 0.2:
                stage.expect(hands.extend(lease, LEASE_S), f"{lease.id} could not be extended by its holder")
            if stage.draw.random() < 0.2:
                stage.expect(hands.retry(lease), f"{lease.id} could not be retried by its holder")
                lease = hands.lease(LEASE_S, block=True)
                assert lease is not None
            if stage.draw.random() < 0.2:
                attempt = lease.attempt
                stage.expect(hands.release(lease), f"{lease.id} could not be released by its holder")
                lease = hands.lease(LEASE_S, block=True)
                assert lease is not None
                stage.expect(lease.attempt == attempt, f"{lease.id} was released and has lost an attempt")
            stage.expect(hands.complete(lease), f"{lease.id} could not be completed by its holder")
            stage.tick()
        stage.fleet(2, 4, proxy.url)
        stage.add(stage.size // 2, jobs.STEP, 10, 1)
        stage.drain()


ALL: Final = (of_enqueue, of_claim, of_settle)
