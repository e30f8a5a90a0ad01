"""How jobs are run: the options of a task or handler, of its queue and of the app, and their resolution."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeVar

from leasehold.client.options import NO_TIMEOUT_MS, Options, ShapeOptions, check_names, timeout_on_wire
from leasehold.core import limits, names
from leasehold.core.backoff import Backoff, BackoffFunction, OwnBackoff
from leasehold.core.errors import InvalidArgument, invalid
from leasehold.core.events import Event
from leasehold.core.job import ErrorInfo
from leasehold.core.place import USUAL, Place
from leasehold.core.retries import Errors, RetryRule, errors
from leasehold.core.task import Arguments, BatchRule, TaskSpec

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

    from leasehold.runtime.jobs.job import Job

MAX_RESULT_TTL_MS: Final = 365 * limits.DAY
"""The longest time that a result can be kept."""

T = TypeVar("T")
FailureHook: TypeAlias = "Callable[[Job, ErrorInfo], object]"
"""Called with a job that ended in `failed` or `broken`, and the error. It may be an async function."""


class RunOptions(TypedDict, total=False):
    """How jobs are run. None, except for the timeout, means: not given.

    timeout     seconds (or a `timedelta`) for one attempt; None: no limit. An hour by default; only a persistent task's
                own timeout applies to it
    retries     how many attempts after the first; 3 by default
    backoff     the delay between attempts: a `Backoff`, or a function of the number of failures so far and the error
                that returns seconds
    result_ttl  how many seconds the record of a completed job is kept, 0 for no record; an hour by default
    retry_on    retry only these errors: classes, or a function that returns True or False for an error
    fail_on     do not retry these errors; takes precedence over `retry_on`
    on_failure  a function that is called with the `Job` and an `ErrorInfo` after a job ended in `failed` or `broken`
    """

    timeout: float | timedelta | None
    retries: int | None
    backoff: Backoff | BackoffFunction | None
    result_ttl: float | timedelta | None
    retry_on: Errors | None
    fail_on: Errors | None
    on_failure: FailureHook | None


class TaskOptions(RunOptions, ShapeOptions, total=False):
    """The options of `@app.task` besides name, queue and `run_in`."""


OF_TASK: Final = frozenset({"name", "queue", "run_in", "max_memory"})
"""Options that only `@app.task` takes. They have no defaults."""
OF_RUN: Final = frozenset(RunOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class Rules:
    """The options given in one place, checked. None means: not given. `timeout_ms` 0: no limit."""

    timeout_ms: int | None = None
    retries: int | None = None
    backoff: Backoff | OwnBackoff | None = None
    result_ttl_ms: int | None = None
    retry_on: Errors | None = None
    fail_on: Errors | None = None
    on_failure: FailureHook | None = None

    @classmethod
    def of(cls, options: RunOptions, known: frozenset[str] = OF_RUN) -> Rules:
        """Check the options. `known`: the names that are allowed here. Raises `InvalidArgument`, which names the wrong
        option."""
        check_names(options, known)
        retries, ttl = options.get("retries"), options.get("result_ttl")
        retry_on, fail_on, hook = options.get("retry_on"), options.get("fail_on"), options.get("on_failure")
        return cls(
            timeout_ms=timeout_on_wire(options["timeout"]) if "timeout" in options else None,
            retries=None if retries is None else names.count(retries, "retries"),
            backoff=_backoff(options.get("backoff")),
            result_ttl_ms=None
            if ttl is None
            else names.duration_ms(ttl, "result_ttl", least_ms=0, most_ms=MAX_RESULT_TTL_MS),
            retry_on=None if retry_on is None else _errors(retry_on, "retry_on"),
            fail_on=None if fail_on is None else _errors(fail_on, "fail_on"),
            on_failure=None if hook is None else takes(hook, "on_failure", "the job", "the error"),
        )

    def over(self, others: Rules) -> Rules:
        """Return these rules, completed from `others`."""
        given = {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}
        return replace(others, **given)


BUILT_IN: Final = Rules(
    timeout_ms=limits.DEFAULT_TIMEOUT_MS,
    retries=limits.DEFAULT_RETRIES,
    backoff=Backoff(),
    result_ttl_ms=limits.COMPLETED_TTL_MS,
)


class TaskDefaults:
    """The defaults for the tasks and handlers of an app.

        app = Leasehold(defaults=TaskDefaults(timeout=60, retries=5, on_failure=page_me))

    The options are those of `Leasehold.task` about how jobs are run: `timeout`, `retries`, `backoff`, `result_ttl`,
    `retry_on`, `fail_on` and `on_failure`. Raises `InvalidArgument`.
    """

    def __init__(self, **options: Unpack[RunOptions]) -> None:
        self.rules = Rules.of(options)


class Defaults:
    """The defaults of an app and of its queues."""

    def __init__(self, given: object = None) -> None:
        if given is not None and not isinstance(given, TaskDefaults):
            raise invalid("defaults", "TaskDefaults(...)", type(given).__name__)
        self._of_app = BUILT_IN if given is None else given.rules.over(BUILT_IN)
        self._of_queue: dict[str, Rules] = {}

    def set(self, queue: str, rules: Rules) -> None:
        """Set defaults of a queue. Rules set before and not given now stay."""
        self._of_queue[queue] = rules.over(self._of_queue.get(queue, Rules()))

    def of(self, queue: str) -> Rules:
        said = self._of_queue.get(queue)
        return self._of_app if said is None else said.over(self._of_app)


@dataclass(frozen=True, slots=True)
class Policy:
    """How the jobs of a task or a handler are run.

    `own`: its own options. `options`: the defaults of its jobs. The defaults of queue and app are read when they are
    needed, because they may be set later.
    """

    queue: str
    own: Rules
    defaults: Defaults
    options: Options = field(default_factory=Options)
    place: Place = USUAL
    batch: BatchRule | None = None

    def spec(
        self,
        name: str | None,
        function: Callable[..., Any],
        encode_result: Callable[[Any], bytes],
        decode: Callable[[bytes], Arguments] | None = None,
    ) -> TaskSpec:
        """Resolve the options and their defaults."""
        rules = self.own.over(self.defaults.of(self.queue))
        assert rules.retries is not None
        assert rules.backoff is not None
        assert rules.result_ttl_ms is not None
        has_rule = rules.retry_on is not None or rules.fail_on is not None
        return TaskSpec(
            name,
            self.queue,
            function,
            inspect.iscoroutinefunction(function),
            encode_result,
            decode,
            timeout_ms=self.wire_timeout_ms(self.options) or None,
            retries=rules.retries,
            backoff=rules.backoff,
            result_ttl_ms=rules.result_ttl_ms,
            batch=self.batch,
            retry_rule=RetryRule(rules.retry_on, rules.fail_on) if has_rule else None,
            on_failure=rules.on_failure,
            run_in=self.place.run_in,
            max_memory=self.place.max_memory,
            persistent=bool(self.options.persistent),
        )

    def wire_timeout_ms(self, options: Options) -> int:
        """Return the timeout of a job without its own; 0: no limit. A default never times out a persistent job."""
        timeout_ms = self.own.timeout_ms
        if timeout_ms is None and not options.persistent:
            timeout_ms = self.defaults.of(self.queue).timeout_ms
        return timeout_ms or NO_TIMEOUT_MS


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


def room_for(registered: list[T], most: int, what: str) -> list[T]:
    """Return the list if it has room for one more. The limit catches code that registers in a loop."""
    if len(registered) >= most:
        raise InvalidArgument(f"The app already has {most} {what}. Register each once, when the program starts.")
    return registered


def checked_kinds(kinds: tuple[object, ...]) -> None:
    """Refuse anything that is not a class of events."""
    rule = "classes from leasehold.events, as in @app.on(events.Failed)"
    if not kinds:
        raise invalid("@app.on", rule, "nothing")
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Event):
            raise invalid("@app.on", rule, getattr(kind, "__qualname__", type(kind).__qualname__))


def _backoff(backoff: object) -> Backoff | OwnBackoff | None:
    if backoff is None or isinstance(backoff, Backoff):
        return backoff
    if not callable(backoff) or isinstance(backoff, type):
        kind = backoff.__name__ if isinstance(backoff, type) else type(backoff).__name__
        rule = "one such as Backoff(base=5), or a function that takes the number of failures and the error"
        raise invalid("backoff", rule, kind)
    return OwnBackoff(takes(backoff, "backoff", "the number of failures", "the error"))


def _errors(value: object, field: str) -> Errors:
    found = errors(value, field)
    return found if isinstance(found, tuple) else takes(found, field, "the error")
