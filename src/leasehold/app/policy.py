"""How jobs are run: what is said for a task or a handler, for its queue and for the app, and what holds in the end."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeVar

from leasehold.client.options import NO_TIMEOUT_MS, UNSET, Options, ShapeOptions, Unset
from leasehold.core import limits, names
from leasehold.core.backoff import Backoff, BackoffFunction, OwnBackoff
from leasehold.core.errors import InvalidArgument
from leasehold.core.events import Event
from leasehold.core.job import ErrorInfo
from leasehold.core.retries import Errors, RetryRule, errors

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

    from leasehold.runtime.jobs.job import Job

MAX_RESULT_TTL_MS: Final = 365 * limits.DAY
"""The longest time for which a result can be kept."""

T = TypeVar("T")
FailureHook: TypeAlias = "Callable[[Job, ErrorInfo], object]"
"""Called with a job that failed for good or broke, and why. It may be an async function."""


class RunOptions(TypedDict, total=False):
    """How jobs are run. None where nothing is to be said, but for the timeout.

    timeout     seconds (or a `timedelta`) for one attempt; None: no limit. An hour by default; a persistent task has
                none unless it says so itself
    retries     how many more attempts after the first; 3 by default
    backoff     how long to wait between them: a `Backoff`, or a function of the number of failures so far and the error
                that gives seconds
    result_ttl  for how many seconds the record of a completed job is kept, 0 for not at all; an hour by default
    retry_on    only these errors are tried again: classes, or a function that says True or False of one
    fail_on     these errors are not tried again; they outweigh `retry_on`
    on_failure  a function, called with the `Job` and an `ErrorInfo` when a job failed for good or broke
    """

    timeout: float | timedelta | None
    retries: int | None
    backoff: Backoff | BackoffFunction | None
    result_ttl: float | timedelta | None
    retry_on: Errors | None
    fail_on: Errors | None
    on_failure: FailureHook | None


class TaskOptions(RunOptions, ShapeOptions, total=False):
    """What `@app.task` takes besides a name and a queue."""


OF_TASK: Final = frozenset({"name", "queue", "run_in", "max_memory"})
"""What only `@app.task` takes, and nothing else says for it."""
OF_RUN: Final = frozenset(RunOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class Rules:
    """What was said in one place, checked. None, and for the timeout `UNSET`, where nothing was."""

    timeout_ms: int | Unset | None = UNSET
    retries: int | None = None
    backoff: Backoff | OwnBackoff | None = None
    result_ttl_ms: int | None = None
    retry_on: Errors | None = None
    fail_on: Errors | None = None
    on_failure: FailureHook | None = None

    @classmethod
    def of(cls, options: RunOptions, known: frozenset[str] = OF_RUN, others: frozenset[str] = frozenset()) -> Rules:
        """Raises `InvalidArgument`, naming the option that is wrong. `known`: those that may be asked for here; beside
        them there are `others`, which were taken out before."""
        unknown = sorted(options.keys() - known)
        if unknown:
            expected = ", ".join(sorted(known | others))
            raise InvalidArgument(f"There is no option {unknown[0]!r} here; expected {expected}.")
        retries, ttl = options.get("retries"), options.get("result_ttl")
        retry_on, fail_on, hook = options.get("retry_on"), options.get("fail_on"), options.get("on_failure")
        return cls(
            timeout_ms=_timeout_ms(options["timeout"]) if "timeout" in options else UNSET,
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
        """These rules, and of the others those that nothing was said about here."""
        nothing: dict[str, object] = {"timeout_ms": UNSET}
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(others, **{name: value for name, value in values.items() if value is not nothing.get(name)})


BUILT_IN: Final = Rules(
    timeout_ms=limits.DEFAULT_TIMEOUT_MS,
    retries=limits.DEFAULT_RETRIES,
    backoff=Backoff(),
    result_ttl_ms=limits.COMPLETED_TTL_MS,
)


class TaskDefaults:
    """What the tasks and handlers of an app get where nothing else is said.

        app = Leasehold(defaults=TaskDefaults(timeout=60, retries=5, on_failure=tell_somebody))

    The options are those of `Leasehold.task` that say how jobs are run: `timeout`, `retries`, `backoff`, `result_ttl`,
    `retry_on`, `fail_on` and `on_failure`. Raises `InvalidArgument`.
    """

    def __init__(self, **options: Unpack[RunOptions]) -> None:
        self.rules = Rules.of(options)


class Defaults:
    """What is said for a whole app, and for some of its queues."""

    def __init__(self, given: object = None) -> None:
        if given is not None and not isinstance(given, TaskDefaults):
            raise InvalidArgument(f"defaults is a {type(given).__name__}; expected TaskDefaults(...).")
        self._of_app = BUILT_IN if given is None else given.rules.over(BUILT_IN)
        self._of_queue: dict[str, Rules] = {}

    def set(self, queue: str, rules: Rules) -> None:
        """Say something for a queue. Of what was said before, the rest stays."""
        self._of_queue[queue] = rules.over(self._of_queue.get(queue, Rules()))

    def of(self, queue: str) -> Rules:
        said = self._of_queue.get(queue)
        return self._of_app if said is None else said.over(self._of_app)


@dataclass(frozen=True, slots=True)
class Policy:
    """How the jobs of a task or a handler are run. Checked.

    `own`: what it says itself. `options`: what its jobs get that ask for nothing else. The defaults are looked up when
    they are needed, as they may be set after it.
    """

    queue: str
    own: Rules
    defaults: Defaults
    options: Options = field(default_factory=Options)

    def settled(self) -> ResolvedPolicy:
        """What holds in the end."""
        rules = self.own.over(self.defaults.of(self.queue))
        assert rules.retries is not None
        assert rules.backoff is not None
        assert rules.result_ttl_ms is not None
        told = rules.retry_on is not None or rules.fail_on is not None
        return ResolvedPolicy(
            timeout_ms=self._timeout_ms(bool(self.options.persistent)),
            retries=rules.retries,
            backoff=rules.backoff,
            result_ttl_ms=rules.result_ttl_ms,
            retry_rule=RetryRule(rules.retry_on, rules.fail_on) if told else None,
            on_failure=rules.on_failure,
        )

    def wire_timeout_ms(self, options: Options) -> int:
        """The timeout of a job that asks for none."""
        return self._timeout_ms(bool(options.persistent)) or NO_TIMEOUT_MS

    def _timeout_ms(self, persistent: bool) -> int | None:
        """None: no limit. A job that never completes is not to time out by a default."""
        timeout_ms = self.own.timeout_ms
        if timeout_ms is UNSET:
            timeout_ms = None if persistent else self.defaults.of(self.queue).timeout_ms
        assert timeout_ms is not UNSET
        return timeout_ms


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """The rules of a task or a handler in the end. `timeout_ms` None: no limit."""

    timeout_ms: int | None
    retries: int
    backoff: Backoff | OwnBackoff
    result_ttl_ms: int
    retry_rule: RetryRule | None
    on_failure: FailureHook | None


def takes(function: Any, what: str, *arguments: str) -> Any:
    """Refuse what cannot be called with so many arguments."""
    expected = f"expected a function that takes {' and '.join(arguments)}."
    if not callable(function):
        raise InvalidArgument(f"{what} is a {type(function).__name__}; {expected}")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise InvalidArgument(f"{what}: {name} cannot be called like that; {expected}") from None
    except ValueError:  # a function without a signature, as some built-in ones are
        pass
    return function


def room_for(registered: list[T], most: int, what: str) -> list[T]:
    """The list, if there is room for one more. Who registers in a loop or in a request handler hears of it."""
    if len(registered) >= most:
        raise InvalidArgument(f"The app has {most} {what} already; expected them to be registered once, at the start.")
    return registered


def checked_kinds(kinds: tuple[object, ...]) -> None:
    """Refuse what is no class of events."""
    expected = "expected classes from leasehold.events, as in @app.on(events.Failed)."
    if not kinds:
        raise InvalidArgument(f"@app.on() names no events; {expected}")
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Event):
            name = getattr(kind, "__qualname__", type(kind).__qualname__)
            raise InvalidArgument(f"@app.on: {name} is no class of events; {expected}")


def _timeout_ms(timeout: object) -> int | Unset | None:
    if timeout is UNSET:
        return UNSET
    return None if timeout is None else names.duration_ms(timeout, "timeout")


def _backoff(backoff: object) -> Backoff | OwnBackoff | None:
    if backoff is None or isinstance(backoff, Backoff):
        return backoff
    if not callable(backoff) or isinstance(backoff, type):
        kind = backoff.__name__ if isinstance(backoff, type) else type(backoff).__name__
        raise InvalidArgument(
            f"backoff is a {kind}; expected one such as Backoff(base=5), or a function that takes the number of "
            "failures and the error and gives seconds."
        )
    return OwnBackoff(takes(backoff, "backoff", "the number of failures", "the error"))


def _errors(value: object, field: str) -> Errors:
    found = errors(value, field)
    return found if isinstance(found, tuple) else takes(found, field, "the error")
