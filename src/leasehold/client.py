"""What tasks, queues, handles and the inspector share: the settings, the engine, and what runs its steps."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from leasehold.core import limits, names
from leasehold.core.engine import Feature
from leasehold.core.errors import PayloadTooLarge, UnsupportedFeature
from leasehold.core.job import NewJob
from leasehold.core.steps import Steps

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from leasehold.connections import Runner
    from leasehold.protocols import FullEngine
    from leasehold.settings import Settings

T = TypeVar("T")


class Unset(Enum):
    """Tells "not given" from None, which for a timeout means "no limit"."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET

NO_TIMEOUT_MS: Final = 0
"""How a job says on the wire that it has no timeout."""


def new_id() -> str:
    """A job id of 16 letters and digits that nobody else draws."""
    # Without '-' and '_': an id stays one word under a double click and is never taken for an option.
    return secrets.token_urlsafe(12).replace("-", "a").replace("_", "b")


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for one job, checked. None (for the timeout: UNSET) where nothing was asked.

    `delay_ms` and `run_at_ms` are one wish: 0 and a time, or a number and None.
    """

    id: str | None = None
    queue: str | None = None
    delay_ms: int | None = None
    run_at_ms: int | None = None
    timeout_ms: int | Unset = UNSET
    retries: int | None = None

    def using(
        self,
        *,
        id: str | None = None,
        queue: str | None = None,
        delay: float | timedelta | None = None,
        run_after: datetime | None = None,
        timeout: float | timedelta | Unset | None = UNSET,
        retries: int | None = None,
    ) -> Options:
        """These options with some of them changed. Raises `InvalidArgument`, naming the one that is wrong."""
        changes: dict[str, Any] = {}
        if id is not None:
            changes["id"] = names.job_id(id)
        if queue is not None:
            changes["queue"] = names.queue_name(queue)
        if delay is not None or run_after is not None:
            changes["delay_ms"], changes["run_at_ms"] = names.due(delay, run_after)
        if timeout is not UNSET:
            changes["timeout_ms"] = timeout_on_wire(timeout)
        if retries is not None:
            changes["retries"] = names.count(retries, "retries")
        return replace(self, **changes) if changes else self

    def over(self, defaults: Options) -> Options:
        """These options, and of the defaults those that nothing was asked for here. An id is no default."""
        asked = self if self.delay_ms is not None else defaults
        return Options(
            id=self.id,
            queue=self.queue or defaults.queue,
            delay_ms=asked.delay_ms,
            run_at_ms=asked.run_at_ms,
            timeout_ms=defaults.timeout_ms if self.timeout_ms is UNSET else self.timeout_ms,
            retries=defaults.retries if self.retries is None else self.retries,
        )


def timeout_on_wire(timeout: object) -> int:
    """Seconds as milliseconds; None, no limit, as 0."""
    return NO_TIMEOUT_MS if timeout is None else names.duration_ms(timeout, "timeout")


class Client:
    """Runs the engine's steps, and makes jobs that the engine can hold."""

    def __init__(
        self, settings: Settings, engine: FullEngine, runner: Runner, new_id: Callable[[], str] = new_id
    ) -> None:
        self.settings = settings
        self.engine = engine
        self.runner = runner
        self._new_id = new_id

    def run(self, steps: Steps[T]) -> T:
        return self.runner.run(steps)

    async def arun(self, steps: Steps[T]) -> T:
        return await self.runner.arun(steps)

    def require(self, feature: Feature, asked: str) -> None:
        """Refuse what the protocol in use cannot hold. Raises `UnsupportedFeature`."""
        if feature not in self.engine.features:
            raise UnsupportedFeature(
                f"The protocol {self.engine.name!r} cannot hold {asked} (feature {feature.value!r}). Leave it out, or "
                "use a protocol that has it, such as the native one."
            )

    def job(
        self, queue: str, payload: bytes, options: Options, *, task: str | None = None, timeout_ms: int | None = None
    ) -> NewJob:
        """A job that may be enqueued. `timeout_ms` is that of the task or handler, where the options have none.

        Raises `PayloadTooLarge` and `UnsupportedFeature`. Nothing is sent.
        """
        if len(payload) > self.settings.max_payload:
            raise PayloadTooLarge(len(payload), self.settings.max_payload)
        if task is not None:
            self.require(Feature.TASKS, "tasks")
        if options.delay_ms or options.run_at_ms is not None:
            self.require(Feature.DELAY, "a delay")
        if options.id is not None:
            self.require(Feature.OWN_ID, "an id of your own")
        if options.retries is not None:
            self.require(Feature.RETRIES, "a number of retries")
        if options.timeout_ms is not UNSET:
            self.require(Feature.TIMEOUT, "a timeout")
            timeout_ms = options.timeout_ms
        elif timeout_ms == limits.DEFAULT_TIMEOUT_MS or Feature.TIMEOUT not in self.engine.features:
            timeout_ms = None
        return NewJob(
            queue=options.queue or queue,
            id=options.id or self._new_id(),
            payload=payload,
            task=task,
            delay_ms=options.delay_ms or 0,
            run_at_ms=options.run_at_ms,
            timeout_ms=timeout_ms,
            retries=options.retries,
            own_id=options.id is not None,
        )


def seconds_or_none(timeout: object, field: str = "timeout") -> float | None:
    """How long to wait, in seconds; None for as long as it takes. Raises `InvalidArgument` for a negative number."""
    if timeout is None:
        return None
    return names.duration_ms(timeout, field, least_ms=0, most_ms=limits.MAX_DELAY_MS) / limits.SECOND
