"""Instruments: what a tracing library has around each handler and each enqueue, of one app or of all of the process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakSet

from msgspec import Struct

from tenure.core import names
from tenure.core.engine import Feature, FullEngine
from tenure.protocols.registry import entry_of

if TYPE_CHECKING:
    from tenure.client.outgoing import AroundEnqueue, Outgoing
    from tenure.runtime.handlers.middleware import AsyncMiddleware, Middleware
    from tenure.runtime.jobs.job import Job
    from tenure.runtime.observe.metrics import RedisCalled
    from tenure.settings import Settings


class Instrument(Struct, frozen=True):
    """`name`: an app has each instrument once. `handlers` and `enqueues` are outside of all middleware.

    `redis_called`: gets the name of each script that a worker has called, and how many seconds it took.
    """

    name: str
    handlers: AsyncMiddleware
    enqueues: AroundEnqueue
    redis_called: RedisCalled | None = None


class InstrumentedApp(Protocol):
    """What instruments know of an app."""

    instruments: Instruments

    @property
    def settings(self) -> Settings: ...
    @property
    def engine(self) -> FullEngine: ...
    @property
    def tasks(self) -> Mapping[str, Any]: ...


class TraceHeaders:
    """Adds the headers of a trace to jobs, where they do no harm.

    A format of other programs wraps a raw payload that has headers, so that these could not read it.
    """

    def __init__(self, engine: FullEngine) -> None:
        self._of_tasks = Feature.HEADERS in engine.features
        self._of_raw = self._of_tasks and not entry_of(engine).has_foreign_clients

    def add(self, jobs: Sequence[Outgoing], headers: Mapping[str, str]) -> None:
        """Add those that fit and that the jobs do not have."""
        for job in jobs:
            if self._of_raw or (self._of_tasks and job.task is not None):
                room = names.MAX_HEADERS - sum(len(text.encode()) for pair in job.headers.items() for text in pair)
                for name, value in headers.items():
                    size = len(name) + len(value.encode())
                    if size <= room and name not in job.headers:
                        job.headers[name] = value
                        room -= size


def is_cancellation(error: BaseException, jobs: Sequence[Job]) -> bool:
    """Return whether a cancel request for these jobs has ended their handler: that is no failure."""
    from asyncio import CancelledError  # here: a producer loads no event loop

    return isinstance(error, CancelledError) and all(job.cancelled for job in jobs)


class Instruments:
    """The instruments of one app, which get the places at the beginning of these lists."""

    def __init__(self, app: InstrumentedApp, handlers: list[Middleware], enqueues: list[AroundEnqueue]) -> None:
        self.redis_calls: list[RedisCalled] = []
        self._names: set[str] = set()
        self._handlers = handlers
        self._enqueues = enqueues
        _APPS.add(app)
        for make in _FOR_ALL:
            self.add(make(app))

    def add(self, instrument: Instrument) -> None:
        """Add an instrument, unless the app has it. For workers, before they start."""
        if instrument.name not in self._names:
            self._names.add(instrument.name)
            self._handlers.insert(0, instrument.handlers)
            self._enqueues.insert(0, instrument.enqueues)
            if instrument.redis_called is not None:
                self.redis_calls.append(instrument.redis_called)


_APPS: Final[WeakSet[InstrumentedApp]] = WeakSet()
_FOR_ALL: Final[list[Callable[[InstrumentedApp], Instrument]]] = []


def instrument_all(make: Callable[[InstrumentedApp], Instrument]) -> None:
    """Give every app of this process an instrument, those that there are and those to come."""
    _FOR_ALL.append(make)
    for app in list(_APPS):
        app.instruments.add(make(app))
