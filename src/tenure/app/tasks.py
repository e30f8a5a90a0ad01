"""Tasks: registered functions; their calls can be enqueued."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar, cast, overload
from weakref import WeakSet

from msgspec.structs import replace

from tenure.app.earlier import Decode, decoders
from tenure.client.call import TaskCall
from tenure.client.client import JobSource, asynchronous, blocking
from tenure.client.enqueue import enqueue_all, enqueue_one, enqueue_together
from tenure.client.handle import JobHandle
from tenure.client.limit import Limit, check_fields
from tenure.client.options import NONE_GIVEN, OF_USING, Options, UsingOptions
from tenure.client.schedule import spec_of
from tenure.core import names
from tenure.core.encoding.signature import Results, Signature
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.functions import placing, resemble, without_warning
from tenure.core.hints import TASK_METHODS, pointing
from tenure.core.job import NewJob
from tenure.core.schedules.schedule import ScheduleSpec
from tenure.core.steps import Steps
from tenure.core.task import Arguments, TaskSpec

if TYPE_CHECKING:
    from typing import Unpack

    from tenure.app.policy import Policy
    from tenure.client.client import Client

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class TaskDecorator(Protocol):
    """What `@app.task(...)` returns: makes a `Task` of a function or an async function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


class NoClient:
    """Stands for the client of a task that no app has: any use of it raises `InvalidArgument`."""

    def __init__(self, task: str) -> None:
        self._task = task

    def require_limits(self, options: Options) -> None:
        """The app checks it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise InvalidArgument(
            f"Task {self._task} is of a router that no app has included. Call app.include(router) where the app is "
            "made, and import that module before this call."
        )


class Task(Generic[P, R, C]):
    """A registered function, made by `@app.task`. Calling it calls the function.

        thumbnail("cat.png")                            # runs here, at once
        job = thumbnail.enqueue("cat.png", size=64)     # runs in a worker
        thumbnail.using(delay=60).enqueue("cat.png")    # in a minute

    The enqueue checks the arguments against the function's signature and type hints.
    """

    def __init__(self, name: str, function: Callable[..., Any], policy: Policy) -> None:
        self.name = name
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__ = getattr(function, "__qualname__", name)
        self.__module__ = function.__module__
        self.__wrapped__ = function
        resemble(self, function)
        self._client = cast("Client", NoClient(name))
        self._policy = policy
        self._copies: WeakSet[Task[P, R, C]] | None = WeakSet()
        """Copies by `using` before the task had an app."""
        self._set(NONE_GIVEN)

    def _bind(self, client: Client, name: str, policy: Policy) -> None:
        """Make this a task of an app, and its copies by `using`, too."""
        for task in (*(self._copies or ()), self):
            task.name, task._client, task._policy, task._copies = name, client, policy, None
            for cached in ("_signature", "_source", "_decoders", "results"):
                task.__dict__.pop(cached, None)  # of another name: its router is included again
            task._set(task._options)
        client.note_limits(self.limits, self.queue)
        try:
            _ = self._decoders, self.results, self.scheduled("")
        except InvalidArgument as exc:
            # The module may define the name further down: resolve it at the first use.
            if not isinstance(exc.__cause__, NameError):
                raise

    def _set(self, options: Options) -> None:
        self._options = options
        self._all_options = options.over(self._policy.options).check()
        self._check_limits(self._all_options)
        self.queue = options.queue or self._policy.queue

    def _check_limits(self, options: Options) -> None:
        """Refuse limits that the protocol lacks, and names that mention no argument of the function."""
        templates = [*(one.name for one in options.limits or ()), options.share or ""]
        if any(templates):
            self._client.require_limits(options)
            parameters = inspect.signature(self.__wrapped__).parameters
            check_fields(templates, [*parameters], f"task {self.name}")

    @cached_property
    def _signature(self) -> Signature:
        with placing(self.__wrapped__):
            return Signature(self.name, self.__wrapped__, self._client.conversion)

    @cached_property
    def _source(self) -> JobSource:
        return JobSource(self._policy.queue, self.name, self._policy.wire_timeout_ms, self._signature.identity)

    @cached_property
    def _decoders(self) -> dict[str, Decode]:
        return decoders(self._signature, self._policy.earlier)

    @cached_property
    def results(self) -> Results:
        """How its results are encoded and decoded."""
        returns = self._signature.returns
        with placing(self.__wrapped__):
            return Results(f"task {self.name}", returns, self._client.conversion)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> C:
        result: C = self.__wrapped__(*args, **kwargs)
        return result

    if not TYPE_CHECKING:
        __getattr__ = pointing(TASK_METHODS)

    def __repr__(self) -> str:
        return f"<Task {self.name} on queue {self.queue!r}>"

    @property
    def spec(self) -> TaskSpec:
        """The task as the runtime sees it. Raises `InvalidArgument` if its annotations cannot be resolved."""
        return self._spec(self.name)

    @property
    def specs(self) -> tuple[TaskSpec, ...]:
        """`spec`, and one more for each earlier name."""
        return tuple(map(self._spec, self._decoders))

    @property
    def accepts(self) -> Mapping[str, object]:
        """The earlier names of the task."""
        return self._policy.earlier

    def decode(self, payload: bytes) -> Arguments:
        """Decode the arguments of a job of this task. Raises `PayloadInvalid`."""
        return self._signature.decode(payload)

    def rebuild(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments:
        """Convert plain arguments to the types of the parameters, as a worker does. Raises `PayloadInvalid`."""
        return self._signature.rebuild(args, kwargs)

    def _spec(self, name: str) -> TaskSpec:
        return self._policy.spec(name, self.__wrapped__, self.results, self._decoders[name])

    def using(self, **options: Unpack[UsingOptions]) -> Task[P, R, C]:
        """Return a copy of the task with these options for its jobs.

            thumbnail.using(delay=60).enqueue("cat.png")
            thumbnail.using(id="cat", timeout=5, retries=0).enqueue("cat.png")
            thumbnail.using(lane="user:42").enqueue("cat.png")
            thumbnail.using(priority=5, unique=True).enqueue("cat.png")
            thumbnail.using(headers={"tenant": "7"}).enqueue("cat.png")

        `id`: the job's id; while a job with it exists, a second one is refused. `queue`: another queue. `delay`:
        seconds or a `timedelta`. `run_after`: a `datetime` with a time zone. `timeout` and `retries`: as in
        `Tenure.task`. `durable`: how many replicas must have the job, or `NotDurable` is raised.
        `lane`: jobs with the same lane run one at a time, in the order of their enqueue; a retried job keeps its place.
        `lane_limit`: how many jobs of the lane may run at a time (1 to 1,000); above 1 there is no order.
        `priority`: -100 to 100, higher first; not with a lane. `unique`: refuse a second job with the same key until
        this one has ended; `True`: with the same arguments. See `Unique`, `Debounce` and `Throttle`. `persistent`: the
        job runs again whenever the function returns, until it is cancelled, discarded or raises `Fail`; failures are
        retried without a limit. Its unique key must last until it ends. `headers`: texts by name that travel with the
        job, at most 4 KiB; the handler reads `current_job().headers`. They replace those set before; {} removes them.
        `limits`: a list of `Limit`; the job starts when all of them allow it; [] removes the task's limits. `share`:
        jobs of different shares of a queue are claimed in turns, as in "tenant:{tenant}"; not with a lane. Neither goes
        with a priority. `expires`: seconds, a `timedelta` or a `datetime`; a job that no worker has claimed by then, a
        retry included, ends in `cancelled` with the error type `Expired`. `on_failed`: a call that is enqueued when the
        job ends in `failed` or `broken` or expires, or is purged or discarded while it waits; its
        header `failed_job` names the job, as "queue/id". `at_most_once`: the job is not retried, and ends in `broken`
        when its worker dies or stops before the job has ended.

        None keeps an option, except for `timeout` (no limit), `lane`, `share`, `unique`, `expires` and `on_failed`
        (none). Raises `InvalidArgument` for a wrong option, and for options that contradict each other.
        """
        task: Task[P, R, C] = object.__new__(Task)
        task.__dict__.update(self.__dict__)
        task._set(self._options.using(OF_USING, **options))
        if self._copies is not None:
            self._copies.add(task)
        return task

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskCall[R]:
        """Return a call to be enqueued later, together with others: see `enqueue_many`. Raises `PayloadInvalid`.

        thumbnail.enqueue_many([thumbnail.call("cat.png"), thumbnail.call("dog.png", size=64)])
        """
        return TaskCall(self.name, self._signature.encode(args, kwargs), self._options, self)

    @blocking
    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Steps[JobHandle[R]]:
        """Enqueue a call of the task. In async code: `aenqueue`.

            job = thumbnail.enqueue("cat.png", size=64)

        With `unique`, the handle may name another job: `created` is then False, and `conflict` is what was
        done. Raises `PayloadInvalid` (arguments that do not fit, or cannot be encoded), `PayloadTooLarge`,
        `DuplicateJob` (your own id exists), `NotUnique` (another job has the unique key), `UnsupportedFeature`,
        `QueueFull` and the errors of Redis.
        """
        return enqueue_one(self._client, self._job(args, kwargs), self.results, self._all_options.durable)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Async version of `enqueue`. Jobs that tasks enqueue at the same time go to Redis together.

        jobs = await asyncio.gather(*(thumbnail.aenqueue(path) for path in paths))
        """
        return await enqueue_together(self._client, self._job(args, kwargs), self.results, self._all_options.durable)

    def _job(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        return self._client.job(self._source, self._signature.encode(args, kwargs), self._all_options)

    @blocking
    def enqueue_many(self, calls: Iterable[TaskCall[R]]) -> Steps[list[JobHandle[R]]]:
        """Enqueue many calls of this task in a few round trips. Returns their handles in order.

            thumbnail.enqueue_many(thumbnail.call(path) for path in paths)
            thumbnail.enqueue_many(thumbnail.using(id=path).call(path) for path in paths)
            thumbnail.using(delay=60).enqueue_many(thumbnail.call(path) for path in paths)

        The options of `using()` here are the defaults of calls without them; an id is refused. All calls are checked
        before the first is sent. An id or a unique key of another job is no error here: the handle names the other
        job and has `created` False. Otherwise raises as `enqueue` does; if Redis fails before the end, some of the
        calls may be enqueued.
        """
        if self._options.id is not None:
            raise InvalidArgument(
                f"Task {self.name}: many jobs cannot share the id {self._options.id!r}. Give each call its own, as in "
                f"{self.__name__}.using(id=...).call(...)."
            )
        if not isinstance(calls, Iterable):
            self._refuse(calls, "a list of ")
        usual, name = self._options, self.name
        build = self._client.builder(self._source, self._all_options)
        jobs: list[NewJob] = []
        others: list[Options] = []
        for call in calls:
            if type(call) is TaskCall and call.options is usual and call.task == name:
                jobs.append(build(call.payload))
            else:
                options = self._options_of(call)
                jobs.append(self._client.builder(self._source, options)(call.payload))
                others.append(options)
        if len(others) < len(jobs):
            others.append(self._all_options)
        durable = max((one.durable for one in others if one.durable is not None), default=None)
        return enqueue_all(self._client, jobs, self.results, durable)

    aenqueue_many = asynchronous(enqueue_many)

    def job(self, id: str) -> JobHandle[R]:
        """Return a handle for an existing job of this task. Sends nothing.

        thumbnail.job(request.args["id"]).result(timeout=0)
        """
        return JobHandle(self._client, self.queue, names.known_id(id), results=self.results)

    def built(self, call: TaskCall[Any]) -> NewJob:
        """Return the job that a call becomes when it is enqueued. Sends nothing."""
        return self._client.job(self._source, call.payload, self._options_of(call))

    def template(self, call: TaskCall[Any]) -> NewJob:
        """Return the job that a call becomes, as schedules enqueue it: without enqueue middleware. Sends nothing."""
        return self._client.template(self._source, call.payload, self._options_of(call))

    @property
    def options(self) -> Options:
        """The options of `using` that its calls have."""
        return self._options

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits of its jobs."""
        return self._all_options.limits or ()

    @property
    def has_schedules(self) -> bool:
        """Whether the task runs by itself."""
        return bool(self._policy.schedules)

    def scheduled(self, source: str) -> tuple[ScheduleSpec, ...]:
        """Return the definitions of its schedules, for the app `source`. Raises `InvalidArgument`, `PayloadInvalid`."""
        found = []
        for schedule in self._policy.schedules:
            task = self.using(**schedule.using)
            job = task.template(task.call(*schedule.args, **schedule.kwargs))
            spec = spec_of(schedule.name or self.name, schedule.when, schedule.policies, job, source)
            found.append(spec if schedule.name else replace(spec, earlier=tuple(self.accepts)))
        return tuple(found)

    def _options_of(self, call: object) -> Options:
        """Return the options of a call of this task. Most calls have the options of the task."""
        if not isinstance(call, TaskCall) or call.task != self.name:
            self._refuse(call)
        return self._all_options if call.options is self._options else call.options.over(self._all_options)

    def _refuse(self, got: object, wanted: str = "") -> NoReturn:
        what = f"a call of {got.task}" if isinstance(got, TaskCall) else without_warning(got)
        raise invalid(f"Task {self.name}: calls", f"{wanted}calls made by {self.__name__}.call(...)", what)


def default_name(function: Callable[..., Any]) -> str:
    """Return `module.function`: the same in a module that is run as a program and in a worker that imports it."""
    module = function.__module__
    if module == "__main__":
        module = _main_name()
    try:
        return names.task_name(f"{module}.{function.__qualname__}")
    except InvalidArgument:
        raise InvalidArgument(
            f"{module}.{function.__qualname__} cannot be a task's name: it is a lambda, local to a function, or has "
            "letters beyond A-Z. Give it a name with name=, the same in producers and workers."
        ) from None


def _main_name() -> str:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    path = getattr(main, "__file__", None) or "<stdin>"
    return "__main__" if path.startswith("<") else PurePath(path).stem


def scheduled_by(tasks: Iterable[Task[..., Any, Any]], source: str) -> Iterator[ScheduleSpec]:
    """Yield the definitions of the schedules of these tasks. Raises `InvalidArgument` for a name that two of them have.

    An earlier name of a task that a schedule of today has is not an earlier name of another one.
    """
    found: dict[tuple[str, str], ScheduleSpec] = {}
    for spec in (spec for task in tasks for spec in task.scheduled(source)):
        if (spec.queue, spec.name) in found:
            raise InvalidArgument(f"Two schedules of queue {spec.queue!r} are called {spec.name!r}: rename one.")
        found[spec.queue, spec.name] = spec
    for spec in found.values():
        yield replace(spec, earlier=tuple(name for name in spec.earlier if (spec.queue, name) not in found))
