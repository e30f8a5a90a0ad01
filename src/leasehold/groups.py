"""The job processes of a worker that has died: its keeper ends them before it gives their jobs back.

They end by themselves when they see that their worker is dead. One whose handler holds the GIL does not see it. Each
leads a group, with all that it has started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leasehold.parent import stat_of

_LOOK_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Group:
    """The number of a job process, which is that of its group, and when it began: later the number may be another's."""

    pid: int
    began: int

    @property
    def there(self) -> bool:
        """Whether its leader is, be it dead: then its number is no other's."""
        about = stat_of(self.pid)
        return about is not None and about.began == self.began

    @property
    def runs(self) -> bool:
        about = stat_of(self.pid)
        return about is not None and about.began == self.began and about.state not in (b"Z", b"X")


def group_of(pid: int) -> Group | None:
    """The group of a job process that is not reaped yet. None: this system does not tell of processes."""
    about = stat_of(pid)
    return None if about is None else Group(pid, about.began)


def end(groups: Iterable[Group], seconds: float) -> None:
    """Kill these groups, as far as they are there, and wait until their leaders run no more, for so long at most."""
    left = []
    for group in groups:
        if group.there:
            left.append(group)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group.pid, signal.SIGKILL)
    until = time.monotonic() + seconds
    while (left := [group for group in left if group.runs]) and time.monotonic() < until:
        time.sleep(_LOOK_S)
