"""Before a worker starts: can its Redis keep jobs? What makes it unfit is an error, what is a risk is a warning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from leasehold.core.errors import AccessDenied, ReplyError
from leasehold.core.steps import Command, Steps

OLDEST: Final = (6, 2)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found. `errors`: it must not be used like this. `warnings`: it may be, by somebody who knows."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def inspection() -> Steps[Inspection]:
    """Ask Redis about itself. Where INFO is not allowed, nothing is known and nothing is found."""
    try:
        yield Command(("PING",))
        reply = yield Command(("INFO",))
    except (AccessDenied, ReplyError) as error:
        # A user who may do everything but INFO can work well; any other refusal would meet the worker too.
        if "info" not in str(error).lower():
            raise
        return Inspection(warnings=("INFO is not allowed for this user, so Redis' settings could not be checked.",))
    return judge(fields_of(reply))


def fields_of(reply: bytes) -> dict[str, str]:
    """The reply of INFO as names and values."""
    lines = (line.partition(":") for line in reply.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in lines if colon}


def judge(info: Mapping[str, str]) -> Inspection:
    """What speaks against this Redis. A field that is not there says nothing.

    >>> judge({"redis_version": "5.0.7"}).errors
    ('Redis is 5.0.7; expected 6.2 or newer, or Valkey.',)
    """
    errors: list[str] = []
    warnings: list[str] = []
    version = info.get("redis_version", "")
    if _version(version) < OLDEST:
        errors.append(f"Redis is {version}; expected {'.'.join(map(str, OLDEST))} or newer, or Valkey.")
    if info.get("role", "master") != "master":
        errors.append("This Redis is a replica: nothing can be written to it. Use the URL of its master.")
    if info.get("cluster_enabled", "0") == "1":
        errors.append("This Redis is part of a cluster, which is not supported yet. Use a Redis of its own.")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        limited = info.get("maxmemory", "0") != "0"
        (errors if limited else warnings).append(
            f"Redis may throw away jobs when its memory is full: its maxmemory-policy is {policy}; expected noeviction."
        )
    if info.get("aof_enabled", "1") == "0":
        warnings.append("Redis keeps no append-only file: a crash of Redis loses jobs. Set `appendonly yes`.")
    return Inspection(tuple(errors), tuple(warnings))


def _version(text: str) -> tuple[int, ...]:
    numbers = text.split(".")[:2]
    # A version that cannot be read says nothing: better to try than to refuse.
    return tuple(int(number) for number in numbers) if all(n.isdigit() for n in numbers) else OLDEST
