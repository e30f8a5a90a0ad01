"""The native engine on a cluster. The limits and shares of a queue are in the slot of the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tenure.core.errors import InvalidArgument, NotDurable, TenureError, UnsupportedFeature, is_away
from tenure.core.job import Enqueued, Lease, NewJob
from tenure.core.outcome import Completed, Outcome, Retried
from tenure.core.rates import LimitPage
from tenure.core.schedules.schedule import Tick, Ticked
from tenure.core.steps import Command, Invoke, Steps, T, durably
from tenure.core.waiting import Wake
from tenure.engines.kit.encoding import as_text
from tenure.engines.kit.engine import AddAll
from tenure.engines.native.config import NativeConfig
from tenure.engines.native.engine import Around, NativeEngine, woken_by
from tenure.engines.native.inspect import RESTING
from tenure.engines.native.keys import decoded, encoded

HOMES_MOST: Final = 10_000
"""Limits of a namespace, as the code names them, of which it is noted to which queue they belong."""
OPEN: Final = "*"
"""Ends the start of a name with braces: the names of such limits begin like this."""


class NativeClusterEngine(NativeEngine):
    """The native engine for the URL of a cluster: a limit belongs to one queue, as its keys are in the queue's slot.

    A limit that is used by a second queue is refused. The hash `homes` of the namespace notes which queue has a limit,
    from its first use on; each process adds a note when it first uses one. See docs/decisions/0025. `durable`: how many
    replicas must have jobs that have moved to another node, before the node that they leave forgets them.
    """

    def __init__(
        self,
        namespace: str = "tenure",
        config: NativeConfig | None = None,
        around: Around | None = None,
        durable: int = 0,
    ) -> None:
        super().__init__(namespace, config, around)
        self.durable = durable
        self._declared: dict[str, str] = {}
        """Start of names -> queue, by the code of this process."""
        self._homes: dict[str, str] = {}
        """The same, as it is noted in Redis. Replaced and never changed: several threads read it."""
        self._weighted: set[str] = set()
        """Queues that have the weights of shares."""

    def limits_of(self, prefix: str) -> str:
        """The beginning of the keys of limits and shares of the queue with this prefix, in its slot."""
        return f"{prefix}:limiting"

    def _keys(self, queue: str) -> tuple[str, ...]:
        prefix = self.prefix(queue)
        return prefix, self.limits_of(prefix)

    def _place(self, queue: str) -> tuple[str, ...]:
        """The keys of a script about the limits of a queue."""
        own = self.limits_of(self.prefix(queue))
        return own, own

    def note_limit(self, template: str, queue: str) -> None:
        start = _start_of(template)
        _check(start, queue, self._declared)
        self._declared = {**self._declared, start: queue}

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Wake:
        # While a slot moves, a node may refuse one of the two commands of a `Lead`.
        return Wake(woken_by({f"{self.prefix(queue)}:wake": queue for queue in queues}, timeout_ms))

    def enqueue(self, jobs: Sequence[NewJob], add_all: AddAll | None = None) -> Steps[list[Enqueued]]:
        yield from self.prepare(jobs)
        return (yield from super().enqueue(jobs, add_all))

    def import_jobs(self, name: str, jobs: Sequence[NewJob], map_version: int | None = None) -> Steps[list[bool]]:
        yield from self.prepare(jobs)
        adding = super().import_jobs(name, jobs, map_version)
        return (yield from self.copied(adding, tuple(job.id for job in jobs)))

    def copied(self, steps: Steps[T], ids: tuple[str, ...]) -> Steps[T]:
        if not self.durable:
            return (yield from steps)
        done = yield from durably(steps, self.durable)
        if done.replicas < self.durable:
            raise NotDurable(ids, done.replicas, self.durable, done.trouble)
        return done.answer

    def tick(self, queue: str, ticks: Sequence[Tick]) -> Steps[list[Ticked | TenureError]]:
        refused: dict[int, TenureError] = {}
        for n, tick in enumerate(ticks):
            try:
                yield from self.prepare(() if tick.job is None else (tick.job,))
            except UnsupportedFeature as error:  # the other schedules have their ticks all the same
                refused[n] = error
        done = iter((yield from super().tick(queue, [tick for n, tick in enumerate(ticks) if n not in refused])))
        return [refused[n] if n in refused else next(done) for n in range(len(ticks))]

    def prepare(self, jobs: Iterable[NewJob]) -> Steps[None]:
        """Before the first jobs with a limit or a share: note where the limit is, and bring the weights of shares."""
        for job in jobs:
            for rule in job.shape.limits:
                start = _start_of(rule.template or rule.name)
                if self._homes.get(start) != job.queue:
                    yield from self._note_home(start, job.queue)
            if job.shape.share is not None and job.queue not in self._weighted:
                yield from self._bring_weights(job.queue)

    def _note_home(self, start: str, queue: str) -> Steps[None]:
        """Note that limits whose names begin like this belong to a queue.

        Raises `UnsupportedFeature` if one of them belongs to another queue.
        """
        _check(start, queue, self._declared)
        for _ in range(HOMES_MOST):
            _check(start, queue, self._homes)
            if any(_covers(other, start) for other in self._homes):
                return
            if len(self._homes) >= HOMES_MOST:
                break
            if (yield from self._read_homes(start, queue)):
                self._homes = {**self._homes, start: queue}
        raise UnsupportedFeature(
            f"On a Redis Cluster a namespace has at most {HOMES_MOST:,} names of limits, and {_name(start)!r} would be "
            "one more. Write what differs in braces, as in 'tenant:{tenant}'."
        )

    def _read_homes(self, start: str = "", queue: str = "") -> Steps[bool]:
        """Read all notes, if there are others than this process knows; else add this one, and return True."""
        args = (len(self._homes), start, encoded(queue))
        is_known, notes = yield Invoke(self.scripts["limit_homes"], (self.shared(),), args)
        if not is_known:
            self._homes = {as_text(one): decoded(as_text(to)) for one, to in zip(notes[::2], notes[1::2], strict=True)}
        return bool(is_known)

    def _home(self, name: str) -> Steps[str | None]:
        """The queue that a limit belongs to, by the notes in Redis or the code of this process."""
        yield from self._read_homes()
        start = _noted(name, self._homes)
        if start is not None:
            return self._homes[start]
        start = _noted(name, self._declared)
        if start is None:
            return None
        yield from self._note_home(start, self._declared[start])
        return self._declared[start]

    def _place_of(self, name: str) -> Steps[tuple[str, ...]]:
        queue = yield from self._home(name)
        return () if queue is None else self._place(queue)

    def _place_to_set(self, name: str) -> Steps[tuple[str, ...]]:
        place = yield from self._place_of(name)
        if not place:
            raise InvalidArgument(
                f"On a Redis Cluster a limit belongs to the queue that uses it, and none has used {name!r} yet. Set it "
                "with the app that has its tasks, or after the first job of the limit."
            )
        return place

    def limit_names(self, cursor: str = "") -> Steps[LimitPage]:
        """One page of one queue after the other. The cursor: the queue, then its own cursor."""
        now, _, after = cursor.partition(" ")
        if not now:
            yield from self._read_homes()
        queues = sorted(encoded(queue) for queue in set(self._homes.values()))
        now = now or next(iter(queues), "")
        if not now:
            return LimitPage(())
        page = yield from self._limit_names(self._place(decoded(now)), after)
        if not page.cursor:
            now = next((queue for queue in queues if queue > now), "")
        return LimitPage(page.names, f"{now} {page.cursor}" if now else "")

    def resting_limits(self) -> Steps[list[str]]:
        yield from self._read_homes()
        found: list[str] = []
        for queue in sorted(set(self._homes.values())):
            found += (yield from self._limit_names(self._place(queue), RESTING)).names
        return found

    def advance_limits(self, ms: int) -> Steps[None]:
        yield from self._read_homes()
        for queue in sorted(set(self._homes.values())):
            yield from self._advance_limits(self._place(queue), ms)

    def set_share(self, name: str, weight: int) -> Steps[None]:
        # A queue that is listed after this reads them itself: see `_bring_weights`.
        yield from super().set_share(name, weight)
        for queue in (yield from self.queues()):
            yield from self._act_at(self._place(queue), "set_share", encoded(name), weight)

    def _bring_weights(self, queue: str) -> Steps[None]:
        """Copy the weights of shares to a queue that may be new."""
        yield from self.register(queue)
        cursor = -1
        while cursor:
            page = yield from self.shares(max(0, cursor))
            for name, weight in page.weights.items():
                # What `set_share` has written meanwhile is newer.
                yield Command(("HSETNX", f"{self._place(queue)[0]}:shares", encoded(name), weight))
            cursor = page.cursor
        self._weighted.add(queue)

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        """A limit of another queue rests by a call of its own after the settlement, and not if its node is lost."""
        others: list[tuple[str, str, int]] = []
        for lease, outcome in settlements:
            if isinstance(outcome, Completed) and (outcome.follow or outcome.flows):
                yield from self._flows.prepare(outcome.jobs_after())
            if isinstance(outcome, Retried) and outcome.limit is not None:
                queue = yield from self._home_of_rest(outcome.limit)
                if queue is not None and queue != lease.record.queue:
                    others.append((queue, outcome.limit, outcome.delay_ms))
        answers = yield from super().settle(settlements)
        for queue, name, ms in others:
            try:
                yield Invoke(self.scripts["rest_limit"], self._place(queue), (encoded(name), ms))
            except TenureError as error:
                if not is_away(error):
                    raise
        return answers

    def _home_of_rest(self, name: str) -> Steps[str | None]:
        """The queue whose limit is to rest; None if it is not known."""
        start = _noted(name, self._homes)
        if start is None:
            try:
                yield from self._read_homes()
            except TenureError as error:
                if not is_away(error):
                    raise
            start = _noted(name, self._homes)
        return None if start is None else self._homes[start]


def _start_of(template: str) -> str:
    """How all names of a limit begin, up to its first brace; one without braces is whole.

    >>> _start_of("stripe"), _start_of("tenant:{tenant}")
    ('stripe', 'tenant%3A*')
    """
    text, brace, _ = template.partition("{")
    return encoded(text) + (OPEN if brace else "")


def _covers(one: str, other: str) -> bool:
    """Whether every name that begins like `other` also begins like `one`."""
    return one == other or (one.endswith(OPEN) and other.removesuffix(OPEN).startswith(one.removesuffix(OPEN)))


def _noted(name: str, homes: Mapping[str, str]) -> str | None:
    """The note of a limit."""
    return next((start for start in homes if _covers(start, encoded(name))), None)


def _check(start: str, queue: str, homes: Mapping[str, str]) -> None:
    """Raises `UnsupportedFeature` if a name that begins like this may be one of another queue."""
    for other, owner in homes.items():
        if owner != queue and (_covers(other, start) or _covers(start, other)):
            raise UnsupportedFeature(
                f"On a Redis Cluster a limit belongs to one queue: {_name(start)!r} is used by queue {queue!r}, and "
                f"{_name(other)!r} by queue {owner!r}. Use one queue for both, or names that differ before their first "
                "brace."
            )


def _name(start: str) -> str:
    return decoded(start.removesuffix(OPEN)) + ("{...}" if start.endswith(OPEN) else "")
