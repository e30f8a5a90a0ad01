"""The group of a running job, which gets more members from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from tenure.core.errors import InvalidArgument
from tenure.core.flows import as_member, is_in_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tenure.core.job import NewJob
    from tenure.core.task import Call


class JobGroup:
    """The group that a running job is a member of: see `Job.group`."""

    __slots__ = ("_flow", "_follow")

    def __init__(self, flow: str, follow: Callable[[str, Iterable[Call], Callable[[NewJob], NewJob]], None]) -> None:
        self._flow = flow
        self._follow = follow

    def add(self, *calls: Call) -> None:
        """Add calls to the group in the step that completes this job, and never otherwise.

            @app.task
            def visit(url: str) -> None:
                for link in links_of(download(url)):
                    current_job().group.add(visit.call(link))

        The group is open until this job has ended, so a member never comes too late; an attempt that fails, or has lost
        its lease, adds none. Raises `InvalidArgument` (also outside a group, and as `Job.then`), `PayloadTooLarge` and
        `UnsupportedFeature`.
        """
        if not is_in_group(self._flow):
            raise InvalidArgument("group: this job is not a member of a group. A chain takes no more members.")
        self._follow("group", calls, lambda job: structs.replace(as_member(job, self._flow, "group"), id=""))
