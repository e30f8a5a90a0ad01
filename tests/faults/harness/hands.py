"""Jobs leased by hand, every step of it written down."""

from __future__ import annotations

from collections.abc import Callable

from tenure import Tenure
from tenure.client.queue import HeldJob
from tests.faults.harness import jobs
from tests.faults.harness.chronicle import BY_HAND
from tests.faults.harness.history import Event, Op
from tests.faults.harness.stage import Stage


class Hands:
    """Somebody with `app.queue(...)` and no worker."""

    def __init__(self, stage: Stage, app: Tenure) -> None:
        self._diary = stage.diary
        self._queue = app.queue(jobs.QUEUE)

    def lease(self, seconds: float, block: bool = False) -> HeldJob | None:
        job = self._queue.lease(seconds, block=block, timeout=10 if block else None)
        if not job:
            return None
        ms = round(seconds * 1000)
        self._diary.write(Event(Op.START, job=job.id, token=int(job.token), attempt=job.attempt, ms=ms, note=BY_HAND))
        return job

    def complete(self, job: HeldJob) -> bool:
        return self._settle(job, "complete", "ok", lambda: self._queue.complete(job))

    def retry(self, job: HeldJob) -> bool:
        return self._settle(job, "retry", "retry", lambda: self._queue.retry(job))

    def fail(self, job: HeldJob) -> bool:
        return self._settle(job, "fail", "fail", lambda: self._queue.fail(job))

    def release(self, job: HeldJob) -> bool:
        return self._settle(job, "release", "retry", lambda: self._queue.release(job))

    def extend(self, job: HeldJob, seconds: float) -> bool:
        return self._settle(job, "extend", "", lambda: self._queue.extend(job, seconds), round(seconds * 1000))

    def _settle(self, job: HeldJob, kind: str, phase: str, ask: Callable[[], bool], ms: int = 0) -> bool:
        token = int(job.token)
        self._diary.write(Event(Op.SETTLE, phase="invoke", job=job.id, token=token, note=kind, ms=ms))
        # Written before it is true: whoever takes the job next may be faster than our reply.
        if phase:
            self._diary.write(Event(Op.END, phase=phase, job=job.id, token=token))
        done = ask()
        self._diary.write(Event(Op.SETTLE, phase="ok", job=job.id, token=token, note=kind, n=int(done), ms=ms))
        if phase and not done:
            self._diary.write(Event(Op.END, phase="lost", job=job.id, token=token))
        return done
