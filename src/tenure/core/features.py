"""What a wire format can hold, and what it does: the declarations of its engine."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Feature(StrEnum):
    """What a wire format can hold. An engine refuses a feature that it does not declare, and never ignores it.

    `label`: how errors and the table of protocols name it.
    """

    label: str

    def __new__(cls, value: str, label: str) -> Self:
        self = str.__new__(cls, value)
        self._value_, self.label = value, label
        return self

    DELAY = "delay", "a delay"
    IDS = "ids", "one id for all of a job's life"
    """A job has one id from its enqueue to its end. In formats without ids, see `Enqueued.id` and `Lease`."""
    OWN_ID = "own_id", "an id of your own"
    TASKS = "tasks", "tasks"
    BYTES = "bytes", "raw payloads that are not UTF-8 text"
    """A raw payload may be any bytes. Without this it is UTF-8 text, and without `TEXT` JSON."""
    TEXT = "text", "raw payloads that are not JSON"
    RESULTS = "results", "results"
    TIMEOUT = "timeout", "a timeout"
    RETRIES = "retries", "a number of retries"
    SNOOZE = "snooze", "a wait that counts no attempt"
    """A job waits for a time without counting its attempt."""
    COUNTS = "counts", "separate counts of failures and crashes"
    """Failures and crashes are counted separately."""
    RECORDS = "records", "records of failed and broken jobs"
    """Failed and broken jobs are kept."""
    UNROUTABLE = "unroutable", "unroutable jobs"
    EXTEND = "extend", "a longer lease"
    LANES = "lanes", "lanes"
    LANE_POLICIES = "lane_policies", "lane limits and lane policies"
    """A lane may run several jobs at a time, and a failed job may block or park its lane."""
    PRIORITIES = "priorities", "priorities"
    EXPIRES = "expires", "jobs that expire"
    """A job that has not begun by a time ends in `cancelled`."""
    AT_MOST_ONCE = "at_most_once", "jobs that run at most once"
    """A job that may have begun never runs again."""
    FLOWS = "flows", "follow-up jobs"
    """The completion of a job enqueues others."""
    UNIQUE = "unique", "unique jobs"
    """Jobs that are unique by their task and arguments until they have ended; a second one is rejected."""
    UNIQUE_KEYS = "unique_keys", "unique jobs by keys, windows or other conflict rules"
    """All other uniqueness: keys, windows, and other answers to a second job."""
    CANCEL = "cancel", "the cancellation of running jobs"
    """Running jobs can be asked to end; waiting ones can be cancelled without this."""
    PERSISTENT = "persistent", "persistent jobs"
    PAUSE = "pause", "paused queues"
    MAX_LENGTH = "max_length", "a maximum length"
    PROGRESS = "progress", "progress of jobs"
    QUIET = "quiet", "quiet workers"
    STACKS = "stacks", "the stacks of running handlers"
    HEADERS = "headers", "headers"
    SCHEDULES = "schedules", "schedules"
    LIMITS = "limits", "limits of rate or concurrency"
    SHARES = "shares", "fair shares"
    PARTITIONS = "partitions", "partitions"
    """A queue may be spread over several hash slots of a cluster."""
    HISTORY = "history", "a history by the minute"
    """Workers count the jobs that end in each minute of the last day, and the actions of operators are kept."""


class Trait(StrEnum):
    """What a wire format does that no caller asks for. The conformance tests and the table of protocols take it."""

    PUBLIC_KEYS = "public_keys"
    """Other programs read its keys, so that a snapshot compares them."""
    ENQUEUE_TIME = "enqueue_time"
    """A job keeps the time of its enqueue."""
    GROUPS = "groups"
    """Jobs that are claimed as a batch of one lane end together: see `Lease.group`."""
    KEPT_WAKE = "kept_wake"
    """A worker that begins to wait after a job came is woken for it."""
    SINGLE_WAKE = "single_wake"
    """One job wakes one of the workers that wait."""
    PARKED_RAW = "parked_raw"
    """Raw payloads without a handler become `unroutable`, as tasks do."""
    PASSED_RAW = "passed_raw"
    """Workers without a handler for raw payloads look behind them."""
    SUSPECT_COUNT = "suspect_count"
    """The inspector counts the suspects that wait."""
    RETRY_DELAY = "retry_delay"
    """A retry waits for its delay; without this it runs at once."""
    UNLANED = "unlaned"
    """A job needs no lane."""
    SEPARATE_ENDS = "separate_ends"
    """Jobs that are claimed as a batch of one lane end one by one."""
    SUSPECTS = "suspects"
    """Jobs that were running when several workers died run with few others, or alone."""
    POISON_NEWS = "poison_news"
    """Maintenance reports jobs that ended in `broken`, once."""
