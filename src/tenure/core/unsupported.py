"""Refusals: what a wire format does not support, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tenure.core.codec import is_json
from tenure.core.engine import Feature
from tenure.core.errors import UnsupportedFeature
from tenure.core.job import NewJob
from tenure.core.shape import PLAIN

NAMES: Final[Mapping[Feature, str]] = {
    Feature.DELAY: "a delay",
    Feature.IDS: "one id for all of a job's life",
    Feature.OWN_ID: "an id of your own",
    Feature.TASKS: "tasks",
    Feature.BYTES: "raw payloads that are not UTF-8 text",
    Feature.TEXT: "raw payloads that are not JSON",
    Feature.RESULTS: "results",
    Feature.TIMEOUT: "a timeout",
    Feature.RETRIES: "a number of retries",
    Feature.SNOOZE: "a wait that counts no attempt",
    Feature.COUNTS: "separate counts of failures and crashes",
    Feature.RECORDS: "records of failed and broken jobs",
    Feature.UNROUTABLE: "unroutable jobs",
    Feature.EXTEND: "a longer lease",
    Feature.LANES: "lanes",
    Feature.LANE_POLICIES: "lane limits and lane policies",
    Feature.PRIORITIES: "priorities",
    Feature.UNIQUE: "unique jobs",
    Feature.UNIQUE_KEYS: "unique jobs by keys, windows or other conflict rules",
    Feature.CANCEL: "the cancellation of running jobs",
    Feature.PERSISTENT: "persistent jobs",
    Feature.PAUSE: "paused queues",
    Feature.MAX_LENGTH: "a maximum length",
    Feature.PROGRESS: "progress of jobs",
    Feature.QUIET: "quiet workers",
    Feature.HEADERS: "headers",
    Feature.SCHEDULES: "schedules",
    Feature.LIMITS: "limits of rate or concurrency",
    Feature.SHARES: "fair shares",
    Feature.PARTITIONS: "partitions",
    Feature.HISTORY: "a history by the minute",
}
"""How errors and the table of protocols name a feature."""


def unsupported(protocol: str, feature: Feature) -> UnsupportedFeature:
    """Make the error for a feature that the protocol lacks."""
    text = f"The protocol {protocol!r} does not support {NAMES[feature]} (feature {feature.value!r})"
    return UnsupportedFeature(f"{text}. Leave it out, or use another protocol, such as native.")


def check_job(protocol: str, lacking: Collection[Feature], job: NewJob) -> None:
    """Raises `UnsupportedFeature` for a job that needs one of the lacking features."""
    for feature in features_of(job):
        if feature in lacking:
            raise unsupported(protocol, feature)
    if job.task is None:
        if Feature.TEXT in lacking and not is_json(job.payload):
            raise unsupported(protocol, Feature.TEXT)
        if Feature.BYTES in lacking and not _is_text(job.payload):
            raise unsupported(protocol, Feature.BYTES)


def _is_text(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def features_of(job: NewJob) -> Iterator[Feature]:
    """The features that a job needs, by its options."""
    if job.delay_ms > 0 or job.run_at_ms is not None:
        yield Feature.DELAY
    if job.own_id:
        yield Feature.OWN_ID
    if job.task is not None:
        yield Feature.TASKS
    if job.timeout_ms is not None:
        yield Feature.TIMEOUT
    if job.retries is not None:
        yield Feature.RETRIES
    if job.headers:
        yield Feature.HEADERS
    shape = job.shape
    if shape is PLAIN:
        return
    if shape.lane is not None:
        yield Feature.LANES
    if shape.lane_limit != 1:
        yield Feature.LANE_POLICIES
    if shape.priority:
        yield Feature.PRIORITIES
    if shape.unique is not None:
        yield Feature.UNIQUE
        if not shape.unique.is_plain:
            yield Feature.UNIQUE_KEYS
    if shape.persistent:
        yield Feature.PERSISTENT
    if shape.limits:
        yield Feature.LIMITS
    if shape.share is not None:
        yield Feature.SHARES
