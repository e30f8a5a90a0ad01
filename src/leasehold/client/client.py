"""What tasks, queues, handles and the inspector share: the settings, the engine, and what runs its steps."""

from __future__ import annotations

import os
from binascii import b2a_base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from leasehold.client.unique import by_arguments, keyed
from leasehold.core import limits, names
from leasehold.core.engine import Feature
from leasehold.core.errors import PayloadTooLarge, UnsupportedFeature
from leasehold.core.job import NewJob
from leasehold.core.shape import PLAIN, Shape, UniqueRule
from leasehold.core.steps import Steps
from leasehold.protocols.registry import DEFAULT

if TYPE_CHECKING:
    from leasehold.client.connections import Runner
    from leasehold.client.options import Options
    from leasehold.core.engine import FullEngine
    from leasehold.settings import Settings

T = TypeVar("T")


_NO_SIGNS: Final = bytes.maketrans(b"+/", b"ab")


def new_id() -> str:
    """A job id of 14 letters and digits that nobody else draws: 83 bits of chance.

    With one character more, Redis would need eight bytes more for each job.
    """
    # Letters and digits alone: an id stays one word under a double click and is never taken for an option.
    return b2a_base64(os.urandom(11), newline=False)[:14].translate(_NO_SIGNS).decode()


class Client:
    """Runs the engine's steps, and makes jobs that the engine can hold."""

    def __init__(
        self, settings: Settings, engine: FullEngine, runner: Runner, new_id: Callable[[], str] = new_id
    ) -> None:
        self.settings = settings
        self.engine = engine
        self.runner = runner
        self._new_id = new_id
        self._passed: Options | None = None

    def run(self, steps: Steps[T]) -> T:
        return self.runner.run(steps)

    async def arun(self, steps: Steps[T]) -> T:
        return await self.runner.arun(steps)

    def replicas(self, asked: int | None) -> int:
        """How many replicas must have a job: as asked for it, or as the app says."""
        return self.settings.durable if asked is None else asked

    def require(self, feature: Feature, asked: str) -> None:
        """Refuse what the protocol in use cannot hold. Raises `UnsupportedFeature`."""
        if feature not in self.engine.features:
            raise UnsupportedFeature(
                f"The protocol {self.engine.name!r} cannot hold {asked} (feature {feature.value!r}). Leave it out, or "
                f"use a protocol that has it, such as the {DEFAULT} one."
            )

    def job(
        self,
        queue: str,
        payload: bytes,
        options: Options,
        *,
        task: str | None = None,
        timeout_ms: int | None = None,
        arguments: Callable[[bytes], bytes] = bytes,
    ) -> NewJob:
        """A job that may be enqueued. `timeout_ms` is that of the task or handler, where the options have none.

        `arguments`: what a payload says, the same bytes however the call was written. Raises `InvalidArgument` (options
        that do not go together), `PayloadTooLarge` and `UnsupportedFeature`. Nothing is sent.
        """
        if len(payload) > self.settings.payload_limit:
            raise PayloadTooLarge(len(payload), self.settings.payload_limit)
        if task is not None:
            self.require(Feature.TASKS, "tasks")
        if options is not self._passed:  # most jobs are made with the same as the one before
            options.check()
            self._require_all(options)
            self._passed = options
        if options.timeout_ms is not None:
            timeout_ms = options.timeout_ms
        elif timeout_ms == limits.DEFAULT_TIMEOUT_MS or Feature.TIMEOUT not in self.engine.features:
            timeout_ms = None
        rule = options.unique or None
        if rule is not None and by_arguments(rule):
            rule = keyed(rule, task, arguments(payload))
        return NewJob(
            queue=options.queue or queue,
            id=options.id or self._new_id(),
            payload=payload,
            task=task,
            delay_ms=options.delay_ms or (0 if rule is None else rule.wait_ms),
            run_at_ms=options.run_at_ms,
            timeout_ms=timeout_ms,
            retries=options.retries,
            own_id=options.id is not None,
            shape=_shape(options, rule),
        )

    def _require_all(self, options: Options) -> None:
        if options.delayed:
            self.require(Feature.DELAY, "a delay")
        if options.id is not None:
            self.require(Feature.OWN_ID, "an id of your own")
        if options.retries is not None:
            self.require(Feature.RETRIES, "a number of retries")
        if options.timeout_ms is not None:
            self.require(Feature.TIMEOUT, "a timeout")
        if options.lane:
            self.require(Feature.LANES, "lanes")
        if options.priority:
            self.require(Feature.PRIORITIES, "priorities")
        if options.unique:
            self.require(Feature.UNIQUE, "unique jobs")
            if options.unique.wait_ms:
                self.require(Feature.DELAY, "a delay")
        if options.persistent:
            self.require(Feature.PERSISTENT, "persistent jobs")


def seconds_or_none(timeout: object, field: str = "timeout") -> float | None:
    """How long to wait, in seconds; None for as long as it takes. Raises `InvalidArgument` for a negative number."""
    if timeout is None:
        return None
    return names.duration_ms(timeout, field, least_ms=0, most_ms=limits.MAX_DELAY_MS) / limits.SECOND


def _shape(options: Options, rule: UniqueRule | None) -> Shape:
    if rule is None and not (options.lane or options.priority or options.persistent):
        return PLAIN
    return Shape(
        lane=options.lane or None,
        lane_limit=options.lane_limit or 1,
        priority=options.priority or 0,
        unique=rule,
        persistent=bool(options.persistent),
    )
