"""The pages for users of other queues agree with each other, and with what the native format can do."""

import re
from collections.abc import Mapping
from pathlib import Path

from tenure import Feature
from tenure.protocols.native import Native
from tenure.settings import Settings

GUIDES = Path(__file__).parents[2] / "docs" / "howto"
COMING_FROM = (GUIDES / "coming-from.md").read_text(encoding="utf-8")
NOT_HERE = (GUIDES / "not-here-yet.md").read_text(encoding="utf-8")

SEARCHED: Mapping[Feature, tuple[str, ...]] = {
    Feature.DELAY: ("countdown=", "enqueue_in", "_defer_by", "scheduled="),
    Feature.OWN_ID: ("job_id=",),
    Feature.RESULTS: ("result.get", "latest_result", "wait_result"),
    Feature.TIMEOUT: ("time_limit", "job_timeout"),
    Feature.RETRIES: ("max_retries", "max_tries"),
    Feature.RECORDS: ("FailedJobRegistry", "dead letters"),
    Feature.PRIORITIES: ("priority=",),
    Feature.UNIQUE_KEYS: ("_job_id", "docket.replace"),
    Feature.CANCEL: ("revoke", "dramatiq-abort", "send_stop_job_command"),
    Feature.PAUSE: ("rq suspend", "docket.strike"),
    Feature.PROGRESS: ("job.meta", "Progress()"),
    Feature.HEADERS: ("headers=", "with_labels"),
    Feature.SCHEDULES: ("beat_schedule", "rq cron", "CronJob", "TaskiqScheduler", "Perpetual"),
    Feature.LIMITS: ("rate_limit", "RateLimiter", "lock_task", "ConcurrencyLimit"),
    Feature.SHARES: ("fair shares",),
    Feature.EXPIRES: ("expires",),
    Feature.FLOWS: ("link_error", "depends_on", "chord", "`chain`"),
    Feature.PARTITIONS: ("over many nodes",),
}
"""Names and words by which users of other queues look for a feature; they are never among what is missing."""
BESIDES = ("task_always_eager", "is_async=False", "StubBroker", "InMemoryBroker", "immediate", "--watch")
"""The same for what is not part of a wire format."""
OWN = {
    *(Feature.IDS, Feature.TASKS, Feature.BYTES, Feature.TEXT, Feature.COUNTS, Feature.UNROUTABLE, Feature.EXTEND),
    *(Feature.LANES, Feature.LANE_POLICIES, Feature.UNIQUE, Feature.PERSISTENT, Feature.MAX_LENGTH, Feature.QUIET),
    *(Feature.SNOOZE, Feature.HISTORY, Feature.STACKS, Feature.AT_MOST_ONCE),
}
"""Features that other queues do not have, or do not name."""


def cells(page: str, column: int) -> list[str]:
    return [row.split("|")[column] for row in page.splitlines() if row.startswith("| ")]


def denied() -> str:
    """What the page about other queues gives no counterpart for."""
    rows = [row.split("|") for row in COMING_FROM.splitlines() if row.startswith("| ")]
    return "\n".join(row[1] for row in rows if not row[2].strip())


def test_each_feature_of_the_native_format_is_found_by_the_words_of_other_queues():
    assert {*SEARCHED, *OWN} == set(Feature)
    assert Native().engine(Settings()).features >= set(SEARCHED)
    missing = "\n".join(cells(NOT_HERE, 1)) + denied()
    for feature, words in SEARCHED.items():
        assert any(word in COMING_FROM for word in words), feature
        assert [word for word in words if word.lower() in missing.lower()] == [], feature
    assert [word for word in BESIDES if word in missing] == []


def test_what_has_no_counterpart_is_on_the_page_of_what_is_missing():
    names = set(re.findall(r"`(?:\w+\.)*(\w+)", denied()))
    listed = set(re.findall(r"`(\w+)", NOT_HERE))
    assert names - listed - {"f", "s"} == set()
