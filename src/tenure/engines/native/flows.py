"""Follow-up jobs of the native engine: those in the step that ends another job, and their way to other queues.

A script sees one hash slot. So it adds a follow-up job of its own queue itself, and leaves one of another queue in a
list, under a number that grows. The process that made the call, or else maintenance, hands it over: `outgoing` reads
the list, `take` adds what has a higher number than the other queue has noted, and `forget_sent` empties the list. Any
number of processes may do so at a time, and each may end anywhere: see docs/decisions/0035.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final
from urllib.parse import quote

from tenure.core import limits
from tenure.core.errors import InvalidArgument, NotDurable, TenureError, UnsupportedFeature, is_silent
from tenure.core.flows import FlowState, FlowView, NewFlow, jobs_of, member_id
from tenure.core.job import NewJob, Refused, State
from tenure.core.partitions import split_place
from tenure.core.shape import PLAIN
from tenure.core.steps import Arg, Command, Steps
from tenure.engines.kit.chunks import Part, chunks, weight_of
from tenure.engines.kit.encoding import as_bytes, as_text, number_of
from tenure.engines.native.control import NativeController
from tenure.engines.native.flow_records import read_flow
from tenure.engines.native.keys import decoded, encoded
from tenure.engines.native.members import GONE, NOWHERE, Members, WholeQueues
from tenure.engines.native.records import read_record
from tenure.engines.native.wire import WOKE, follow_args, packed, write_element

SENT: Final = b"~"
"""The end of the answer of a script that has left jobs for other queues."""
SENDERS: Final = frozenset({"follow", "flow_start", "retry"})
"""The scripts of clients that do so."""
WORDS: Final = frozenset({b"end", b"add", b"start"})
"""The rules of what is no job: word of a member for its group, or a flow."""
TOO_MANY: Final = b"+"
"""The answer of lua/flows/follow.lua for a job that has as many follow-up jobs as it may have."""
QUEUES_MOST: Final = 10
"""Other queues that one round looks at."""
JOBS_MOST: Final = 250
"""Jobs that one call of `take` adds, and members of a page."""
STOPS_MOST: Final = 20_000
"""Members of a group that one round of maintenance cancels."""
PRUNE_MEMBERS: Final = 1_000
"""Members of a group of which one call removes what is kept."""
PRUNE_FLOWS: Final = 50
"""Small groups that one call removes."""
PRUNE_ROUNDS: Final = 100
"""Such calls in one round of maintenance."""
FORGET_ROUNDS: Final = 2_000
"""Such calls after a flow is forgotten. The rest waits for maintenance."""
IS_FLOW: Final = "+"
"""The queue of a member that is a flow."""
LOST_MOST: Final = 1_000
"""Members without an end that `seal_flow` looks for, by hand: a producer dies within a page."""
LOOKED_MOST: Final = 20_000
"""Members without an end that `lost_members` looks for."""
AWAY_S: Final = 30.0
"""How long a place that did not take jobs is left to maintenance."""
ROUNDS_MOST: Final = 1_000
"""Rounds in a row, while there are more jobs. The rest waits for maintenance."""


class NativeFlows:
    """Makes jobs follow others, and hands them over to their queues.

    `prepare`, `register`: before jobs are added to a queue. `post`: names a place that has jobs to a worker.
    """

    def __init__(
        self,
        engine: NativeController,
        whole: WholeQueues,
        prepare: Callable[[Iterable[NewJob]], Steps[None]],
        register: Callable[[str], Steps[None]],
        post: Callable[[str], Steps[None]],
    ) -> None:
        self._engine = engine
        self._whole = whole
        self._prepare = prepare
        self._register = register
        self._post = post
        self._members = Members(engine, whole)
        self._away: dict[str, float] = {}
        """Places that did not take jobs, and until when only maintenance tries again."""

    def text_of(self, job: NewJob | NewFlow) -> str:
        return quote(packed(follow_args(job)), safe="")

    def follow(self, queue: str, id: str, job: NewJob | NewFlow) -> Steps[State | None]:
        return self._whole.follow(queue, id, job)

    def open_flow(self, flow: NewFlow) -> Steps[None]:
        yield from self._register(flow.queue)
        yield from self._prepare(jobs_of(flow.on_success, flow.on_end))
        rules = ("cancel" if flow.stops else "wait", int(flow.results))
        calls = map(write_element, (flow.on_success, flow.on_end))
        yield from self._engine._ask("flow_open", flow.queue, flow.id, flow.keep_ms, *rules, *calls, flow.open_ms)

    def start_flow(self, flow: NewFlow) -> Steps[None]:
        yield from self._register(flow.queue)
        yield from self._prepare(jobs_of(flow, flow.on_success, flow.on_end))
        calls = map(write_element, (flow.on_success, flow.on_end))
        yield from self._engine._act("flow_start", flow.queue, flow.id, write_element(flow), flow.keep_ms, *calls)

    def grow_flow(self, queue: str, id: str, count: int, queues: Collection[str]) -> Steps[int | None]:
        first = yield from self._engine._act("flow_grow", queue, id, count, *map(encoded, queues))
        return int(first) if first else None

    def seal_flow(self, queue: str, id: str, by_hand: bool = False) -> Steps[bool]:
        is_there = yield from self._change(queue, id, "seal", "")
        view = (yield from self.flow(queue, id)) if by_hand else None
        if view is not None and view.state is FlowState.OPEN:
            missing, queues = yield from self._missing(queue, id, view.total, LOST_MOST)
            if not (yield from self._hand_over_all([queue, *queues])):
                yield from self._note_missing(queue, id, missing)
        return is_there

    def stop_flow(self, queue: str, id: str, reason: str, has_all: bool = False) -> Steps[bool]:
        action = "give_up" if has_all else "stop"
        is_there = yield from self._change(queue, id, action, reason.encode("utf-8", "replace"))
        yield from self.stop_members(queue, id)
        return is_there

    def continue_chain(self, queue: str, id: str) -> Steps[bool]:
        return self._change(queue, id, "continue", "")

    def forget_flow(self, queue: str, id: str) -> Steps[bool]:
        is_there = yield from self._change(queue, id, "forget", "")
        yield from self._prune(queue, FORGET_ROUNDS)
        return is_there

    def _prune(self, place: str, rounds: int) -> Steps[None]:
        """Remove flows that are forgotten or past their time. Maintenance removes the rest."""
        for _ in range(rounds):
            if not (yield from self._engine._ask("flow_prune", place, PRUNE_MEMBERS, PRUNE_FLOWS)):
                return

    def _change(self, queue: str, id: str, *action: Arg) -> Steps[bool]:
        reply: bytes = yield from self._engine._ask("flow_change", queue, id, *action)
        if reply.endswith(SENT):
            yield from self.hand_over_soon(queue)
        return reply.startswith(b"1")

    def flow(self, queue: str, id: str) -> Steps[FlowView | None]:
        rows = yield from self._engine._ask("flow_show", queue, id)
        return read_flow(queue, *rows[0]) if rows else None

    def open_flows(self, queue: str) -> Steps[int]:
        return number_of((yield Command(("HGET", f"{self._engine.prefix(queue)}:meta", "open_flows"))) or b"") or 0

    def flow_page(self, queue: str, offset: int = 0, limit: int = limits.PAGE_MAX) -> Steps[list[FlowView]]:
        rows = yield from self._engine._ask("flow_show", queue, "", offset, min(limit, limits.PAGE_MAX))
        return [read_flow(queue, *row) for row in rows]

    def failed_members(self, queue: str, id: str, cursor: str = "0") -> Steps[tuple[list[tuple[str, str]], str]]:
        on, fields = yield Command(("HSCAN", self._members.key(queue, id, "failed"), cursor, "COUNT", JOBS_MOST))
        pairs = zip(fields[::2], fields[1::2], strict=True)
        found = [(member_id(id, int(n)), as_text(text).partition(" ")[2]) for n, text in pairs]
        there = [(member, "" if at == IS_FLOW else decoded(at)) for member, at in found if at != NOWHERE]
        return there, as_text(on)

    def flow_members(self, queue: str, id: str, start: int, count: int) -> Steps[list[tuple[str, FlowView | None]]]:
        rows = yield from self._engine._ask("flow_members", queue, id, start, count)
        found = []
        for number, (state, *fields) in enumerate(rows, start):
            inner = read_flow(queue, as_bytes(member_id(id, number)), fields[0]) if fields else None
            found.append((as_text(state), inner))
        return found

    def member_results(self, queue: str, id: str, start: int, count: int) -> Steps[list[bytes | None]]:
        numbers = range(start, start + count)
        return (yield Command(("HMGET", self._members.key(queue, id, "results"), *numbers))) if count else []

    def stop_members(self, queue: str, id: str) -> Steps[None]:
        """Cancel members of a group that is to stop. Workers call it until all have ended."""
        view = yield from self.flow(queue, id)
        if view is None or view.state is not FlowState.OPEN or view.reason is None:
            return
        # A member on its way to its queue would be found nowhere, and would run after the end of its group.
        on_way = bool((yield from self.hand_over(queue)))
        most = 1 if view.is_chain else STOPS_MOST
        missing, queues = yield from self._missing(queue, id, view.total, most, view.reason)
        # Their ends may be on the way. Else the producer has died before it enqueued them.
        on_way = (yield from self._hand_over_all(queues)) or on_way
        if not view.is_chain and not on_way:  # the others of a chain follow the member that is on its way
            yield from self._note_missing(queue, id, missing)
        if not view.sealed:
            yield from self._change(queue, id, "seal", "")

    def _missing(
        self, queue: str, id: str, total: int, most: int, reason: str | None = None
    ) -> Steps[tuple[list[int], list[str]]]:
        """Which members have not ended and are nowhere, and the queues of the group. With a reason, those that are
        there are cancelled. `most`: how many without an end are looked for."""
        queues = yield from self._members.queues(queue, id)
        nests = yield Command(("HGET", self._members.key(queue, id), "nests"))
        numbers = islice((yield from self._members.without_end(queue, id, total)), most)
        missing: list[int] = []
        while page := {member_id(id, number): number for number in islice(numbers, limits.MAX_BATCH)}:
            for other in queues:
                for member in (yield from self._members.there(other, list(page), reason)):
                    del page[member]
            for member in list(page) if nests else ():
                if (yield from self.flow(queue, member)) is not None:
                    del page[member]
                    if reason is not None:
                        yield from self.stop_flow(queue, member, reason)
            missing += page.values()
        return missing, queues

    def _hand_over_all(self, queues: Iterable[str]) -> Steps[bool]:
        """Hand over what all places of these queues have for others. Return whether some of it was not taken."""
        refused: list[Refused] = []
        for queue in queues:
            for place in (yield from self._whole.places(queue)):
                refused += yield from self.hand_over(place)
        return bool(refused)

    def _note_missing(self, queue: str, id: str, missing: list[int]) -> Steps[None]:
        """Count members as cancelled that never came to be, unless a living producer may be about to enqueue them."""
        if missing and not (yield from self._members.may_come(queue, id)):
            words: list[Arg] = [arg for number in missing[: limits.MAX_BATCH] for arg in (number, GONE)]
            yield from self._change(queue, id, "note", "", *words)

    def lost_members(self, queue: str, id: str, settles: bool = False) -> Steps[list[str]]:
        view = yield from self.flow(queue, id)
        if view is None or view.state is not FlowState.OPEN:
            return []
        places = [queue, *(yield from self._members.queues(queue, id))]
        if (yield from self._hand_over_all(places)):
            return []  # what is on its way may be word of them
        numbers = islice(
            (yield from self._members.without_end(queue, id, view.total)), 1 if view.is_chain else LOOKED_MOST
        )
        first = yield from self._ends(queue, id, places[1:], list(numbers))
        # A member that ended before the first look has its word handed over now. One that was on its way is there now.
        if (yield from self._hand_over_all(places)):
            return []
        second = yield from self._ends(queue, id, places[1:], list(first))
        if (yield from self._hand_over_all(places)):
            return []
        unnoted = {n for n in (yield from self._members.without_end(queue, id, view.total)) if n in second}
        may_come = yield from self._members.may_come(queue, id)
        lost = {
            n: end
            for n, end in second.items()
            if end == first[n] and n in unnoted and not (end[1] == GONE and may_come)
        }
        if settles and lost:
            yield from self._settle(queue, id, {n: word for n, (_, word) in lost.items()})
        return [member_id(id, n) for n in lost]

    def _ends(
        self, queue: str, id: str, queues: Sequence[str], numbers: list[int]
    ) -> Steps[dict[int, tuple[int, bytes]]]:
        """When these members ended, and the word of each; only of those that have ended or are gone."""
        ends: dict[int, tuple[int, bytes]] = {}
        for number in numbers:
            member = member_id(id, number)
            inner = yield from self.flow(queue, member)
            if inner is None:
                end = yield from self._members.end_of(queues, member)
            else:
                end = None if inner.state is FlowState.OPEN else (inner.ended_ms or 0, b"")
            if end is not None:
                ends[number] = end
        return ends

    def _settle(self, queue: str, id: str, words: dict[int, bytes]) -> Steps[None]:
        """Note these ends of members. A flow sends its word itself."""
        noted = [(number, word) for number, word in words.items() if word]
        for start in range(0, len(noted), limits.MAX_BATCH):
            args: list[Arg] = [arg for pair in noted[start : start + limits.MAX_BATCH] for arg in pair]
            yield from self._change(queue, id, "note", "", *args)
        for number in words.keys() - dict(noted).keys():
            yield from self._change(queue, member_id(id, number), "report", "")

    def follow_in(self, place: str, id: str, job: NewJob | NewFlow) -> Steps[State | None]:
        """As `follow`, in one place of a queue."""
        yield from self._prepare(jobs_of(job) if isinstance(job, NewFlow) else [job])
        reply = yield from self._engine._act("follow", place, as_bytes(id), *follow_args(job))
        if reply == TOO_MANY:
            raise InvalidArgument(f"Job {id!r} has {limits.MAX_FOLLOW:,} follow-up jobs already, which is the most.")
        return State(reply.decode()) if reply else None

    def prepare(self, jobs: Iterable[NewJob]) -> Steps[None]:
        """Prepare for jobs that follow others. They are there: a limit of another queue cannot keep them back."""
        try:
            yield from self._prepare(jobs)
        except UnsupportedFeature:
            return

    def hand_over_soon(self, place: str) -> Steps[None]:
        """Hand over what other places take. Maintenance does the rest, and reports what stands in the way."""
        try:
            yield from self.hand_over(place, soon=True)
        except TenureError:
            return

    def tend(self, place: str, stopping: Iterable[str], prunes: bool) -> Steps[tuple[Refused, ...]]:
        """Maintain the flows of a place: cancel members of the groups that are to stop, remove groups that are over,
        and hand over what waits.

        Return the queues that stand in the way.
        """
        refused: list[Refused] = []
        for id in stopping:
            try:
                yield from self.stop_members(place, id)
            except TenureError as error:
                if is_silent(error):
                    raise
                refused.append(Refused(place, str(error)))
        if prunes:
            yield from self._prune(place, PRUNE_ROUNDS)
        return (*refused, *(yield from self.hand_over(place)))

    def hand_over(self, place: str, soon: bool = False) -> Steps[tuple[Refused, ...]]:
        """Hand the jobs that a place has for others to them. Return the queues that did not take theirs.

        `soon`: leave those to maintenance that did not take jobs lately: a lost node costs each call its patience.
        """
        refused: dict[str, Refused] = {}
        places = [place]
        for _ in range(ROUNDS_MOST):
            asking = self._engine._ask("outgoing", places[0], QUEUES_MOST, JOBS_MOST)
            try:
                # What a failover of this place can undo comes again, under other numbers: no other place may know it.
                pages = yield from self._engine.copied(asking, ())
            except NotDurable as error:
                refused[places[0]], pages = Refused(split_place(places[0])[0], str(error)), []
            moved = left = 0
            for name, *jobs in pages:
                to = decoded(as_text(name))
                if to in refused or (soon and time.monotonic() < self._away.get(to, 0.0)):
                    continue
                try:
                    has_sent, more = yield from self._hand_to(places[0], to, jobs)
                    self._away.pop(to, None)
                except TenureError as error:
                    self._away[to] = time.monotonic() + AWAY_S
                    if is_silent(error):
                        raise
                    refused[to] = Refused(split_place(to)[0], str(error))
                    continue
                moved, left = moved + 1, left + more + (has_sent and to == places[0])
                if has_sent and to not in places:
                    places.append(to)
            if not left and not (moved and len(pages) == QUEUES_MOST):
                places.pop(0)
                if not places:
                    break
        return tuple(refused.values())

    def _hand_to(self, place: str, to: str, jobs: list[list[bytes]]) -> Steps[tuple[bool, int]]:
        """Hand a page of jobs over. Return whether the place that they come to has sent some of them on, and how many
        are left for it here."""
        queue, _ = split_place(to)
        yield from self._register(queue)
        shapes = [read_record(queue, id, b"0 " + record).shape for _, id, record, _, rule in jobs if rule not in WORDS]
        yield from self.prepare([NewJob(queue, "", b"", shape=shape) for shape in shapes if shape is not PLAIN])
        last, has_sent = yield from self._take(to, encoded(place), [as_text(job[1]) for job in jobs], jobs)
        left: int = yield from self._engine._ask("forget_sent", place, encoded(to), last)
        return has_sent, left

    def deliver(self, source: str, queue: str, jobs: Sequence[tuple[int, NewJob]]) -> Steps[None]:
        yield from self._register(queue)
        yield from self._prepare(job for _, job in jobs)
        has_sent = False
        for chunk in chunks(_parts(jobs)):
            # No place has a name that begins with an @.
            ids, rows = [jobs[part.position][1].id for part in chunk], [part.args for part in chunk]
            _, sends = yield from self._take(queue, f"@{source}", ids, rows)
            has_sent = has_sent or sends
        if has_sent:
            yield from self.hand_over_soon(queue)

    def _take(self, to: str, source: str, ids: Iterable[str], jobs: Iterable[Sequence[Arg]]) -> Steps[tuple[str, bool]]:
        """Let a place take jobs of a source. Return the number of the last one that it has ever taken, and whether it
        has sent some of them on."""
        engine = self._engine
        taking = engine._ask("take", to, engine._config, source, *chain.from_iterable(jobs))
        reply: bytes = yield from engine.copied(taking, tuple(ids))
        last = reply.removesuffix(SENT)
        if last.endswith(WOKE):
            yield from self._post(to)
        return as_text(last.removesuffix(WOKE)), last != reply


def _parts(jobs: Iterable[tuple[int, NewJob]]) -> Iterator[Part]:
    for position, (number, job) in enumerate(jobs):
        _, *args = follow_args(job)
        yield Part(position, (number, *args), len(job.payload), 2 + weight_of(job.shape))
