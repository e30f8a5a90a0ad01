"""The public surface as text, a line for each name. `python -m tests.architecture.surface` writes the snapshot."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import tenure
from tenure import events, outbox, scale
from tenure.compat import hworker, queue_farm, redis_work_queue, worqr
from tenure.testing import server

SNAPSHOT: Final = Path(__file__).with_suffix(".txt")
NOT_CALLED: Final = ("HeldJob", "Job", "JobHandle", "Queue", "Task", "TaskCall")
"""Classes whose objects users get from other calls: their constructors are not public."""
MODULES: Final = (
    ("", tenure, tenure.__all__),
    ("events.", events, events.__all__),
    ("scale.", scale, scale.__all__),
    ("outbox.", outbox, outbox.__all__),
    ("compat.hworker.", hworker, hworker.__all__),
    ("compat.queue_farm.", queue_farm, queue_farm.__all__),
    ("compat.redis_work_queue.", redis_work_queue, redis_work_queue.__all__),
    ("compat.worqr.", worqr, worqr.__all__),
    ("testing.server.", server, ("RedisServer", "available_binaries", "keys_of")),
)


def lines() -> list[str]:
    """Every public name of the modules that users import, with its members and their signatures."""
    found: list[str] = []
    for prefix, module, names in MODULES:
        for name in sorted(names):
            value = getattr(module, name)
            if name != "events" and not name.startswith("__"):
                found += _about(prefix + name, value)
    return found


def _about(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        # Of an alias of a type some Pythons tell a signature.
        yield f"{name}{_signature(value) if inspect.isroutine(value) else ''}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    if issubclass(value, enum.Enum):
        yield f"class {name}({bases})"
        yield from (f"    {name}.{member.name} = {member.value!r}" for member in value)
        return
    yield f"class {name}({bases}){'' if name in NOT_CALLED else _signature(value)}"
    parts = (one for one in value.__mro__ if one is value or one.__module__.startswith("tenure.app."))
    for attribute in sorted({attribute for part in parts for attribute in vars(part)}):
        member = inspect.getattr_static(value, attribute)
        if attribute.startswith("_") and attribute not in ("__call__", "__bool__"):
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if inspect.isfunction(member):
            yield f"    {name}.{attribute}{_signature(member)}"
        else:
            yield f"    {name}.{attribute}"


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(lines()) + "\n")
