"""Random calls on a real engine and on the model side by side; after every step they must agree."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace as replaced

from tenure.core.engine import Alone
from tenure.core.errors import QueueFull
from tenure.core.job import ENDS, Lease, LeaseRef, NewJob, State
from tenure.core.outcome import Completed, Outcome
from tenure.core.schedules.schedule import Overlap, ScheduleSpec, Tick, Ticked
from tenure.core.shape import LaneFailure, Progress, Shape
from tenure.core.steps import Command, Invoke, Reply, Steps
from tenure.core.values import replace
from tenure.engines.native.engine import MORE, MORE_NOW
from tests.property.agreement import agree
from tests.property.chances import (
    HAND_MS,
    LANES,
    OPTIONS,
    QUEUES,
    RECENT,
    UNNUMBERED,
    WORKERS,
    batches,
    changes,
    delays,
    ids,
    lanes,
    many,
    outcomes,
    picks,
    plain_lanes,
    queues,
    shapes,
    tasks,
    timeouts,
    workers,
)
from tests.property.claims import Claim, judge
from tests.property.model import ALONE, QUANTUM_MS, Model
from tests.property.model_lines import Job
from tests.support.stepping import Send, Session, attempt, send_with, sent_again, step
from tests.support.world import World

PLANNED_MS: Final = 1_000_000_000
"""A time that has come."""


class Machine(RuleBasedStateMachine):
    """Small spaces of ids, lanes, keys, workers and queues, so that everything meets everything."""

    def __init__(self, world: World) -> None:
        super().__init__()
        world.server.command("FLUSHALL")
        self.world = World(world.entry, world.server, world.driver, OPTIONS)
        self.engine = self.world.engine
        self.models = {queue: Model() for queue in QUEUES}
        self.now = 0
        self.session = Session("s")
        self.send = send_with(world.driver)
        self.calls: list[tuple[Invoke, Reply]] = []
        self.leases: list[Lease] = []
        self.by_hand: set[LeaseRef] = set()
        self.made = 0
        self.trues = 0

    def run(self, steps: Steps[Any]) -> Any:
        """Run an operation, remember its calls, and let a millisecond pass: no two things happen at the same time."""
        answer = step(steps, self.session, self.send, self._record)
        self._pass(1)
        return answer

    def _record(self, number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        if isinstance(call, Invoke) and call.script.name not in UNNUMBERED:
            self.calls.append((call, reply))
        return reply

    def _pass(self, ms: int) -> None:
        self.now += ms
        for queue in QUEUES:
            self.world.pass_time(ms, queue)

    @initialize(task=tasks, shape=plain_lanes | shapes, other=shapes)
    def start(self, task: str | None, shape: Shape, other: Shape) -> None:
        """An empty queue is dull: some work is there from the beginning."""
        self.enqueue_jobs("q", [("a", shape), ("b", shape), ("c", shape), ("d", other)], task, 0, 0)

    # Producers and workers.

    @rule(
        queue=queues,
        some=st.lists(st.tuples(ids, shapes), min_size=1, max_size=3),
        task=tasks,
        delay=delays,
        timeout=timeouts,
    )
    def enqueue(self, queue: str, some: list[tuple[str, Shape]], task: str | None, delay: int, timeout: int) -> None:
        self.enqueue_jobs(queue, some, task, delay, timeout)

    @rule(some=st.lists(ids, min_size=2, max_size=4), shape=plain_lanes | shapes, task=tasks)
    def enqueue_alike(self, some: list[str], shape: Shape, task: str | None) -> None:
        self.enqueue_jobs("q", [(id, shape) for id in some], task, 0, 0)

    def enqueue_jobs(
        self, queue: str, some: list[tuple[str, Shape]], task: str | None, delay: int, timeout: int
    ) -> None:
        jobs = []
        for name, shape in some:
            self.made += 1
            id = name or f"n{self.made}"
            payload = b"%d" % self.made
            jobs.append(
                NewJob(queue, id, payload, task=task, delay_ms=delay, timeout_ms=timeout, own_id=True, shape=shape)
            )
        now, model = self.now, self.models[queue]
        new = [(Job(job.id, job.payload, task, timeout, job.shape), delay) for job in jobs]
        if model.is_full(now, new):
            with pytest.raises(QueueFull):
                self.run(self.engine.enqueue(jobs))
            self._pass(1)
            model.look_for(now, [job.id for job in jobs])
            return
        answers = self.run(self.engine.enqueue(jobs))
        assert answers == model.enqueue(now, new)

    @precondition(lambda self: not any(model.settings.max_length for model in self.models.values()))
    @rule(queue=queues, shape=shapes, task=tasks, cancels=st.booleans())
    def tick(self, queue: str, shape: Shape, task: str | None, cancels: bool) -> None:
        """The tick of a schedule does what an enqueue of its job does."""
        self.made += 1
        overlap = Overlap.CANCEL if cancels else Overlap.SKIP  # it has no previous job
        payload, id = b"%d" % self.made, f"n{self.made}"
        spec = ScheduleSpec(name=id, queue=queue, every_ms=QUANTUM_MS, payload=payload, task=task, shape=shape)
        spec = replaced(spec, timeout_ms=0, overlap=overlap)
        self.run(self.engine.schedules.put_schedule(spec, "digest", "", PLANNED_MS, PLANNED_MS))
        planned_ms = self.world.run(self.engine.schedules.schedule(queue, id))[1].state.planned_ms
        one = Tick(id, "digest", planned_ms, spec.job(id, planned_ms), planned_ms, 0, 0, 0, overlap)
        now = self.now
        [added] = self.models[queue].enqueue(now, [(Job(id, payload, task, 0, shape), 0)])
        assert self.run(self.engine.schedules.tick(queue, [one])) == [
            Ticked.ENQUEUED if added.created else Ticked.JOINED
        ]
        assert self.run(self.engine.schedules.tick(queue, [one])) == [Ticked.STALE]
        assert self.run(self.engine.schedules.remove_schedule(queue, id))

    @rule(worker=workers, some=st.permutations(QUEUES), limit=st.integers(1, 4), of_lane=batches)
    def lease(self, worker: str, some: list[str], limit: int, of_lane: int) -> None:
        self.lease_jobs(worker, some, limit, of_lane)

    @rule(
        worker=workers,
        limit=st.sampled_from([3, 1, 4]),
        of_lane=batches,
        results=st.lists(outcomes, min_size=1, max_size=3),
    )
    def work(self, worker: str, limit: int, of_lane: int, results: list[Outcome]) -> None:
        """Claim and settle: what workers do most of the time. More is claimed than settled, or the other way."""
        known = len(self.leases)
        self.lease_jobs(worker, ["q"], limit, of_lane)
        self.settle_leases(list(zip(self.leases[known:], results, strict=False)))

    @rule(some=st.permutations(QUEUES))
    def lease_by_hand(self, some: list[str]) -> None:
        # It has a worker of its own: a worker's end of silence is one for all that it holds.
        self.lease_jobs(f"hand{len(self.calls)}", some, 1, 1, HAND_MS)

    def lease_jobs(self, worker: str, some: list[str], limit: int, of_lane: int = 1, by_hand_ms: int = 0) -> None:
        now, together = self.now, dict.fromkeys(some, of_lane)
        alone = self._company(worker)
        answer = self.run(self.engine.lease(worker, some, limit, by_hand_ms or None, of_lane=together, alone=alone))
        assert not answer.dropped
        left = limit
        for queue in some:
            if left == 0:
                break
            model = self.models[queue]
            got = [lease for lease in answer.leases if lease.record.queue == queue]
            model.tend(now)
            ids = [lease.record.id for lease in got]
            is_alone, asked = any(lease.alone_ms for lease in got), answer.suspect_queue == queue
            ready = left == limit and alone is not Alone.NO
            judge(model, Claim(now, worker, left, of_lane, ids, self._isolated(queue), is_alone, asked, ready))
            for lease in got:
                self._claimed(now, worker, queue, lease, by_hand_ms, alone)
            left -= len(got)
            if is_alone or asked:
                break
        assert len(answer.leases) == limit - left

    def _company(self, worker: str) -> Alone:
        """Whether this worker can run a job alone."""
        models = self.models.values()
        if any(model.has_young(self.now, worker) for model in models):
            return Alone.NO
        return Alone.BESIDE if any(model.has_old_suspect(self.now, worker) for model in models) else Alone.NOW

    def _isolated(self, queue: str) -> list[str]:
        """Which suspects wait apart: of two entries of an id, the first is of one that was cancelled or discarded."""
        jobs = self.models[queue].jobs
        found = [id.decode() for id in self.world.command("LRANGE", self.world.key("isolated", queue), 0, -1)]
        last = [id for n, id in enumerate(found) if id not in found[n + 1 :] and id in jobs]
        return [id for id in last if jobs[id].state is State.READY and jobs[id].doubtful >= ALONE]

    def _claimed(self, now: int, worker: str, queue: str, lease: Lease, by_hand_ms: int, alone: Alone) -> None:
        job = self.models[queue].jobs[lease.record.id]
        assert (lease.record.payload, lease.record.task) == (job.payload, job.task)
        assert (lease.failures, lease.crashes) == (job.failures, job.crashes)
        token = int(lease.token)
        assert all(token > earlier for earlier in job.claims), "tokens grow"
        how = "beside" if alone is Alone.BESIDE else "alone"
        self.models[queue].claim(now, worker, job.id, token, by_hand_ms, how, lease.alone_ms)
        self.leases.append(lease)
        if by_hand_ms:
            self.by_hand.add(lease.ref)

    @precondition(lambda self: self.leases)
    @rule(chosen=st.lists(st.tuples(picks, outcomes), min_size=1, max_size=4), alike=st.booleans())
    def settle(self, chosen: list[tuple[int, Outcome]], alike: bool) -> None:
        if alike:
            chosen = [(pick, chosen[0][1]) for pick, _ in chosen]
        recent = self.leases[-RECENT:]
        self.settle_leases([(recent[pick % len(recent)], outcome) for pick, outcome in chosen])

    def settle_leases(self, chosen: list[tuple[Lease, Outcome]]) -> None:
        settlements = {lease.ref: (lease, outcome) for lease, outcome in chosen}
        now = self.now
        answers = self.run(self.engine.settle(list(settlements.values())))
        for (lease, outcome), answer in zip(settlements.values(), answers, strict=True):
            model = self.models[lease.record.queue]
            held = model.holds(lease.worker, lease.record.id, int(lease.token))
            assert answer == (held is not None)
            ends = held is not None and not held.shape.persistent
            self.trues += ends and isinstance(outcome, Completed)
        groups: dict[tuple[str, str], list[tuple[str, str, int, Outcome]]] = {}
        for lease, outcome in settlements.values():
            entry = (lease.worker, lease.record.id, int(lease.token), outcome)
            groups.setdefault((lease.record.queue, lease.worker), []).append(entry)
        for (queue, _), entries in groups.items():
            self.models[queue].settle(now, entries)

    @precondition(lambda self: self.leases)
    @rule(pick=picks, current=st.integers(0, 3))
    def progress(self, pick: int, current: int) -> None:
        known = self._leases()
        lease = known[pick % len(known)]
        job = self.models[lease.record.queue].holds(lease.worker, lease.record.id, int(lease.token))
        assert self.run(self.engine.results.progress(lease, Progress(current, 3, "so far"))) == (job is not None)
        if job is not None:
            job.progress = current

    @rule(worker=workers, knows=st.booleans())
    def beat(self, worker: str, knows: bool) -> None:
        self.beat_once(worker, knows)

    def beat_once(self, worker: str, knows: bool) -> None:
        asked = [lease.ref for lease in self.leases[-RECENT:] if lease.worker == worker] if knows else []
        now = self.now
        answer = self.run(self.engine.heartbeat(worker, QUEUES, asked))
        for queue in QUEUES:
            self.models[queue].beat(now, worker)
        held = {(queue, job.id, job.token): job for queue in QUEUES for job in self.models[queue].held_by(worker)}
        known = {(ref.queue, ref.id, ref.token) for ref in asked}
        assert answer.lost == {ref for ref in asked if (ref.queue, ref.id, ref.token) not in held}
        assert {(ref.queue, ref.id, ref.token) for ref in (lease.ref for lease in answer.orphaned)} <= set(held) - known
        wanted = {(key, job.cancelling) for key, job in held.items() if key in known and job.cancelling is not None}
        assert {((wish.ref.queue, wish.ref.id, wish.ref.token), wish.reason) for wish in answer.cancelled} == wanted

    # There are many rules, and this is what happens most.
    enqueue_more, enqueue_more_alike, work_more, work_on = enqueue, enqueue_alike, work, work

    @precondition(lambda self: self.leases)
    @rule(pick=picks)
    def extend(self, pick: int) -> None:
        known = self._leases()
        lease = known[pick % len(known)]
        now, model = self.now, self.models[lease.record.queue]
        answer = self.run(self.engine.extend(lease, HAND_MS))
        by_hand = lease.ref in self.by_hand
        assert answer == model.extend(now, lease.worker, lease.record.id, int(lease.token), HAND_MS, by_hand)

    @rule(worker=workers, again=st.booleans(), crashed=st.booleans())
    def leave(self, worker: str, again: bool, crashed: bool) -> None:
        now = self.now
        answer = self.run(self.engine.leave(worker, QUEUES, crashed))
        assert answer == sum(self.models[queue].leave(now, worker, crashed) for queue in QUEUES)
        if again:
            self.lease_jobs(worker, list(QUEUES), 2)

    @rule(some=st.lists(st.sampled_from(["t", "u", "*"]), unique=True))
    def maintain(self, some: list[str]) -> None:
        self.maintain_with(some)

    def maintain_with(self, some: list[str]) -> None:
        now = self.now
        self.run(self.engine.maintain(QUEUES, some))
        for queue in QUEUES:
            self.models[queue].maintain(now, some)

    @rule(quanta=st.sampled_from([1, 1, 2, 3, 6]))
    def time_passes(self, quanta: int) -> None:
        self._pass(quanta * QUANTUM_MS)

    @rule(beating=st.sampled_from([None, *WORKERS]))
    def silence(self, beating: str | None) -> None:
        """Nobody beats for long, or one worker alone does, and somebody comes by now and then."""
        for quantum in range(1, 8):
            self._pass(QUANTUM_MS)
            self.maintain_with([])
            # Longer than its lease, and within the grace.
            if beating and quantum % 3 == 0:
                self.beat_once(beating, True)

    # Acting from outside.

    @rule(queue=queues, pick=picks, what=st.sampled_from(["retry", "discard", "cancel"]))
    def act(self, queue: str, pick: int, what: str) -> None:
        now, model = self.now, self.models[queue]
        known = [*sorted(model.jobs), "nobody"]
        id = known[pick % len(known)]
        assert self.run(getattr(self.engine, what)(queue, id)) == getattr(model, what)(now, id)

    @rule(queue=queues, pick=picks)
    def retry_edited(self, queue: str, pick: int) -> None:
        now, model = self.now, self.models[queue]
        known = [*sorted(model.jobs), "nobody"]
        id = known[pick % len(known)]
        assert self.run(self.engine.retry(queue, id, b"edited")) == model.retry(now, id, b"edited")

    @rule(queue=queues, what=many)
    def act_on_many(self, queue: str, what: str | State | None) -> None:
        """Purge a state, or cancel a lane or all."""
        now, model = self.now, self.models[queue]
        if isinstance(what, State):
            assert self.run(self.engine.purge(queue, what)) == model.purge(what)
        else:
            assert self.run(self.engine.cancel_all(queue, what)) == model.cancel_all(now, what)

    @rule(queue=queues, changes=changes)
    def configure(self, queue: str, changes: dict[str, Any]) -> None:
        model = self.models[queue]
        model.settings = replace(model.settings, **changes)
        assert self.run(self.engine.settings.configure(queue, **changes)) == model.settings

    @rule(queue=queues, name=lanes, park=st.booleans())
    def park(self, queue: str, name: str, park: bool) -> None:
        lane = self.models[queue].lines.lane(name)
        change = self.engine.park_lane if park else self.engine.resume_lane
        assert self.run(change(queue, name)) == ((lane.parked is None) == park)
        if park:
            lane.parked = "" if lane.parked is None else lane.parked
        else:
            lane.parked = None

    # The network.

    @precondition(lambda self: self.calls)
    @rule(pick=st.integers(0, 3))
    def a_call_arrives_again(self, pick: int) -> None:
        """The last one, sent again after its reply was lost; or an older copy, late."""
        call, reply = self.calls[-1 - pick % len(self.calls)]
        before = self.world.dump()
        again, error = attempt(lambda call: sent_again(call, reply, self.send), call)
        if error is not None:
            assert error.prefix == "TNSTALE"
            assert pick % len(self.calls), "the last call is remembered"
        elif reply not in (MORE, MORE_NOW):  # else the full script has been called, too
            if call.script.name in ("claim", "claim_full"):
                claims = [(row[0], row[2]) for row in reply[1]]
                assert all((row[0], row[2]) in claims for row in again[1])
            else:
                assert again == reply
        assert self.world.dump() == before

    def _leases(self) -> list[Lease]:
        """The last leases that hold, and the last that were lost or settled."""
        by_state: dict[bool, list[Lease]] = {True: [], False: []}
        for lease in self.leases:
            held = self.models[lease.record.queue].holds(lease.worker, lease.record.id, int(lease.token))
            by_state[held is not None].append(lease)
        return by_state[True][-RECENT:] + by_state[False][-RECENT:]

    # What must hold after every step.

    @invariant()
    def every_key_has_an_owner(self) -> None:
        self.world.audit()

    @invariant()
    def inspector_and_model_agree(self) -> None:
        queue = QUEUES[self.session.number % 2]
        agree(self.world, self.models[queue], queue)

    def teardown(self) -> None:
        """Let everything end: each job that had not ended completes exactly once, or ends as was asked for."""
        for queue in QUEUES:
            self._end_all(queue, self.models[queue])
        self.world.audit()
        assert self.trues == sum(model.completed for model in self.models.values())

    def _end_all(self, queue: str, model: Model) -> None:
        expected = {id for id, job in model.jobs.items() if job.state not in ENDS}
        for id in expected:
            if model.jobs[id].shape.persistent:
                self.run(self.engine.cancel(queue, id))
        self.run(self.engine.settings.configure(queue, paused=False, lane_failure=LaneFailure.SKIP))
        for lane in LANES:
            self.run(self.engine.lanes.resume_lane(queue, lane))
        done: list[str] = []
        ended: set[str] = set()
        for state in (State.BROKEN, State.FAILED):
            self.run(self.engine.purge(queue, state))
        for _ in range(12):
            self._pass(5 * QUANTUM_MS)
            self.world.maintain(["t", "u", "*"], queue)
            for state in (State.BROKEN, State.CANCELLED):
                ended |= {job.id for job in self.world.run(self.engine.page(queue, state)).jobs}
            while leases := self.world.take(1, "last", [queue]):
                assert self.world.settle(leases[0], Completed(b"", 0))
                done.append(leases[0].record.id)
        assert len(done) == len(set(done))
        assert set(done) | (ended & expected) == expected
        assert self.world.totals(queue).get("completed", 0) == model.completed + len(done)
