"""What a parent process runs, and where it reports its health."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from msgspec import Struct, field

from tenure.core import limits
from tenure.core.errors import invalid

HERE: Final = "127.0.0.1"


class HealthOutputs(Struct, frozen=True):
    """Where health is reported. `address`: host and port.

        HealthOutputs("/run/worker.json", ("127.0.0.1", 8099))

    Raises `InvalidArgument`.
    """

    file: str | None = None
    address: tuple[str, int] | None = None

    @classmethod
    def of(cls, file: str | None, port: str | None) -> HealthOutputs:
        """From text as on the command line: a path, and `[HOST:]PORT`.

        >>> HealthOutputs.of(None, "8099").address
        ('127.0.0.1', 8099)
        """
        if file is not None:
            folder = os.path.dirname(file) or "."
            if not os.path.isdir(folder) or os.path.isdir(file):
                raise invalid("The health file", "a path in a folder that exists", repr(file))
            if not os.access(folder, os.W_OK | os.X_OK):
                raise invalid("The health file", "in a folder that this user may write to", repr(file))
        return cls(file, None if port is None else address_of(port, "health port"))

    def __bool__(self) -> bool:
        return self.file is not None or self.address is not None


def address_of(text: str, what: str) -> tuple[str, int]:
    """Return host and port of `[HOST:]PORT`. Raises `InvalidArgument`, which names the port as `what`.

    >>> address_of("8099", "health port")
    ('127.0.0.1', 8099)
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise invalid(f"The {what}", "[HOST:]PORT, as in 8099 or 0.0.0.0:8099", repr(text))
    return host.strip("[]") or HERE, int(port)


class ParentConfig(Struct, frozen=True):
    """What to run.

    command    the command line of a worker process with this descriptor as its socket to its parent
    grace_s    how long running jobs may continue after a stop request
    burst      do not replace a process that ends with status 0
    watched    a folder: when Python files below it change, all processes are replaced
    metrics    host and port of the metrics; None: not served
    steer      is given a function that sets how many processes run, at most `processes`; it begins with none
    hard_s     how long a worker process may take to end after its grace period. Then comes a hard stop
    kill_s     how long it may take to end after a hard stop. Then the parent kills it
    """

    command: Callable[[int], Sequence[str]]
    processes: int = 1
    grace_s: float = limits.STOP_GRACE_MS / limits.SECOND
    burst: bool = False
    watched: str | None = None
    outlets: HealthOutputs = field(default_factory=HealthOutputs)
    metrics: tuple[str, int] | None = None
    steer: Callable[[Callable[[int], None]], Coroutine[Any, Any, None]] | None = None
    hard_s: float = 5.0
    kill_s: float = 3.0
