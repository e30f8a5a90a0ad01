"""The stream of reports: what happens to a worker and its jobs is reported once, to all that subscribe.

Subscribers are the log, the listeners, the hooks of tasks, the store of large payloads, the counts of latencies and the
metrics. A report that no subscriber wants is the call of an empty method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tenure.core.job import JobView, Lease
from tenure.core.outcome import Outcome
from tenure.runtime.jobs.held import Batch, Ended, Held, Outcomes


class Subscriber:
    """Receives the reports with the methods that it overrides. All are called on the event loop; none waits or raises.

        class Starts(Subscriber):
            def started(self, run):
                print(run.spec.name, len(run.members))

    Reports of jobs come in groups, so that a worker with many jobs makes one call for a group.
    """

    def claimed(self, lease: Lease) -> None:
        """The worker has leased a job."""

    def started(self, run: Held | Batch) -> None:
        """The handler of a job, or of a batch of jobs, is about to run."""

    def finished(self, ended: Sequence[Ended]) -> None:
        """Handlers have ended; Redis does not have the outcomes yet."""

    def settled(self, items: Outcomes) -> None:
        """Redis has these outcomes."""

    def lost(self, held: Held, noticed: str, outcome: Outcome | None, certain: bool) -> None:
        """The worker has lost a lease. `noticed`: the call that showed it. `outcome`: it does not count any more.

        `certain` False: an earlier call, with no reply, may have ended the job.
        """

    def poisoned(self, view: JobView) -> None:
        """A job ended in `broken`, because it crashed its workers too often, here or elsewhere."""

    def ticked(self, queue: str, late_s: float) -> None:
        """A tick of a schedule was enqueued, `late_s` seconds after it was due."""

    def loop_blocked(self) -> None:
        """Code has blocked the event loop for long. Reported once it turns again."""

    def worker_started(self, queues: tuple[str, ...], slots: int) -> None:
        """The worker begins to claim jobs."""

    def worker_stopping(self, running: int) -> None:
        """The worker starts no more jobs; `running` ones may still end."""

    def worker_stopped(self, released: int | None, hard: bool) -> None:
        """The worker has ended. `released`: how many jobs it returned to their queues; None: unknown."""

    def redis_away(self, error: BaseException) -> None:
        """Redis does not respond, or refuses the user."""

    def redis_back(self, away: float) -> None:
        """Redis responds again, after `away` seconds."""


_FACTS: Final = tuple(name for name, one in vars(Subscriber).items() if callable(one))


class Reports(Subscriber):
    """Passes each report to the subscribers that want it, in the order of their subscription."""

    def __init__(self, subscribers: Iterable[Subscriber] = ()) -> None:
        self._wanted: dict[str, list[Callable[..., None]]] = {}
        for one in subscribers:
            self.subscribe(one)

    def subscribe(self, one: Subscriber) -> None:
        for fact in _FACTS:
            if getattr(type(one), fact) is not getattr(Subscriber, fact):
                wanted = self._wanted.setdefault(fact, [])
                wanted.append(getattr(one, fact))
                # A report without a subscriber stays an empty method, and one subscriber is called without a detour.
                setattr(self, fact, wanted[0] if len(wanted) == 1 else _to_all(wanted))


def _to_all(functions: Iterable[Callable[..., None]]) -> Callable[..., None]:
    def report(*facts: object) -> None:
        for function in functions:
            function(*facts)

    return report
