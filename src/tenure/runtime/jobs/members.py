"""The group of a running job, which gets more members from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.core.errors import InvalidArgument
from tenure.core.flows import is_in_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tenure.core.job import JobRecord
    from tenure.core.task import Call, FlowCall


class JobGroup:
    """The group that a running job is a member of: see `Job.group`."""

    __slots__ = ("_follow", "_member")

    def __init__(self, member: JobRecord, follow: Callable[[str, Iterable[Call | FlowCall], JobRecord], None]) -> None:
        self._member = member
        self._follow = follow

    def add(self, *calls: Call | FlowCall) -> None:
        """Add calls, groups and chains to the group in the step that completes this job, and never otherwise.

            @app.task
            def visit(url: str) -> None:
                for link in links_of(download(url)):
                    current_job().group.add(visit.call(link))

        The group is open until this job has ended, so a member never comes too late; an attempt that fails, or has lost
        its lease, adds none. Raises `InvalidArgument` (also outside a group, and as `Job.then`), `PayloadTooLarge` and
        `UnsupportedFeature`.
        """
        if not is_in_group(self._member.shape.flow):
            raise InvalidArgument("group: this job is not a member of a group. A chain takes no more members.")
        self._follow("group", calls, self._member)
