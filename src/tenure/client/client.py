"""What tasks, queues, handles and the inspector share: settings, engine and driver."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from binascii import b2a_base64
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tenure.client.call import TaskCall
from tenure.client.large import LargePayloads
from tenure.client.limit import filled, rules_of_job
from tenure.client.outgoing import AroundEnqueue, EnqueueMiddleware, after_middleware, surrounded
from tenure.client.unique import keyed
from tenure.core import limits, names
from tenure.core.encoding.codec import decode_json
from tenure.core.encoding.conversion import BUILT_IN, Conversion
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, NotDurable, PayloadTooLarge, SyncOnLoop, SyncOnLoopWarning, invalid
from tenure.core.job import Enqueued, NewJob
from tenure.core.ports import FlowPort, needed
from tenure.core.shape import PLAIN, Shape
from tenure.core.steps import Steps, durably
from tenure.core.task import FlowCall, not_a_call
from tenure.core.unsupported import unsupported

if TYPE_CHECKING:
    from tenure.client.batches import EnqueueBatches
    from tenure.client.connections import Runner
    from tenure.client.limit import Limit
    from tenure.client.options import Options
    from tenure.core.engine import FullEngine
    from tenure.core.flows import NewFlow
    from tenure.core.stores import PayloadStore
    from tenure.core.task import Call
    from tenure.settings import Settings

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_NO_SIGNS: Final = bytes.maketrans(b"+/", b"ab")
_ID_LENGTH: Final = 14
MAX_ON_FAILED: Final = 8 * 1024
"""The most bytes of the call of `on_failed`, as it stands in a record."""
_PAIRS_DRAWN: Final = 32


def a_loop_runs() -> bool:
    """Whether an event loop runs in this thread. Does not load asyncio: blocking programs do without."""
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


def new_id() -> str:
    """Draw a job id of 14 letters and digits: 83 random bits. For one more, Redis would need eight bytes more a job."""
    # Only letters and digits: a double click selects the whole id, and no command takes it for an option.
    return b2a_base64(os.urandom(11), newline=False)[:_ID_LENGTH].translate(_NO_SIGNS).decode()


def new_ids() -> Iterator[str]:
    """Draw ids for the jobs of one call, many at a time. Not for longer: a forked process would draw the same ids."""
    while True:
        # 21 bytes make two ids.
        text = b2a_base64(os.urandom(21 * _PAIRS_DRAWN), newline=False).translate(_NO_SIGNS).decode()
        for start in range(0, len(text), _ID_LENGTH):
            yield text[start : start + _ID_LENGTH]


class JobSource(Struct, frozen=True):
    """What the jobs of a task have in common, or the raw payloads of a queue (`task` None).

    `timeout_ms` returns the timeout of a job with options that have none; None: its own, where the job runs.
    `arguments` returns a payload's canonical bytes: the same however the call was written.
    """

    queue: str
    task: str | None = None
    timeout_ms: Callable[[Options], int | None] = lambda options: None
    arguments: Callable[[bytes], bytes] = bytes


class Client:
    """Runs the steps of the engine, and builds jobs."""

    def __init__(
        self,
        settings: Settings,
        engine: FullEngine,
        runner: Runner,
        middleware: Sequence[EnqueueMiddleware] = (),
        conversion: Conversion = BUILT_IN,
        large: PayloadStore | None = None,
    ) -> None:
        self._checked: tuple[Options, Mapping[str, Any]] | None = None
        """The options of the previous job, and what its shape has of them."""
        self.use(settings, engine, runner)
        self._middleware = middleware
        self.around: list[AroundEnqueue] = []
        """Instruments around the enqueues, the outermost first."""
        self.conversion = conversion
        self.large = LargePayloads(large)
        self.queue_limits: dict[str, tuple[Limit, ...]] = {}

    def use(self, settings: Settings, engine: FullEngine, runner: Runner) -> None:
        """Use this Redis and engine from now on. Tests replace them for a while."""
        self.settings = settings
        self.payload_limit = settings.payload_limit
        self.engine = engine
        self.runner = runner
        self.run, self.arun = runner.run, runner.arun

    @cached_property
    def batches(self) -> EnqueueBatches:
        """Brings jobs of several tasks of an event loop to Redis together."""
        # Imported here, so that blocking programs do not load asyncio.
        from tenure.client.batches import EnqueueBatches

        return EnqueueBatches(lambda jobs: self.arun(_added(self.engine, jobs)))

    def replicas(self, asked: int | None) -> int:
        """Return how many replicas must have a job: the option, or else the app's setting."""
        return self.settings.durable if asked is None else asked

    def durably(self, steps: Steps[T], *ids: str) -> Steps[T]:
        """Run an operation, and wait until as many replicas have it as the app's setting asks for.

        Raises `NotDurable`, with the ids, if too few have it in time; it has been done nevertheless.
        """
        replicas = self.settings.durable
        if not replicas:
            return (yield from steps)
        done = yield from durably(steps, replicas)
        if done.replicas < replicas:
            raise NotDurable(ids, done.replicas, replicas, done.trouble)
        return done.answer

    def blocks_loop(self, name: str, *, waits: bool = False, better: str = "") -> None:
        """A blocking method is called on a running event loop: warn, or raise `SyncOnLoop`, by the setting.

        `waits`: it may wait for long, so that a warning is not enough. `better`: what to write in async code.
        """
        policy = self.settings.sync_on_loop
        if policy == "allow":
            return
        text = (
            f"{name}() blocks the running event loop and everything on it. Use `{better or f'await ....a{name}(...)'}`."
        )
        if waits or policy == "error":
            raise SyncOnLoop(f"{text} Or allow it with Tenure(sync_on_loop='allow').")
        warnings.warn(text, SyncOnLoopWarning, stacklevel=3)

    def require(self, feature: Feature) -> None:
        """Refuse what the protocol does not support: raise `UnsupportedFeature`."""
        if feature not in self.engine.features:
            raise unsupported(self.engine.name, feature)

    def needed(self, port: T | None, feature: Feature) -> T:
        """Return a port of the engine. Raises `UnsupportedFeature` where the protocol lacks it."""
        return needed(self.engine.name, port, feature)

    @property
    def flows(self) -> FlowPort:
        """What the engine does for flows. Raises `UnsupportedFeature` where the protocol has none."""
        return self.needed(self.engine.flows, Feature.FLOWS)

    def job(self, source: JobSource, payload: bytes, options: Options) -> NewJob:
        """Build a job to enqueue. Sends nothing.

        Raises `InvalidArgument` (options that contradict each other), `PayloadTooLarge`, and what enqueue middleware
        raises. The engine refuses what the protocol lacks.
        """
        job = self._built(source, payload, options)
        if len(payload) > self.payload_limit:
            self.large.check(self.engine, job, self.payload_limit)
            self.require(Feature.HEADERS)
        if self._middleware:
            job = after_middleware(self._middleware, job)
        return job

    def follow_up(self, call: Call, field: str = "then") -> NewJob:
        """Build the job of a call that is to follow a job of this app, as instruments leave it. Sends nothing.

        `field`: what errors name. Raises as `job_of_call` does.
        """
        with surrounded(self.around, [self.job_of_call(call, field)]) as [job]:
            return job

    def following(self, call: Call | FlowCall, field: str = "then", home: str = "", depth: int = 0) -> NewJob | NewFlow:
        """Build what is to follow a job: as `follow_up`, also of a group or a chain. See `FlowCall.following`."""
        if isinstance(call, TaskCall) or not isinstance(call, FlowCall):  # the first is quick, and most are calls
            return self.follow_up(call, field)
        return call.following(self, field, home, depth)

    def job_of_call(self, call: Call, field: str) -> NewJob:
        """Build the job of a call for a flow, which instruments see when it is enqueued.

        `field`: what errors name. Raises `InvalidArgument`, `PayloadTooLarge` and `UnsupportedFeature`.
        """
        self.require(Feature.FLOWS)
        if not isinstance(call, TaskCall):
            raise not_a_call(call, field)
        if call.source is None or getattr(call.source, "_client", None) is not self:
            raise invalid(field, "a call of a task of this app", f"a call of {call.task}")
        if call.options.durable is not None:
            raise InvalidArgument(f"{field}: durable cannot be set here: the job is as durable as its app.")
        if len(call.payload) > self.payload_limit:
            raise PayloadTooLarge(len(call.payload), self.payload_limit)
        return call.source.built(call)

    @property
    def makes_copies(self) -> bool:
        """Whether jobs of calls with the same options may be copies of one: no enqueue middleware sees each."""
        return not self._middleware

    def builder(self, source: JobSource, options: Options) -> Callable[[bytes], NewJob]:
        """Return a function that builds the jobs of one call for many: like `job`, from their payloads.

        Most jobs of such a call differ only in id and payload: they are made like the first one.
        """
        first: NewJob | None = None
        ids = new_ids()
        most = -1 if self._middleware or options.id is not None else self.payload_limit

        def build(payload: bytes) -> NewJob:
            nonlocal first
            if first is None or len(payload) > most:
                job = self.job(source, payload, options)
                first = job if job.shape is PLAIN and len(payload) <= most else None
                return job
            return replace(first, id=next(ids), payload=payload)

        return build

    def template(self, source: JobSource, payload: bytes, options: Options) -> NewJob:
        """Build the job of a schedule: enqueue middleware does not see it, and a store cannot take its payload.

        Otherwise like `job`.
        """
        if len(payload) > self.payload_limit:
            raise PayloadTooLarge(len(payload), self.payload_limit)
        return self._built(source, payload, options)

    def _built(self, source: JobSource, payload: bytes, options: Options) -> NewJob:
        checked = self._checked  # most jobs have the same options as the previous job
        if checked is None or checked[0] is not options:
            checked = self._checked = options, options.check().shape()
        timeout_ms = options.timeout_ms
        if timeout_ms is None:
            timeout_ms = source.timeout_ms(options)
            if timeout_ms == limits.DEFAULT_TIMEOUT_MS or Feature.TIMEOUT not in self.engine.features:
                timeout_ms = None
        queue, shape, delay_ms = options.queue or source.queue, PLAIN, options.delay_ms or 0
        if checked[1] or self.queue_limits:
            shape = self._shape(source, payload, queue, checked[1])
            delay_ms = delay_ms or (shape.unique.wait_ms if shape.unique else 0)
        return NewJob(
            queue,
            options.id or new_id(),
            payload,
            delay_ms,
            options.run_at_ms,
            options.id is not None,
            task=source.task,
            timeout_ms=timeout_ms,
            retries=0 if shape.at_most_once else options.retries,
            shape=shape,
            headers=options.headers or None,
        )

    def _shape(self, source: JobSource, payload: bytes, queue: str, given: Mapping[str, Any]) -> Shape:
        """Return the shape of a job: the options in `given`, completed from its payload and its queue."""
        found = (*given.get("limits", ()), *self.queue_limits.get(queue, ()))
        if not given and not found:
            return PLAIN
        if found and "priority" in given:
            raise InvalidArgument(
                f"Queue {queue!r} has limits: its jobs start in the order of their enqueue, not by priority."
            )
        made, share = dict(given), given.get("share", "")
        if "unique" in given:
            made["unique"] = keyed(given["unique"], source.task, lambda: source.arguments(payload))
        if found or share:
            has_fields = any("{" in name for name in (share, *(one.name for one in found)))
            arguments = decode_json(source.arguments(payload)) if has_fields and source.task is not None else {}
            made["limits"] = rules_of_job(found, arguments) if found else ()
            made["share"] = filled(share, arguments, "share") if share else None
        if "on_failed" in given:
            made["on_failed"] = self.flows.text_of(self.following(given["on_failed"], "on_failed"))
            if len(made["on_failed"]) > MAX_ON_FAILED:
                raise invalid("on_failed", f"at most {MAX_ON_FAILED:,} bytes", f"{len(made['on_failed']):,}")
        return Shape(**made)

    def set_queue_limits(self, queue: str, found: tuple[Limit, ...]) -> None:
        """Set the limits of all jobs that are enqueued to a queue."""
        self.note_limits(found, queue)
        self.queue_limits[queue] = found

    def note_limits(self, found: Iterable[Limit], queue: str) -> None:
        """Note that jobs of a queue have these limits. Raises `UnsupportedFeature`."""
        for rule in (rule for one in found for rule in one.unfilled):
            self.needed(self.engine.limits, Feature.LIMITS).note_limit(rule.template, queue)

    def require_limits(self, options: Options) -> None:
        """Refuse limits and shares where they are defined, if the protocol lacks them."""
        if options.limits:
            self.require(Feature.LIMITS)
        if options.share:
            self.require(Feature.SHARES)


def _added(engine: FullEngine, jobs: list[NewJob]) -> Steps[list[Enqueued] | list[None]]:
    """Enqueue a batch of one queue. None for each: its queue has partitions, so that one call cannot add them all."""
    if engine.partitions is not None and (yield from engine.partitions.partition_count(jobs[0].queue)) > 1:
        return [None] * len(jobs)
    return (yield from engine.enqueue(jobs))


def blocking(steps: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], T]:
    """Turn a method that returns steps into one that runs them with `self._client` and returns their answer.

    So a method and its async version are written once. The signature names the answer: `Steps[bool]` becomes `bool`.
    """

    name = steps.__name__

    @wraps(steps)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        client: Client = self._client
        if a_loop_runs():
            client.blocks_loop(name)
        return client.run(steps(self, *args, **kwargs))

    signature = inspect.signature(steps)
    returned = signature.return_annotation.removeprefix("Steps[").removesuffix("]")
    method.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    method.__annotations__ = {**steps.__annotations__, "return": returned}
    return method


def asynchronous(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Make the async version of a `blocking` method."""
    steps: Any = inspect.unwrap(method)

    @wraps(method)
    async def amethod(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = await self._client.arun(steps(self, *args, **kwargs))
        return answer

    owner, _, name = method.__qualname__.rpartition(".")
    amethod.__name__, amethod.__qualname__ = f"a{name}", f"{owner}.a{name}"
    amethod.__doc__ = f"Async version of `{name}`."
    return amethod


def seconds_or_none(timeout: object, field: str = "timeout") -> float | None:
    """Return a timeout in seconds; None: no limit. Raises `InvalidArgument` for a negative number."""
    if timeout is None:
        return None
    return names.duration_ms(timeout, field, least_ms=0, most_ms=limits.MAX_DELAY_MS) / limits.SECOND
