"""Errors for users of other work queues, and for misspelled names, name what is meant."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest

from tenure import (
    Backoff,
    Cron,
    Every,
    InvalidArgument,
    JobHandle,
    Limit,
    PayloadInvalid,
    RateLimited,
    Retry,
    Router,
    Tenure,
    Unique,
)
from tenure.app.tasks import Task


class Order:
    """Nothing encodes it."""


app = Tenure()


@app.task(name="report", queue="reports")
def report(day: str = "today") -> str:
    return day


@app.task(name="untyped")
def untyped(order):
    return None


@app.task(name="bound")
def bound(self: Any, day: str) -> None: ...


@app.task(name="unbound")
async def unbound(day: str) -> None: ...


@pytest.mark.parametrize(
    ("owner", "name", "advice"),
    [
        (report, "delay", r"Use enqueue\(\.\.\.\)\."),
        (report, "apply_async", r"Use enqueue\(\.\.\.\), with options using"),
        (report, "map", r"Use enqueue_many\(\[call\(\.\.\.\), \.\.\.\]\)\."),
        (report, "retry", r"Raise tenure\.Retry\(\.\.\.\) in the task\."),
        (report.job("1"), "get", r"Use result\(timeout=\.\.\.\)\."),
        (report.job("1"), "status", r"Use state\(\)\."),
        (app, "enqueue_job", r"Use the task's enqueue\(\.\.\.\)\."),
        (app, "other", "object has no attribute 'other'$"),
    ],
)
def test_methods_of_other_work_queues_name_ours(owner: object, name: str, advice: str) -> None:
    assert isinstance(owner, (Task, JobHandle, Tenure))
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match=advice):
        getattr(owner, name)


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("countdown", r"Use delay\."),
        ("max_retries", r"Use retries\."),
        ("bind", r"Call tenure\.current_job\(\) in the task\."),
        ("retry", r"Use retries, or retry_on for the errors\."),
        ("cron", r"Use schedule=Cron\(\.\.\.\)\."),
        ("tmeout", r"Did you mean 'timeout'\?"),
    ],
)
def test_unknown_options_name_ours(option: str, advice: str) -> None:
    given: Any = {option: 1}
    calls: list[Callable[[], object]] = [
        lambda: report.using(**given),
        lambda: app.task(name="other", **given),
        lambda: app.queue("raw").enqueue(b"", **given),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match=rf"^option must be one of .*, got '{option}'\. {advice}$"):
            call()


@pytest.mark.parametrize(
    ("kind", "named", "advice"),
    [
        (Unique, {"on_conflit": "replace"}, r"keyword argument 'on_conflit'\. Did you mean 'on_conflict'\?"),
        (Cron, {"expression": "* * * * *", "timezone": "UTC"}, r"'timezone'\. Use tz\."),
        (Retry, {"dely": 30}, r"Did you mean 'delay'\?"),
        (Tenure, {"namespce": "shop"}, r"Did you mean 'namespace'\?"),
        (Every, {"lightyears": 2}, "unexpected keyword argument 'lightyears'$"),
        (Cron, {}, "missing 1 required positional argument: 'expression'$"),
    ],
)
def test_unknown_keywords_of_constructors_name_the_nearest(kind: Any, named: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        kind(**named)


@pytest.mark.parametrize(
    ("kind", "given", "names"),
    [
        (Every, (5,), "weeks, days, hours, minutes, seconds"),
        (Backoff, (5, 60), "base, factor, cap, jitter"),
        (Limit, ("stripe", 10), "per_second, .*, concurrency, cost"),
        (RateLimited, (30,), "retry_after, limit"),
    ],
)
def test_a_number_without_a_unit_is_refused_and_the_units_are_named(kind: Any, given: Any, names: str) -> None:
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\(\.\.\.\) takes values by name: {names}\.$"):
        kind(*given)


@pytest.mark.parametrize(
    ("named", "advice"),
    [
        ({"dax": "x"}, r"Did you mean 'day'\?"),
        ({"countdown": 3}, r"Use delay\. Options of the job go to using: \.using\(\.\.\.\)\.enqueue"),
        ({"delay": 3}, r"Pass options of the job to using: \.using\(delay=\.\.\.\)\.enqueue"),
    ],
)
def test_unexpected_arguments_name_the_nearest_parameter_or_the_option(named: dict[str, Any], advice: str) -> None:
    calls: list[Callable[[], object]] = [lambda: report.enqueue(**named), lambda: report.rebuild([], named)]
    for call in calls:
        with pytest.raises(PayloadInvalid, match=f"got an unexpected keyword argument '.*'. {advice}"):
            call()


def test_a_misspelled_required_argument_is_named_with_the_nearest() -> None:
    calls: list[Callable[[], object]] = [
        lambda: untyped.enqueue(ordr=1),
        lambda: untyped.rebuild([], {"ordr": 1}),
    ]
    text = "missing a required argument: 'order', and got an unexpected one, 'ordr'. Did you mean 'order'?"
    for call in calls:
        with pytest.raises(PayloadInvalid, match=re.escape(text)):
            call()


def test_a_parameter_for_the_job_of_another_work_queue_is_an_argument() -> None:
    with pytest.raises(PayloadInvalid, match=r"'self' is an argument here: remove it, and call tenure.current_job\(\)"):
        bound.enqueue("today")  # type: ignore[call-arg]


def test_a_value_that_no_annotation_would_help_gets_the_advice_at_once() -> None:
    with pytest.raises(PayloadInvalid, match=r"argument 'order': Nothing encodes an Order\. Enqueue what rebuilds it"):
        untyped.enqueue([Order()])
    with pytest.raises(PayloadInvalid, match="a set survives the round trip only with an annotation"):
        untyped.enqueue({1})


def test_a_task_in_place_of_a_call_is_named_at_a_schedule() -> None:
    with pytest.raises(InvalidArgument, match=r"got the task report\. Write report\.call\(\.\.\.\)\."):
        app.schedules.add("nightly", report, Cron("0 3 * * *"))  # type: ignore[arg-type]


def test_a_task_that_was_called_by_mistake_is_refused_without_a_warning_on_top() -> None:
    for queue in (None, "reports"):
        for called in (unbound("today"), untyped(1)):
            with pytest.raises(InvalidArgument, match=r"Pass report\.call\(\.\.\.\) for the task"):
                app.schedules.add("nightly", called, Cron("0 3 * * *"), queue=queue)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"calls made by unbound\.call\(\.\.\.\), got coroutine"):
        unbound.enqueue_many([unbound("today")])  # type: ignore[list-item]


def test_a_result_that_nothing_encodes_is_refused_at_the_definition() -> None:
    def one() -> list[Order]: ...

    def other() -> Iterable[int]: ...

    with pytest.raises(InvalidArgument, match=r"The result of task one must be .* Nothing encodes an Order\. Return"):
        app.task(name="one")(one)
    app.task(name="other")(other)


def test_a_refused_annotation_is_named_with_the_line_of_its_function() -> None:
    router = Router()

    @router.task(name="one")
    def one() -> list[Order]: ...

    place = re.escape(f"{__file__}:{one.__wrapped__.__code__.co_firstlineno} in {__name__}.{one.__qualname__}")
    with pytest.raises(InvalidArgument, match=rf"The result of task one must be .* See {place}\.$"):
        app.include(router)


def test_a_program_from_stdin_names_its_tasks_as_a_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__file__ = "<stdin>"
    monkeypatch.setitem(sys.modules, "__main__", main)

    def task() -> None: ...

    task.__module__, task.__qualname__ = "__main__", "task"
    assert app.task(task).name == "__main__.task"
