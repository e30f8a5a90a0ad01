"""A mixed load: one job of a random kind after the other. And what must hold of limits, unique keys, flows, results."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Final

from tenure import Flow, Limit, Tenure
from tests.faults.harness import jobs
from tests.faults.harness.chronicle import chronicle
from tests.faults.harness.history import read
from tests.faults.harness.job_rules import overlaps
from tests.faults.harness.stage import Stage
from tests.faults.scenarios import flows

ONE: Final = Limit("one", concurrency=1)
LIMITS: Final = (ONE, Limit("three", concurrency=3), Limit("rate", per_second=20, burst=5))
KINDS: Final = {
    "plain": 40,
    "thread": 5,
    "retried": 5,
    "failing": 2,
    "lane": 15,
    "limited": 15,
    "unique": 6,
    "delayed": 6,
    "large": 2,
    "answer": 3,
    "flow": 1,
}
"""How often each comes, compared with the others."""
TAKES_MS: Final = (2, 20, 20, 80, 150, 700)
LARGE: Final = 100_000
DELAY_S: Final = 5.0
CHECKED: Final = 100
ANSWER_MOST: Final = 2_000


class Load:
    """`hurt`: an app behind a proxy that loses replies. `rate`: jobs a second."""

    def __init__(self, stage: Stage, hurt: Tenure, rate: float) -> None:
        self.stage, self.hurt, self.rate = stage, hurt, rate
        self.named = 0
        self.begin()

    def begin(self) -> None:
        """Begin a round."""
        self.flows: dict[str, tuple[Flow, int]] = {}
        self.alone: defaultdict[str, list[str]] = defaultdict(list)
        """Jobs of which one may run at a time."""
        self.answers: dict[str, int] = {}
        self.next_at = time.monotonic()

    def put(self) -> None:
        """Enqueue what is due. A producer that was late catches up by a second at most."""
        now = time.monotonic()
        self.next_at = max(self.next_at, now - 1)
        while self.next_at <= now:
            self.next_at += self.stage.draw.expovariate(self.rate)
            self.put_one(self.stage.draw.choices(list(KINDS), list(KINDS.values()))[0])

    def put_one(self, kind: str) -> None:
        stage, draw = self.stage, self.stage.draw
        ms = draw.choice(TAKES_MS)
        match kind:
            case "plain":
                stage.add(1, jobs.STEP, ms, app=draw.choice([stage.app, self.hurt]))
            case "thread":
                stage.add(1, jobs.STEP_IN_THREAD, ms)
            case "retried":
                stage.add(1, jobs.STEP, ms, draw.randint(1, 3))
            case "failing":
                stage.add(1, jobs.STEP, ms, 0, True, meant="failed")
            case "lane":
                stage.add(1, jobs.STEP, ms, draw.choice([0, 0, 1, 2]), lane=f"lane{draw.randrange(2)}")
            case "limited":
                chosen = draw.sample(LIMITS, draw.choice([1, 1, 2]))
                id = stage.add_one(jobs.STEP, min(ms, 50), limits=chosen)
                self.alone[ONE.name] += [id] * (ONE in chosen)
            case "unique":
                key = f"key{draw.randrange(3)}"
                self.alone[key].append(stage.add_one(jobs.STEP, ms, unique=key))
            case "delayed":
                delay_s = draw.uniform(0.1, DELAY_S)
                stage.add_one(jobs.DUE, ms, (time.time() + delay_s) * 1000, delay=delay_s)
            case "large":
                stage.add_raw(draw.randbytes(LARGE))
            case "answer":
                size = draw.randint(0, ANSWER_MOST)
                self.answers[stage.add_one(jobs.ANSWER, size)] = size
            case "flow":
                self.named += 1
                flows.make(stage, f"flow{self.named}", self.flows)

    def judge(self) -> None:
        """Write down what was wrong with flows, results, limits and unique keys."""
        if self.flows:
            flows.judge(self.stage, self.flows)
        for id, size in list(self.answers.items())[:CHECKED]:
            is_right = self.stage.view(id).result == b'"' + b"r" * size + b'"'
            self.stage.expect(is_right, f"{id}: its result is not of {size} bytes")
        told = chronicle(read(self.stage.folder))
        for name, ids in self.alone.items():
            runs = [one for id in ids for one in told.jobs[id].attempts if not told.zombie(one)]
            for wrong in overlaps(runs):
                self.stage.expect(False, f"{name}: {wrong.text}")
