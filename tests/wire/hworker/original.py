"""hworker 0.2.0 as other clients meet it: its commands and scripts, in its order, with its defects.

A step of its loops is a method here, so that a test can stop between two of them.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, Final

JOBS, PROGRESS, BROKEN, FAILED = "hworker-jobs-", "hworker-progress-", "hworker-broken-", "hworker-failed-"
CLAIM: Final = """
local job = redis.call('rpop', KEYS[1])
if job ~= nil then
  redis.call('hset', KEYS[2], tostring(job), ARGV[1])
  return job
else
  return nil
end
"""
"""On an empty list RPOP answers false, which is not nil: so its idle workers write `false`."""
_MOVE: Final = """
local removed = redis.call('hdel', KEYS[1], ARGV[1])
if removed == 1 then
  redis.call('%s', KEYS[2], ARGV[1])
end
return nil
"""
RETRY: Final = _MOVE % "lpush"
MONITOR: Final = _MOVE % "rpush"
FAIL: Final = """
local removed = redis.call('hdel', KEYS[1], ARGV[1])
if removed == 1 then
  redis.call('lpush', KEYS[2], ARGV[1])
  redis.call('ltrim', KEYS[2], 0, ARGV[2])
end
return nil
"""
BREAK: Final = """
local removed = redis.call('hdel', KEYS[1], ARGV[1])
if removed == 1 then
  redis.call('hset', KEYS[2], ARGV[1], ARGV[2])
end
return nil
"""


def written(at: datetime) -> str:
    """A time as aeson writes it: no fraction when it is zero."""
    text = at.strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return json.dumps(f"{text}Z")


class Original:
    """One process: producer, worker and monitor. `ahead_s`: its clock is wrong by this much."""

    def __init__(
        self, db: Any, name: str, timeout_s: float = 120, failed_size: int = 1_000, ahead_s: float = 0
    ) -> None:
        self.db = db
        self.jobs, self.progress = JOBS + name, PROGRESS + name
        self.broken, self.failed = BROKEN + name, FAILED + name
        self.timeout_s, self.failed_size, self.ahead_s = timeout_s, failed_size, ahead_s

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead_s)

    def queue(self, value: object) -> bytes:
        job = json.dumps([str(uuid.uuid4()), value], ensure_ascii=False, separators=(",", ":")).encode()
        self.push(job)
        return job

    def push(self, job: bytes) -> None:
        self.db.lpush(self.jobs, job)

    # A worker.

    def pop(self) -> bytes | None:
        """The first step of its loop. None: it sleeps for 10 ms, and asks again."""
        job: bytes | None = self.db.eval(CLAIM, 2, self.jobs, self.progress, written(self.now()))
        return job

    def succeed(self, job: bytes) -> None:
        self.db.hdel(self.progress, job)

    def retry(self, job: bytes) -> None:
        self.db.eval(RETRY, 2, self.progress, self.jobs, job)

    def fail(self, job: bytes) -> None:
        self.begin_to_fail(job)
        self.succeed(job)  # it removes the entry once more, without a look

    def begin_to_fail(self, job: bytes) -> None:
        self.db.eval(FAIL, 2, self.progress, self.failed, job, self.failed_size - 1)

    def decode(self, job: bytes) -> Any:
        """What it does with a job first. None: it files the job under broken."""
        try:
            id, value = json.loads(job)
        except (ValueError, TypeError):
            id = None
        if isinstance(id, str):
            return value
        self.db.eval(BREAK, 2, self.progress, self.broken, job, written(self.now()))
        return None

    # A monitor.

    def started(self) -> dict[bytes, bytes]:
        """The first step of its loop: HKEYS, and HGET for each."""
        found = {job: self.db.hget(self.progress, job) for job in self.db.hkeys(self.progress)}
        return {job: value for job, value in found.items() if value is not None}

    def put_back(self, started: dict[bytes, bytes]) -> list[bytes]:
        """The second step: put back the jobs that were older then than the timeout."""
        old = []
        for job, value in started.items():
            text = json.loads(value).removesuffix("Z")
            at = datetime.fromisoformat(text[:26]).replace(tzinfo=UTC)
            if (self.now() - at).total_seconds() > self.timeout_s:
                self.db.eval(MONITOR, 2, self.progress, self.jobs, job)
                old.append(job)
        return old

    def monitor(self) -> list[bytes]:
        return self.put_back(self.started())
