"""Refusals: what a wire format does not support, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields
from functools import cache
from typing import get_type_hints

from tenure.core.encoding.codec import is_json
from tenure.core.errors import UnsupportedFeature
from tenure.core.features import Feature
from tenure.core.job import NewJob
from tenure.core.shape import PLAIN, Shape


def unsupported(protocol: str, feature: Feature) -> UnsupportedFeature:
    """Make the error for a feature that the protocol lacks."""
    text = f"The protocol {protocol!r} does not support {feature.label} (feature {feature.value!r})"
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
    """Yield the features that a job needs, by its fields: see `JobSpec` and `Shape`."""
    yield from (feature for name, plain, feature in _of_job() if getattr(job, name) != plain)
    shape = job.shape
    if shape is PLAIN:
        return
    yield from (one.metadata["needs"] for one in fields(Shape) if getattr(shape, one.name) != one.default)
    if shape.unique is not None and not shape.unique.is_plain:
        yield Feature.UNIQUE_KEYS


@cache
def _of_job() -> tuple[tuple[str, object, Feature], ...]:
    """The fields of a job that need a feature, and the value that needs none."""
    plain, hints = NewJob("", "", b""), get_type_hints(NewJob, include_extras=True)
    annotated = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return tuple((name, getattr(plain, name), feature) for name, found in annotated.items() for feature in found)
