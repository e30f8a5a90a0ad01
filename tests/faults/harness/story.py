"""Histories told by hand, for the tests of the checker."""

from __future__ import annotations

import random

from tests.faults.harness.checker import check
from tests.faults.harness.history import Event, Op
from tests.faults.harness.verdict import Bounds, Policy, Report

SECOND = 1_000_000_000
W1, W2, HARNESS = 11, 12, 1
NONE_WANTED = Bounds()


class Story:
    """A history told by hand. Times in seconds."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, at: float, op: Op, pid: int = HARNESS, **told: object) -> Story:
        event = Event(op, pid=pid, seq=len(self.events), mono_ns=round(at * SECOND), **told)  # type: ignore[arg-type]
        self.events.append(event)
        return self

    def job(self, n: int, meant: str = "completed", lane: str = "a") -> Story:
        for phase in ("invoke", "ok"):
            self.tell(0, Op.ENQUEUE, phase=phase, job=f"{lane}{n}", lane=lane, n=n, note=meant)
        return self

    def start(self, at: float, job: str, token: int, pid: int = W1) -> Story:
        return self.tell(at, Op.START, pid, job=job, lane=job[0], token=token)

    def end(self, at: float, job: str, token: int, phase: str = "ok", pid: int = W1) -> Story:
        return self.tell(at, Op.END, pid, job=job, lane=job[0], token=token, phase=phase)

    def run(self, at: float, job: str, token: int, phase: str = "ok", pid: int = W1, takes: float = 0.5) -> Story:
        return self.start(at, job, token, pid).end(at + takes, job, token, phase, pid)

    def final(self, job: str, token: int, state: str = "completed") -> Story:
        return self.tell(99, Op.FINAL, job=job, token=token, note=state)

    def total(self, completed: int, failed: int = 0) -> Story:
        self.tell(99, Op.TOTAL, note="failed", n=failed)
        return self.tell(99, Op.TOTAL, note="completed", n=completed)

    def act(self, at: float, job: str, kind: str) -> Story:
        self.tell(at, Op.ACT, job=job, lane=job[0], note=kind, phase="invoke")
        return self.tell(at + 0.1, Op.ACT, job=job, lane=job[0], note=kind, phase="ok")

    def stand(self, at: float, job: str, token: int) -> Story:
        return self.tell(at, Op.STAND, job=job, lane=job[0], token=token)

    def judge(self, policy: Policy | None = Policy.SKIP, bounds: Bounds = NONE_WANTED) -> Report:
        # Every process has a file of its own, so the order in which events are read says nothing.
        shuffled = random.Random(len(self.events)).sample(self.events, len(self.events))
        return check(shuffled, policy, bounds)
