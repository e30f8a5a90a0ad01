"""The adds of the caller's pipelines.

The first add of a pipeline sends the text of the script, later ones its hash: they follow on the same connection, in
order. Together they are one group, which Redis remembers under one name: a client of the redis package repeats a whole
pipeline when its reply was lost.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tenure.compat.redis_work_queue.cluster import is_cluster

_GROUPS_MAX: Final = 1_000
"""Pipelines that are known at one time. Redis forgets the answers of earlier ones after a minute."""
_NAME_AT: Final = 6
"""The position of the group's name in the first command of a group."""


@dataclass(slots=True)
class PipelineGroup:
    """The adds of one execution of a pipeline. `places` counts them from 1; `first` is where its first command is."""

    pipeline: weakref.ref[Any]
    first: int
    name: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    places: Iterator[int] = field(default_factory=lambda: itertools.count(2))

    def is_pending(self) -> bool:
        """Return whether the pipeline still has the first command of this group: it has not been executed."""
        try:
            # A list of commands, each with its arguments and options.
            return self.pipeline().command_stack[self.first][0][_NAME_AT] is self.name  # type: ignore[union-attr]
        except (AttributeError, IndexError, TypeError):
            return False


class Groups:
    """The groups of a work queue. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.known: dict[int, PipelineGroup] = {}
        """Groups with answers that have not been removed, by the identity of the pipeline."""

    def pending(self, pipeline: Any) -> PipelineGroup | None:
        """Return the group that the next add of this pipeline belongs to; None: it is the first one."""
        group = self.known.get(id(pipeline))
        return group if group is not None and group.pipeline() is pipeline and group.is_pending() else None

    def begin(self, pipeline: Any) -> PipelineGroup:
        """Return a new group of this pipeline, of which the next command is the first."""
        if is_cluster(pipeline):
            # Its commands go to several connections: each add is a group.
            return PipelineGroup(weakref.ref(pipeline), -1)
        group = PipelineGroup(weakref.ref(pipeline), len(getattr(pipeline, "command_stack", ())))
        with self._lock:
            self.known.pop(id(pipeline), None)
            while len(self.known) >= _GROUPS_MAX:
                del self.known[next(iter(self.known))]
            self.known[id(pipeline)] = group
        return group

    def ended(self) -> list[str]:
        """Return the names of the groups with executed pipelines, each once."""
        if not self.known:  # the usual case
            return []
        with self._lock:
            over = {key: group for key, group in self.known.items() if not group.is_pending()}
            for key in over:
                del self.known[key]
        return [group.name for group in over.values()]
