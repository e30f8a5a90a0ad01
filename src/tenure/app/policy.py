"""How jobs are run: the options of a task or handler, of its queue and of the app, and their resolution."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeVar, cast

from msgspec import Struct, field

from tenure.app.earlier import Upgrade
from tenure.client.options import (
    NO_TIMEOUT_MS,
    OF_ATTEMPT,
    AttemptOptions,
    Option,
    Options,
    ShapeOptions,
    check_names,
    checked,
)
from tenure.client.schedule import Schedule, ScheduleOption
from tenure.core import limits, names
from tenure.core.backoff import Backoff, BackoffFunction, OwnBackoff
from tenure.core.encoding.signature import Results
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.functions import is_async
from tenure.core.job import ErrorInfo
from tenure.core.retries import Errors, RetryRule, errors
from tenure.core.run_in import USUAL, Place
from tenure.core.task import Arguments, BatchRule, TaskSpec

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

    from tenure.runtime.jobs.job import Job

MAX_RESULT_TTL_MS: Final = 365 * limits.DAY

T = TypeVar("T")
FailureHook: TypeAlias = "Callable[[Job, ErrorInfo], object]"
"""Called with a job that ended in `failed` or `broken`, and the error. It may be an async function."""
SuccessHook: TypeAlias = "Callable[[Job, Any], object]"
"""Called with a job that ended in `completed`, and its result. It may be an async function."""


class RunOptions(AttemptOptions, total=False):
    """How jobs are run; `Tenure.task` describes them. None, except for the timeout, means: not given."""

    backoff: Backoff | BackoffFunction | None
    result_ttl: float | timedelta | None
    retry_on: Errors | None
    fail_on: Errors | None
    on_failure: FailureHook | None
    on_success: SuccessHook | None


class TaskOptions(RunOptions, ShapeOptions, total=False):
    """The options of `@app.task` besides name, queue and `run_in`."""

    schedule: ScheduleOption


OF_TASK: Final = frozenset({"name", "queue", "accepts", "run_in", "max_memory", "schedule"})
"""Options that only `@app.task` takes. They have no defaults."""
OF_RUN: Final = frozenset(RunOptions.__annotations__)


class Rules(TypedDict, total=False):
    """The options given in one place, checked. Left out: not given. `timeout_ms` 0: no limit."""

    timeout_ms: int
    retries: int
    backoff: Backoff | OwnBackoff
    result_ttl_ms: int
    retry_on: Errors
    fail_on: Errors
    on_failure: FailureHook
    on_success: SuccessHook


BUILT_IN: Final[Rules] = {
    "timeout_ms": limits.DEFAULT_TIMEOUT_MS,
    "retries": limits.DEFAULT_RETRIES,
    "backoff": Backoff(),
    "result_ttl_ms": limits.COMPLETED_TTL_MS,
}


def rules_of(options: RunOptions, known: frozenset[str] = OF_RUN) -> Rules:
    """Check the options. `known`: the names that are allowed here. Raises `InvalidArgument`, which names the option."""
    check_names(options, known)
    return cast("Rules", checked(options, _OPTIONS))


class TaskDefaults:
    """The defaults for the tasks and handlers of an app.

        app = Tenure(defaults=TaskDefaults(timeout=60, retries=5, on_failure=page_me))

    The options of `Tenure.task` about how jobs are run: `timeout`, `retries`, `backoff`, `result_ttl`,
    `retry_on`, `fail_on`, `on_failure` and `on_success`. Raises `InvalidArgument`.
    """

    def __init__(self, **options: Unpack[RunOptions]) -> None:
        self.rules = rules_of(options)


class Defaults:
    """The defaults of an app and of its queues."""

    def __init__(self, given: object = None) -> None:
        if given is not None and not isinstance(given, TaskDefaults):
            raise invalid("defaults", "TaskDefaults(...)", type(given).__name__)
        self._of_app: Rules = BUILT_IN if given is None else {**BUILT_IN, **given.rules}
        self._of_queue: dict[str, Rules] = {}

    def set(self, queue: str, rules: Rules) -> None:
        """Set defaults of a queue. Rules set before and not given now stay."""
        self._of_queue[queue] = {**self._of_queue.get(queue, {}), **rules}

    def of(self, queue: str) -> Rules:
        """Return the defaults of the queue. Each of `BUILT_IN` is among them."""
        rules = self._of_queue.get(queue)
        return self._of_app if rules is None else {**self._of_app, **rules}


class Policy(Struct, frozen=True):
    """How the jobs of a task or a handler are run.

    `own`: its own options. `options`: the defaults of its jobs. `earlier`: the earlier names of a task. The defaults of
    queue and app are read when they are needed, because they may be set later.
    """

    queue: str
    own: Rules
    defaults: Defaults
    options: Options = field(default_factory=Options)
    place: Place = USUAL
    batch: BatchRule | None = None
    earlier: Mapping[str, Upgrade | None] = field(default_factory=dict)
    schedules: tuple[Schedule, ...] = ()

    def spec(
        self,
        name: str | None,
        function: Callable[..., Any],
        results: Results,
        decode: Callable[[bytes], Arguments] | None = None,
    ) -> TaskSpec:
        """Resolve the options and their defaults."""
        rules: Rules = {**self.defaults.of(self.queue), **self.own}
        has_rule = "retry_on" in rules or "fail_on" in rules
        return TaskSpec(
            name,
            self.queue,
            function,
            inspect.iscoroutinefunction(function),
            results.encode,
            decode,
            timeout_ms=self.wire_timeout_ms(self.options) or None,
            retries=rules["retries"],
            backoff=rules["backoff"],
            result_ttl_ms=rules["result_ttl_ms"],
            batch=self.batch,
            retry_rule=RetryRule(rules.get("retry_on"), rules.get("fail_on")) if has_rule else None,
            on_failure=rules.get("on_failure"),
            on_success=rules.get("on_success"),
            decode_result=results.decode,
            run_in=self.place.run_in,
            max_memory=self.place.max_memory,
            persistent=bool(self.options.persistent),
        )

    def wire_timeout_ms(self, options: Options) -> int:
        """Return the timeout of a job without its own; 0: no limit. A default never times out a persistent job."""
        timeout_ms = self.own.get("timeout_ms")
        if timeout_ms is None:
            timeout_ms = NO_TIMEOUT_MS if options.persistent else self.defaults.of(self.queue)["timeout_ms"]
        return timeout_ms


def takes(function: Any, what: str, *arguments: str) -> Any:
    """Refuse anything that cannot be called with these arguments."""
    rule = f"a function that takes {' and '.join(arguments)}"
    if not callable(function):
        raise invalid(what, rule, type(function).__name__)
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        raise invalid(what, rule, getattr(function, "__qualname__", type(function).__qualname__)) from None
    except ValueError:  # some built-in functions have no signature
        pass
    return function


def not_async(function: Any, what: str) -> Any:
    """Refuse an async function."""
    if is_async(function):
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise invalid(what, "a function that is not async", name)
    return function


def room_for(registered: list[T], most: int, what: str) -> list[T]:
    """Return the list if it has room for one more. The limit catches code that registers in a loop."""
    if len(registered) >= most:
        raise InvalidArgument(f"The app already has {most} {what}. Register each once, when the program starts.")
    return registered


def checked_kinds(kinds: tuple[object, ...]) -> None:
    """Refuse anything that is not a class of events."""
    from tenure.core.events import Event  # here: most programs have no listener

    rule = "classes from tenure.events, as in @app.on(events.Failed)"
    if not kinds:
        raise invalid("@app.on", rule, "nothing")
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Event):
            raise invalid("@app.on", rule, getattr(kind, "__qualname__", type(kind).__qualname__))


def _backoff(backoff: object, name: str) -> Backoff | OwnBackoff:
    if isinstance(backoff, Backoff):
        return backoff
    if not callable(backoff) or isinstance(backoff, type):
        kind = backoff.__name__ if isinstance(backoff, type) else type(backoff).__name__
        rule = "one such as Backoff(base=5), or a function that takes the number of failures and the error"
        raise invalid(name, rule, kind)
    return OwnBackoff(not_async(takes(backoff, name, "the number of failures", "the error"), name))


def _errors(value: object, name: str) -> Errors:
    found = errors(value, name)
    return found if isinstance(found, tuple) else not_async(takes(found, name, "the error"), name)


_OPTIONS: Final[Mapping[str, Option]] = {
    **OF_ATTEMPT,
    "backoff": Option(_backoff),
    "result_ttl": Option(partial(names.duration_ms, least_ms=0, most_ms=MAX_RESULT_TTL_MS), "result_ttl_ms"),
    "retry_on": Option(_errors),
    "fail_on": Option(_errors),
    "on_failure": Option(lambda hook, name: takes(hook, name, "the job", "the error")),
    "on_success": Option(lambda hook, name: takes(hook, name, "the job", "the result")),
}
"""The options in `RunOptions`. Each is a field of `Rules`."""
