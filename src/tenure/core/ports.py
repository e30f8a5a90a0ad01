"""Ports: the parts of an engine that a wire format may lack. The engine then has None in place of the port.

Each port stands for one `Feature`, or for a few that come together; `needed` refuses what is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from tenure.core import limits
from tenure.core.features import Feature
from tenure.core.flows import FlowView, NewFlow
from tenure.core.job import JobView, Lease, NewJob, State
from tenure.core.minutes import Ends, Minutes
from tenure.core.rates import LimitPort
from tenure.core.schedules.schedule import SchedulePort
from tenure.core.shape import LaneFailure, LanePage, LaneState, LaneView, Progress, QueueSettings
from tenure.core.steps import Steps
from tenure.core.unsupported import unsupported

P = TypeVar("P")


def needed(protocol: str, port: P | None, feature: Feature) -> P:
    """Return the port. Raises `UnsupportedFeature`, with the name of the feature, where the protocol lacks it."""
    if port is None:
        raise unsupported(protocol, feature)
    return port


class ResultPort(Protocol):
    """Waiting for the end of a job (`Feature.RESULTS`) and its progress (`Feature.PROGRESS`)."""

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        """Read a job; None: unknown. If it has not ended, its end is published on `result_channel` for some seconds.

        The message may be lost, so call again now and then.
        """

    def result_channel(self, queue: str, id: str) -> str:
        """The channel on which the end and the progress of a watched job are published."""

    def progress(self, lease: Lease, progress: Progress) -> Steps[bool]:
        """Store and publish the progress of a held job. False: the worker had lost it."""


class FlowPort(Protocol):
    """`Feature.FLOWS`. A completion with follow-up jobs is settled as any other."""

    def follow(self, queue: str, id: str, job: NewJob | NewFlow) -> Steps[State | None]:
        """Let a job or a flow follow a job of the queue: when that one completes, or now if it has completed.

        Return the state of that one; None: unknown. If it has ended otherwise, nothing was done.
        """

    def deliver(self, source: str, queue: str, jobs: Sequence[tuple[int, NewJob]]) -> Steps[None]:
        """Add jobs that another store keeps to a queue, in the order of their numbers, each at most once ever.

        The queue notes the last number of each `source`, and ignores jobs of it with that number or a lower one. So a
        call may be repeated at any time later, also in parts. It adds them whether or not there is room. An error of
        Redis leaves some or none of them added; the next call adds the rest.
        """

    def text_of(self, job: NewJob | NewFlow) -> str:
        """Write a job or a flow as `Shape.on_failed` has it: without spaces."""

    def open_flow(self, flow: NewFlow) -> Steps[None]:
        """Make a group. Its members come later: jobs with the ids `core.flows.member_id` gives, and `Shape.flow`."""

    def start_flow(self, flow: NewFlow) -> Steps[None]:
        """Make a flow with all of its `members`, a chain, or one with the id of a member of a group in the same queue.
        Its jobs have `Shape.flow`. The jobs of a chain come one after the other, all others now."""

    def grow_flow(self, queue: str, id: str, count: int, queues: Collection[str]) -> Steps[int | None]:
        """Give numbers to members of a group that come now, also to these queues. Return the first of the numbers;
        None: the group has ended, is sealed or gone."""

    def seal_flow(self, queue: str, id: str, by_hand: bool = False) -> Steps[bool]:
        """Let a group end when the members that it has have ended. False: it is gone. `by_hand`: its producer has died,
        and members that it never enqueued count as cancelled."""

    def stop_flow(self, queue: str, id: str, reason: str, has_all: bool = False) -> Steps[bool]:
        """Cancel the members of a group that have not ended; workers complete that. False: it is gone. `has_all`: its
        producer enqueues no more members."""

    def continue_chain(self, queue: str, id: str) -> Steps[bool]:
        """Continue a chain that was cancelled while a member of it completed. False: it is no such chain."""

    def forget_flow(self, queue: str, id: str) -> Steps[bool]:
        """Remove the record of a group, and of flows in it. Its members stay. False: it is gone."""

    def lost_members(self, queue: str, id: str, settles: bool = False) -> Steps[list[str]]:
        """Members that an open flow waits for in vain: they have ended, or are gone, and a failover has lost the word
        of it. `settles`: count them as what they ended as, or as cancelled if nothing is left of them."""

    def flow(self, queue: str, id: str) -> Steps[FlowView | None]: ...

    def open_flows(self, queue: str) -> Steps[int]:
        """How many groups that were made in a queue are open."""

    def flow_page(self, queue: str, offset: int = 0, limit: int = limits.PAGE_MAX) -> Steps[list[FlowView]]:
        """Groups of a queue, the newest first."""

    def failed_members(self, queue: str, id: str, cursor: str = "0") -> Steps[tuple[list[tuple[str, str]], str]]:
        """List about a hundred members that did not complete, each with its queue, from a cursor on ("0": the
        beginning), and the next cursor ("0": the end). A member may come twice. The queue of a flow is empty."""

    def flow_members(self, queue: str, id: str, start: int, count: int) -> Steps[list[tuple[str, FlowView | None]]]:
        """What members ended as, by their numbers ("": they have not), and those that are flows."""

    def member_results(self, queue: str, id: str, start: int, count: int) -> Steps[list[bytes | None]]:
        """The results of members by their numbers, as they are stored; None: without one."""


class LanePort(Protocol):
    """`Feature.LANES`."""

    def lane(self, queue: str, lane: str) -> Steps[LaneView]: ...

    def lane_page(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        """Lanes that are ready (in the order of their turns), busy or parked."""

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        """Park a lane: no job of it starts until it is resumed. False: it is parked already."""

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        """Resume a parked lane. False: it is not parked."""


class DelayPort(Protocol):
    """`Feature.DELAY`."""

    def reschedule(
        self,
        queue: str,
        id: str,
        *,
        delay_ms: int | None = None,
        run_at_ms: int | None = None,
        priority: int | None = None,
    ) -> Steps[bool]:
        """Give a ready, scheduled or unroutable job another time, another priority, or both. None keeps what it has.

        Raises `InvalidArgument` for a priority of a job with a lane, limits or a share.
        """


class SettingsPort(Protocol):
    """The settings of a queue: `Feature.PAUSE`, `Feature.MAX_LENGTH` and `Feature.LANE_POLICIES`."""

    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | None = None,
        paused: bool | None = None,
    ) -> Steps[QueueSettings]:
        """Change settings of the queue; None leaves one unchanged. Return the settings afterwards."""


class PartitionPort(Protocol):
    """`Feature.PARTITIONS`."""

    def want_partitions(self, queue: str, partitions: int) -> None:
        """Set the number of partitions that a queue gets when it is first used. Sends nothing."""

    def partition_count(self, queue: str) -> Steps[int]:
        """How many partitions a queue has. 1: it has none."""

    def repartition(self, queue: str, partitions: int) -> Steps[None]:
        """Begin to change the number of partitions, while work continues. Workers complete the change.

        Raises `InvalidArgument` if the queue cannot have this number, or if another change is under way.
        """

    def partitions_outside(self, queue: str) -> Steps[list[int]]:
        """List partitions that have jobs and that the queue does not have, as after a restore of Redis."""


class HistoryPort(Protocol):
    """`Feature.HISTORY`."""

    def note_ends(self, queue: str, ends: Ends) -> Steps[None]:
        """Add what a worker counted to the history of a queue: see `minutes`."""

    def minutes(self, queue: str) -> Steps[Minutes]:
        """How many jobs ended in each minute of the last day."""

    def note_audit(self, entry: bytes) -> Steps[None]:
        """Add an entry to the audit."""

    def audit(self) -> Steps[list[bytes]]:
        """The entries of the audit that are kept, at most `AUDIT_MAX`, the newest first."""


class PresencePort(Protocol):
    """What a living worker can be asked for: `Feature.QUIET` and `Feature.STACKS`."""

    def quiet(self, worker: str, quiet: bool = True) -> Steps[bool]:
        """Ask a worker to start no jobs, or to start jobs again. False: no such worker."""

    def ask_stacks(self, worker: str) -> Steps[None]:
        """Ask a worker to announce where its handlers are. The message may be lost."""


class RequestPort(Protocol):
    """Requests of other clients of the wire format to cancel jobs: messages and nothing else."""

    def request_channels(self, queues: Sequence[str]) -> Mapping[str, str]:
        """The channels of such requests, and the queue of each. A worker that receives one calls `note_request`."""

    def note_request(self, worker: str, queue: str, message: bytes) -> Steps[bool]:
        """Note a request of another client for the worker's jobs, for its next heartbeat. False: for none of them."""


class Ports(Protocol):
    """The ports of an engine."""

    @property
    def results(self) -> ResultPort | None: ...
    @property
    def schedules(self) -> SchedulePort | None: ...
    @property
    def limits(self) -> LimitPort | None: ...
    @property
    def lanes(self) -> LanePort | None: ...
    @property
    def delays(self) -> DelayPort | None: ...
    @property
    def settings(self) -> SettingsPort | None: ...
    @property
    def partitions(self) -> PartitionPort | None: ...
    @property
    def history(self) -> HistoryPort | None: ...
    @property
    def flows(self) -> FlowPort | None: ...
    @property
    def presence(self) -> PresencePort | None: ...
    @property
    def requests(self) -> RequestPort | None: ...
