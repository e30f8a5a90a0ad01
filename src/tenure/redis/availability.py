"""Whether Redis responds: one log line when it stops, and one when it is back.

A program that has not configured logging sees no such lines.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

from tenure.core import limits
from tenure.core.steps import Watcher
from tenure.redis import replies
from tenure.redis.credentials import NoCredentials
from tenure.redis.log import log_event

CALM_MS: Final = 5 * limits.SECOND
"""How long no new connection must have failed for lack of room or of credentials before Redis counts as back. Calls on
the open connections succeed all the time: without this pause, the log would have ten pairs of lines a second."""


class Availability:
    """Whether Redis responds to one driver, its calls and its subscriptions. `failed_at` is None while it does.

        condition.lost(error)    # any number of times
        condition.back()

    `good_at` returns when the last good reply came, by the clock.
    """

    def __init__(self, where: str, good_at: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._where = where
        self._good_at = good_at
        self._clock = clock
        self._lock = threading.Lock()
        self._told = False
        self._refused_at = -math.inf
        """When a new connection last failed for such a reason."""
        self._watcher: Watcher | None = None
        self.failed_at: float | None = None

    def watch(self, watcher: Watcher) -> None:
        """Notify this watcher with each line that is logged."""
        self._watcher = watcher

    def lost(self, error: Exception, silent_s: float = 0.0) -> None:
        """Note that an attempt failed and will be repeated. `silent_s`: how long it had waited for its reply.

        If other calls had a reply since then, only a connection is lost and not Redis: nothing is logged.
        """
        with self._lock:
            now = self._clock()
            if replies.has_no_room(error) or isinstance(error, NoCredentials):
                self._refused_at = now
            # After a timeout, Redis has been missing since the attempt began.
            since = max(now - silent_s, min(now, self._good_at())) if replies.timed_out(error) else now
            if self.failed_at is None:
                self.failed_at = since
            if self._told or (replies.timed_out(error) and self._good_at() > now - silent_s):
                return
            self._told = True
            missed_s = now - self.failed_at
        log_event("redis_lost", at=self._where, error=replies.cause_of(error))
        if self._watcher is not None:
            self._watcher.redis_lost(missed_s)

    def back(self) -> None:
        """Note that an attempt succeeded. Calls check `failed_at` first, to save a lock."""
        with self._lock:
            if self._clock() - self._refused_at < CALM_MS / limits.SECOND:
                return
            since, self.failed_at = self.failed_at, None
            told, self._told = self._told, False
        if told and since is not None:
            log_event("redis_restored", at=self._where, after_s=self._clock() - since)
            if self._watcher is not None:
                self._watcher.redis_back()

    def forked(self) -> None:
        """Reset the lock in a child process: another thread of the parent may have held it."""
        self._lock = threading.Lock()
