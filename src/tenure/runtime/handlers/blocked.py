"""Names the code that blocks the event loop. A thread looks, because the loop could notice it only afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from tenure.core.job import Lease
from tenure.runtime.log import is_users, log_event

LOOK_S: Final = 0.5
"""How often the thread looks."""
END_LOOK_S: Final = 0.05
"""The same while the loop is blocked: the precision of `seconds`."""
REST_LOOKS: Final = 20
"""After this number of looks in a row without a job, the thread sleeps until the loop turns with one, which is before
the loop calls a handler."""
BLOCKED_S: Final = 1.0
"""A loop that does not turn for this long is blocked: other async jobs, cancellations and timeouts wait for it."""
LONG_S: Final = 10.0
"""A block that lasts is logged after this time, and each time that it has doubled."""
REPEAT_S: Final = 60.0
"""A place in the code is logged at most this often."""
PLACES_MOST: Final = 100
"""Places that are remembered; then all are forgotten."""


class LoopWatch:
    """Logs `loop_blocked` with the job, the place in the code and the seconds. To be made on the event loop.

    The loop calls `turned` every few milliseconds while jobs are held, and `rest` otherwise.

    running_since: when the oldest running job began; None: none runs
    job_of: the job that a task of the loop runs; None: the task is not the worker's
    noticed: called on the loop, once for each block with a known place
    """

    def __init__(
        self,
        running_since: Callable[[], float | None],
        job_of: Callable[[asyncio.Task[Any]], Lease | None],
        clock: Callable[[], float],
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        self._running_since = running_since
        self._job_of = job_of
        self._clock = clock
        self._noticed = noticed
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._turned_at: float | None = None
        self._blocked_since: float | None = None
        self._found: dict[str, object] = {}
        """What blocks the loop, since then. Empty: it is not known, as when the whole machine is slow."""
        self._next_s = LONG_S
        self._logged_at: dict[object, float] = {}
        self._has_ended = self._is_asleep = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenure-loop-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def turned(self) -> None:
        self._turned_at = self._clock()
        # Race with _run: the thread notes that it sleeps and then reads `_turned_at`, so one of the two sees the other.
        if self._is_asleep:
            self._woken.set()

    def rest(self) -> None:
        self._turned_at = None

    def close(self) -> None:
        """End the thread. It first logs what has just blocked the loop."""
        self._has_ended = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(LOOK_S)

    def _run(self) -> None:
        looks = 0
        while not self._has_ended:
            looks = looks + 1 if self._turned_at is None and self._running_since() is None else 0
            self._is_asleep = looks > REST_LOOKS
            sleeps = self._is_asleep and self._turned_at is None
            self._woken.wait(None if sleeps else LOOK_S if self._blocked_since is None else END_LOOK_S)
            self._woken.clear()
            self.look()
        self.look()

    def look(self) -> None:
        """Check whether the loop has turned since the last look."""
        now, since = self._clock(), self._turned_at
        if since is None:  # the first job after a rest may block the loop before it turns
            since = self._running_since()
        if self._blocked_since is not None and since != self._blocked_since:
            self._log(now - self._blocked_since)
            self._blocked_since = None
        if since is None or now - since < BLOCKED_S:
            return
        if self._blocked_since is None:
            self._blocked_since, self._found, self._next_s = since, self._culprit(), LONG_S
            if self._found:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._noticed)
        elif now - since >= self._next_s:
            self._log(now - since, ended=False)
            self._next_s *= 2

    def _culprit(self) -> dict[str, object]:
        at = _location(sys._current_frames().get(self._loop_thread))
        task = asyncio.current_task(self._loop)
        lease = None if task is None else self._job_of(task)
        if lease is None:
            return {"at": at} if at else {}
        record = lease.record
        return {"queue": record.queue, "task": record.task, "id": record.id, "at": at}

    def _log(self, seconds: float, **more: object) -> None:
        place, now = self._found.get("at") or self._found.get("task"), self._clock()
        is_repeated = not more and now - self._logged_at.get(place, -REPEAT_S) < REPEAT_S
        if not self._found or is_repeated:
            return
        if len(self._logged_at) >= PLACES_MOST:
            self._logged_at.clear()
        self._logged_at[place] = now
        log_event("loop_blocked", **self._found, seconds=seconds, **more)


def _location(frame: FrameType | None) -> str | None:
    """The innermost frame of the user's code in one turn of the event loop, as `file:line in function`."""
    # The last frame of a turn belongs to asyncio's handle; uvloop has no handle in Python, so there to run_forever.
    while (
        frame is not None and frame.f_code is not asyncio.Handle._run.__code__ and frame.f_code.co_name != "run_forever"
    ):
        code = frame.f_code
        if is_users(code.co_filename):
            return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        frame = frame.f_back
    return None
