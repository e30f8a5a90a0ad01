"""What follows a running job: calls, groups and chains, which its group may get as members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenure.core import limits
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.flows import NewFlow, as_added, home_of, is_in_group, jobs_of
from tenure.core.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tenure.core.task import Call, FlowCall
    from tenure.runtime.jobs.held import Held

MAX_FOLLOW_BYTES: Final = 1024 * 1024
"""The most bytes of the payloads of all follow-up jobs of one job."""


class JobGroup:
    """The group that a running job is a member of: see `Job.group`."""

    __slots__ = ("_held",)

    def __init__(self, held: Held) -> None:
        self._held = held

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
        if not is_in_group(self._held.lease.record.shape.flow):
            raise InvalidArgument("group: this job is not a member of a group. A chain takes no more members.")
        follow(self._held, "group", calls, adds=True)


def follow(held: Held, name: str, calls: Iterable[Call | FlowCall], adds: bool = False) -> None:
    """Let calls, groups and chains follow a job when it completes. `adds`: as members of its group.

    `name`: what errors name. Raises `InvalidArgument`, and what an enqueue of the calls refuses.
    """
    make, record = held.spec.follow, held.lease.record
    if held.persistent or make is None:
        raise InvalidArgument(f"{name}: a persistent job never completes, so nothing can follow it.")
    if adds:
        flow, depth = record.shape.flow, record.id.count(".")
        parts = [as_added(make(call, name, home_of(flow), depth), flow) for call in calls]
    else:
        parts = [make(call, name, "", 0) for call in calls]
    jobs = (*held.follow, *(one for one in parts if isinstance(one, NewJob)))
    flows = (*held.flows, *(one for one in parts if isinstance(one, NewFlow)))
    sizes = [len(job.payload) for job in (*jobs, *jobs_of(*flows))]
    if len(sizes) + len(flows) > limits.MAX_FOLLOW or sum(sizes) > MAX_FOLLOW_BYTES:
        most = f"at most {limits.MAX_FOLLOW:,} follow-up jobs with {MAX_FOLLOW_BYTES:,} bytes of payloads"
        raise invalid(name, most, f"{len(sizes):,} with {sum(sizes):,} bytes")
    held.follow, held.flows = jobs, flows
