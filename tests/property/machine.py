"""Random calls on a real engine and on the model side by side; after every step they must agree."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.core.engine import Timing
from leasehold.core.job import ErrorInfo, Lease, LeaseRef, NewJob, State
from leasehold.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from leasehold.core.steps import Command, Invoke, Reply, Steps
from tests.property import model as spans
from tests.property.model import QUANTUM_MS, Job, Model
from tests.support.engines import Options
from tests.support.stepping import Send, Session, attempt, send_with, step
from tests.support.world import World

QUEUES: Final = ("q", "p")
RECENT: Final = 4
"""So many of the last leases are used."""
WORKERS: Final = ("w1", "w2")
ERROR: Final = ErrorInfo("Boom", "no")
HAND_MS: Final = 35_000
OUTCOMES: Final[list[Outcome]] = [
    Completed(b"r", 35_000),
    Completed(b"", 0),
    Retried(ERROR),
    Retried(ERROR, 15_000),
    Failed(ERROR),
    Broken(ERROR),
    Released(),
    Unroutable(),
    Cancelled("x"),
]
OPTIONS: Final = Options(
    timing=Timing(lease_ms=spans.LEASE_MS, grace_ms=spans.GRACE_MS),
    outage_ms=spans.OUTAGE_MS,
    amnesty_ms=spans.AMNESTY_MS,
    max_crashes=spans.MAX_CRASHES,
    isolate_after_crashes=spans.ISOLATE,
    failed_ttl_ms=spans.KEEP_MS,
)

queues = st.sampled_from("qqp")
workers = st.sampled_from(WORKERS)
ids = st.sampled_from("abcd")
tasks = st.sampled_from([None, "t", "u"])
outcomes = st.sampled_from(OUTCOMES)
picks = st.integers(0, 2 * RECENT - 1)
purgeable = st.sampled_from([state for state in State if state is not State.ACTIVE])
NONCED: Final = {"enqueue", "claim", "settle", "extend", "leave", "retry", "cancel", "discard", "purge"}


class Machine(RuleBasedStateMachine):
    """Small spaces of ids, workers and queues, so that everything meets everything."""

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
        if isinstance(call, Invoke) and call.script.name in NONCED:
            self.calls.append((call, reply))
        return reply

    def _pass(self, ms: int) -> None:
        self.now += ms
        for queue in QUEUES:
            self.world.pass_time(ms, queue)

    @initialize(task=tasks)
    def start(self, task: str | None) -> None:
        """An empty queue is dull: some work is there from the beginning."""
        self.enqueue_jobs("q", ["a", "b", "c"], task, 0, 0)

    # Producers and workers.

    @rule(
        queue=queues,
        names=st.lists(ids, min_size=1, max_size=3),
        task=tasks,
        delay=st.sampled_from([0, 0, 15_000]),
        timeout=st.sampled_from([0, 15_000]),
    )
    def enqueue(self, queue: str, names: list[str], task: str | None, delay: int, timeout: int) -> None:
        self.enqueue_jobs(queue, names, task, delay, timeout)

    def enqueue_jobs(self, queue: str, names: list[str], task: str | None, delay: int, timeout: int) -> None:
        jobs = []
        for name in names:
            self.made += 1
            payload = b"%d" % self.made
            jobs.append(NewJob(queue, name, payload, task, delay_ms=delay, timeout_ms=timeout, own_id=True))
        now = self.now
        answers = [answer.created for answer in self.run(self.engine.enqueue(jobs))]
        model = self.models[queue]
        assert answers == [model.enqueue(now, job.id, job.payload, task, delay, timeout) for job in jobs]

    @rule(worker=workers, some=st.permutations(QUEUES), limit=st.integers(1, 4))
    def lease(self, worker: str, some: list[str], limit: int) -> None:
        self.lease_jobs(worker, some, limit, 0)

    @rule(some=st.permutations(QUEUES))
    def lease_by_hand(self, some: list[str]) -> None:
        # It has a worker of its own: a worker's end of silence is one for all that it holds.
        self.lease_jobs(f"hand{len(self.calls)}", some, 1, HAND_MS)

    def lease_jobs(self, worker: str, some: list[str], limit: int, by_hand_ms: int) -> None:
        now = self.now
        answer = self.run(self.engine.lease(worker, some, limit, by_hand_ms or None))
        assert not answer.dropped
        left = limit
        for queue in some:
            if left == 0:
                break
            chosen = self.models[queue].choose(now, worker, left)
            got = [lease for lease in answer.leases if lease.record.queue == queue]
            assert [lease.record.id for lease in got] == chosen
            for lease in got:
                self._claimed(now, worker, queue, lease, by_hand_ms)
            left -= len(got)
        assert len(answer.leases) == limit - left

    def _claimed(self, now: int, worker: str, queue: str, lease: Lease, by_hand_ms: int) -> None:
        job = self.models[queue].jobs[lease.record.id]
        assert (lease.record.payload, lease.record.task) == (job.payload, job.task)
        assert (lease.failures, lease.crashes) == (job.failures, job.crashes)
        token = int(lease.token)
        assert all(token > earlier for earlier in job.claims), "tokens grow"
        self.models[queue].claim(now, worker, job.id, token, by_hand_ms)
        self.leases.append(lease)
        if by_hand_ms:
            self.by_hand.add(lease.ref)

    @precondition(lambda self: self.leases)
    @rule(chosen=st.lists(st.tuples(picks, outcomes), min_size=1, max_size=4), alike=st.booleans())
    def settle(self, chosen: list[tuple[int, Outcome]], alike: bool) -> None:
        if alike:
            chosen = [(pick, chosen[0][1]) for pick, _ in chosen]
        recent = self.leases[-RECENT:]
        settlements = {
            recent[pick % len(recent)].ref: (recent[pick % len(recent)], outcome) for pick, outcome in chosen
        }
        now = self.now
        answers = self.run(self.engine.settle(list(settlements.values())))
        for (lease, outcome), answer in zip(settlements.values(), answers, strict=True):
            model = self.models[lease.record.queue]
            held = model.holds(lease.worker, lease.record.id, int(lease.token))
            assert answer == (held is not None)
            self.trues += answer and isinstance(outcome, Completed)
        groups: dict[tuple[str, str], list[tuple[str, str, int, Outcome]]] = {}
        for lease, outcome in settlements.values():
            entry = (lease.worker, lease.record.id, int(lease.token), outcome)
            groups.setdefault((lease.record.queue, lease.worker), []).append(entry)
        for (queue, _), entries in groups.items():
            self.models[queue].settle(now, entries)

    @rule(worker=workers, knows=st.booleans())
    def beat(self, worker: str, knows: bool) -> None:
        self.beat_once(worker, knows)

    def beat_once(self, worker: str, knows: bool) -> None:
        asked = [lease.ref for lease in self.leases[-RECENT:] if lease.worker == worker] if knows else []
        now = self.now
        answer = self.run(self.engine.heartbeat(worker, QUEUES, asked))
        for queue in QUEUES:
            self.models[queue].beat(now, worker)
        held = {(queue, job.id, job.token) for queue in QUEUES for job in self.models[queue].held_by(worker)}
        assert answer.lost == {ref for ref in asked if (ref.queue, ref.id, ref.token) not in held}
        strays = {(ref.queue, ref.id, ref.token) for ref in (lease.ref for lease in answer.strays)}
        assert strays <= held - {(ref.queue, ref.id, ref.token) for ref in asked}

    @precondition(lambda self: self.leases)
    @rule(pick=picks)
    def extend(self, pick: int) -> None:
        known = self._leases()
        lease = known[pick % len(known)]
        now, model = self.now, self.models[lease.record.queue]
        answer = self.run(self.engine.extend(lease, HAND_MS))
        by_hand = lease.ref in self.by_hand
        assert answer == model.extend(now, lease.worker, lease.record.id, int(lease.token), HAND_MS, by_hand)

    @rule(worker=workers, again=st.booleans())
    def leave(self, worker: str, again: bool) -> None:
        now = self.now
        answer = self.run(self.engine.leave(worker, QUEUES))
        assert answer == sum(self.models[queue].leave(now, worker) for queue in QUEUES)
        if again:
            self.lease_jobs(worker, list(QUEUES), 2, 0)

    @rule(some=st.lists(st.sampled_from(["t", "u", "*"]), unique=True))
    def maintain(self, some: list[str]) -> None:
        self.maintain_with(some)

    def maintain_with(self, some: list[str]) -> None:
        now = self.now
        self.run(self.engine.maintain(QUEUES, some))
        for queue in QUEUES:
            for task in some:
                self.models[queue].maintain(now, [task])
            self.models[queue].maintain(now, [])

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

    @rule(queue=queues, state=purgeable)
    def purge(self, queue: str, state: State) -> None:
        assert self.run(self.engine.purge(queue, state)) == self.models[queue].purge(state)

    # The network.

    @precondition(lambda self: self.calls)
    @rule(pick=st.integers(0, 3))
    def a_call_arrives_again(self, pick: int) -> None:
        """The last one, sent again after its reply was lost; or an older copy, late."""
        call, reply = self.calls[-1 - pick % len(self.calls)]
        before = self.world.dump()
        again, error = attempt(self.send, call)
        if error is not None:
            assert error.prefix == "LHSTALE"
            assert pick % len(self.calls), "the last call is remembered"
        else:
            if call.script.name == "claim":
                rows = [row[:3] for row in reply[1]]
                assert all(row[:3] in rows for row in again[1])
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
        model = self.models[queue]
        counts = self.world.run(self.engine.queue(queue)).counts
        assert counts == {state: len(model.among(state)) for state in State}
        for state in State:
            if not counts[state]:
                continue
            page = self.world.run(self.engine.page(queue, state))
            found, expected = [job.id for job in page.jobs], model.among(state)
            assert found == expected if state in {State.READY, State.SCHEDULED} else sorted(found) == sorted(expected)
            for view in page.jobs:
                self._same(model.jobs[view.id], view)
        if model.ready:
            assert self.world.command("LLEN", self.world.key("wake", queue)) == 1, "work is waiting, and nobody is told"

    def _same(self, job: Job, view: Any) -> None:
        assert (view.failures, view.crashes, view.task) == (job.failures, job.crashes, job.task)
        if view.state is not State.COMPLETED:
            assert view.payload == job.payload
        if view.state is State.ACTIVE:
            assert (view.worker, view.token) == (job.worker, job.token)

    def teardown(self) -> None:
        """Let everything end: each job that had not ended completes exactly once."""
        waiting = (State.READY, State.SCHEDULED, State.ACTIVE, State.UNROUTABLE)
        for queue in QUEUES:
            expected = {id for state in waiting for id in self.models[queue].among(state)}
            done: list[str] = []
            broken: set[str] = set()
            for _ in range(12):
                self._pass(5 * QUANTUM_MS)
                self.world.maintain(["t", "u", "*"], queue)
                broken |= {job.id for job in self.world.run(self.engine.page(queue, State.BROKEN)).jobs}
                while leases := self.world.take(1, "last", [queue]):
                    assert self.world.settle(leases[0], Completed(b"", 0))
                    done.append(leases[0].record.id)
            assert len(done) == len(set(done))
            assert set(done) | (broken & expected) == expected
            assert self.world.totals(queue).get("completed", 0) == self.models[queue].completed + len(done)
        self.world.audit()
        assert self.trues == sum(model.completed for model in self.models.values())
