"""Plays the human who looks after lanes that stand still: sees them, waits a little, and acts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenure.core.job import JobView, State
from tenure.core.limits import PAGE_MAX
from tenure.core.shape import LaneState
from tests.faults.harness import jobs
from tests.faults.harness.history import Diary, Event, Op
from tests.faults.harness.verdict import Policy

LOOK_S: Final = 0.05
WAIT_S: Final = (0.1, 0.6)
"""How long a lane is left to stand still, so that one which does not stand would be seen to go on."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A lane that stands still behind a failed job, and when something will be done about it."""

    job: str
    lane: str
    token: int
    act_at: float


class Human:
    """Call `look` again and again. It acts through `app.control`, on a connection that nobody harms."""

    def __init__(self, url: str, policy: Policy, folder: Path, draw: random.Random, diary: Diary) -> None:
        self._app = jobs.make_app(url)
        self._policy = policy
        self._folder = folder
        self._draw = draw
        self._diary = diary
        self._standing: dict[str, Standing] = {}
        self._look_at = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._standing)

    def look(self) -> None:
        now = time.monotonic()
        if self._policy is Policy.SKIP or now < self._look_at:
            return
        self._look_at = now + LOOK_S
        for view in self._failed():
            if view.id not in self._standing:
                lane = view.id.rpartition(".")[0]
                token = int(view.token or 0)
                self._diary.write(Event(Op.STAND, job=view.id, lane=lane, token=token))
                self._standing[view.id] = Standing(view.id, lane, token, now + self._draw.uniform(*WAIT_S))
        for one in [one for one in self._standing.values() if one.act_at <= now]:
            self._act(one)
            del self._standing[one.job]

    def close(self) -> None:
        self._app.close()

    def _failed(self) -> Iterator[JobView]:
        if self._policy is Policy.BLOCK:
            yield from self._app.inspect.page(jobs.QUEUE, State.FAILED).jobs
            return
        for lane in self._app.inspect.lanes(jobs.QUEUE, LaneState.PARKED, limit=PAGE_MAX).lanes:
            view = self._app.inspect.job(jobs.QUEUE, lane.parked_by) if lane.parked_by else None
            if view is not None and view.state is State.FAILED:
                yield view

    def _act(self, one: Standing) -> None:
        if self._draw.random() < 0.5:
            jobs.mended(one.job, self._folder).touch()
            self._do("retry", one)
        elif self._policy is Policy.BLOCK:
            self._do("discard", one)
        if self._policy is Policy.PARK:
            self._do("resume", one)

    def _do(self, kind: str, one: Standing) -> None:
        self._diary.write(Event(Op.ACT, phase="invoke", job=one.job, lane=one.lane, note=kind))
        if kind == "resume":
            done = self._app.control.resume_lane(jobs.QUEUE, one.lane)
        else:
            done = getattr(self._app.control, kind)(jobs.QUEUE, one.job)
        assert done, f"{kind} of {one.job} was refused"
        self._diary.write(Event(Op.ACT, phase="ok", job=one.job, lane=one.lane, note=kind))
