"""The definition of tasks: `@app.task` and `@router.task`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from tenure.app.earlier import Accepts, accepted_names
from tenure.app.handlers import checked_function, refuse_job
from tenure.app.policy import OF_RUN, OF_TASK, Defaults, Policy, TaskOptions, rules_of
from tenure.app.tasks import Task, TaskDecorator, default_name
from tenure.client.options import NONE_GIVEN, OF_SHAPE
from tenure.client.schedule import schedules_of
from tenure.core import names
from tenure.core.run_in import Place, RunsIn

if TYPE_CHECKING:
    from typing import Unpack

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_QUEUE: Final = "default"


class Definition(Struct, frozen=True):
    """What `@app.task` or `@router.task` was given, checked. `name` None, and an empty queue: not given."""

    name: str | None
    given: Policy

    def policy(self, queue: str, defaults: Defaults) -> Policy:
        """Return how the jobs of the task are run. `queue`: for a definition without one."""
        return replace(self.given, queue=self.given.queue or queue, defaults=defaults)


class DefinesTasks:
    """The part of an app and of a router that defines tasks."""

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        accepts: Accepts | None = None,
        run_in: RunsIn | None = None,
        max_memory: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> TaskDecorator: ...
    def task(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        accepts: Accepts | None = None,
        run_in: RunsIn | None = None,
        max_memory: int | None = None,
        **options: Unpack[TaskOptions],
    ) -> Any:
        """Register a function or an async function as a task.

            @app.task(queue="images", timeout=30, retries=5, backoff=Backoff(base=5))
            async def thumbnail(path: str, size: int = 128) -> str: ...

            @app.task(queue="reports", schedule=Cron("0 9 * * mon-fri", tz="Europe/Berlin"))
            def report() -> None: ...

        `name`: the task's name in jobs, `module.function` by default; producers and workers must agree. `queue`:
        "default" by default. `accepts`: its earlier names: the task runs their jobs as well, with a function for each
        earlier signature. `timeout`: seconds for one attempt, None for no limit; by default an hour, and no limit for a
        persistent task. `retries`: how many attempts after the first (3). `backoff`: the delay between attempts, a
        `Backoff` or a function of the number of failures and the error that returns seconds. `retry_on` and `fail_on`:
        which errors are retried, and which are not, which takes precedence; classes, or a function that returns True or
        False. `result_ttl`: how many seconds the record of a completed job is kept (3,600), 0 for no record.
        `on_failure`: a function that is called with the `Job` and an `ErrorInfo` after a job ended in `failed` or
        `broken`. `on_success`: one that is called with the `Job` and its result after it ended in `completed`. Options
        left out fall back to `queue_defaults`, then to the app's `defaults`. `lane`, `lane_limit`, `priority`,
        `unique`, `persistent`, `limits`, `share`, `expires`, `on_failed`, `at_most_once`: see `Task.using`. `run_in`:
        "process" (a timeout can kill it), "thread", or "loop" (async functions). `max_memory`: how many more megabytes
        a job process may use. `schedule`: when it runs by itself, a `Cron`, an `Every`, a `Schedule`, or a list.
        Raises `InvalidArgument`, also for annotations unfit for JSON.
        """
        own = rules_of(options, OF_RUN | OF_SHAPE | OF_TASK)
        shape: Any = {name: value for name, value in options.items() if name in OF_SHAPE}
        given = Policy(
            "" if queue is None else names.queue_name(queue),
            own,
            Defaults(),
            NONE_GIVEN.using(OF_SHAPE, **shape).check(),
            Place.of(run_in, max_memory),
            earlier=accepted_names(accepts),
            schedules=schedules_of(options.get("schedule")),
        )
        definition = Definition(None if name is None else names.task_name(name), given)
        self._check(definition)

        def define(function: Callable[..., Any]) -> Task[Any, Any, Any]:
            checked_function(function, "@app.task")
            refuse_job(function)
            given.place.check(function, "@app.task")
            defined: Task[Any, Any, Any] = Task(
                definition.name or default_name(function), function, definition.policy(DEFAULT_QUEUE, Defaults())
            )
            self._add(defined, definition)
            return defined

        return define if function is None else define(function)

    def _check(self, definition: Definition) -> None:
        """Refuse what the protocol lacks, where it is known already."""

    def _add(self, task: Task[Any, Any, Any], definition: Definition) -> None:
        """Take in a task that was defined."""
        raise NotImplementedError
