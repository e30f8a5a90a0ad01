"""The backend for Django's tasks, on SQLite and a real Redis: enqueue, results, options, and what it refuses."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from tenure import Cron, NotUnique, PayloadInvalid
from tenure.app.run import queues_of
from tenure.integrations.django import framework, registry
from tenure.integrations.django.framework import TaskResultDoesNotExist, TaskResultStatus, task_backends
from tenure.integrations.django.options import TenureTask, task
from tenure.integrations.django.project import DjangoApp
from tests.support.django_project import Site, site
from tests.support.django_site import tasks

__all__ = ["site"]
BACKEND = "tenure.integrations.django.TenureBackend"


def drained(app: DjangoApp) -> None:
    """Run all jobs, also those that wait for another attempt."""
    testing = app.testing()
    for _ in range(4):
        testing.drain(raises=False)
        testing.advance(minutes=5)


def test_a_task_runs_with_its_arguments_and_its_result_is_read(site: Site) -> None:
    result = tasks.add.enqueue(2, second=3)
    assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [2], {"second": 3})
    site.app.testing().drain()
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 5, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    found = tasks.add.get_result(result.id)
    assert (found.args, found.kwargs, found.return_value, found.worker_ids) == (
        [2],
        {"second": 3},
        5,
        result.worker_ids,
    )
    with pytest.raises(Exception, match="does not match"):
        tasks.mail.get_result(result.id)


async def test_the_async_methods_do_the_same(site: Site) -> None:
    result = await tasks.add_async.aenqueue(2)
    assert (await tasks.add_async.aget_result(result.id)).status == TaskResultStatus.READY
    await site.app.testing().adrain()
    await result.arefresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)


def test_a_task_uses_the_database(site: Site) -> None:
    result = tasks.count_users.enqueue()
    drained(site.app)
    result.refresh()
    assert result.return_value == 0


def test_a_failed_task_shows_its_error(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    result = tasks.fails.enqueue("no such address")
    drained(site.app)
    result.refresh()
    [error] = result.errors
    assert (result.status, result.attempts, result.is_finished) == (TaskResultStatus.FAILED, 1, True)
    assert error.exception_class is ValueError
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert error.traceback.endswith("ValueError: no such address\n")
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    [logged] = [one.exc_info for one in caplog.records if one.message.endswith("state=FAILED")]
    assert str(logged and logged[1]).endswith("ended in failed: ValueError: no such address")


def test_between_two_attempts_a_task_is_ready_and_its_context_counts_them(site: Site) -> None:
    result = tasks.attempt_of.enqueue(1)
    site.app.testing().drain(raises=False)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)
    assert [one.exception_class for one in result.errors] == [ConnectionError]
    drained(site.app)
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 2, 2)
    contexts: list[Any] = list(tasks.seen)
    assert [(one.id, one.status, one.attempts) for one in contexts] == [
        (result.id, TaskResultStatus.RUNNING, 1),
        (result.id, TaskResultStatus.RUNNING, 2),
    ]
    assert contexts[1].worker_ids[-1] == result.worker_ids[-1] != "unknown"


def test_a_result_that_is_not_json_fails_and_the_task_does_not_run_again(site: Site) -> None:
    result = tasks.returns_a_set.enqueue()
    drained(site.app)
    result.refresh()
    assert (result.status, tasks.seen) == (TaskResultStatus.FAILED, ["ran"])
    assert result.errors[0].exception_class is TypeError
    assert "must return what JSON can hold" in result.errors[0].traceback


def test_a_cancelled_task_has_failed(site: Site) -> None:
    result = tasks.add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
    site.app.control.cancel("default", result.id.partition(":")[2])
    result.refresh()
    assert (result.status, result.errors[0].exception_class_path) == (TaskResultStatus.FAILED, "tenure.JobCancelled")


def test_using_gives_time_priority_queue_and_the_options_of_tenure(site: Site) -> None:
    at = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    task = tasks.add.using(run_after=at, priority=7, queue_name="mails", headers={"tenant": "7"}, timeout=5)
    result = task.enqueue(1)
    view = site.app.inspect.job("mails", result.id.partition(":")[2])
    assert view is not None
    assert (view.state, view.shape.priority, view.timeout_ms, view.headers) == ("scheduled", 7, 5_000, {"tenant": "7"})
    assert view.due_at == at
    found = tasks.add.get_result(result.id)
    assert (found.task.priority, found.task.queue_name) == (7, "mails")


def test_without_time_zones_times_are_naive(site: Site) -> None:
    with override_settings(USE_TZ=False):
        at = timezone.now().replace(microsecond=0) + timedelta(hours=1)
        result = tasks.add.using(run_after=at).enqueue(1)
        view = site.app.inspect.job("default", result.id.partition(":")[2])
        assert view is not None
        assert view.due_at is not None
        assert timezone.make_naive(view.due_at) == at
        assert timezone.is_naive(tasks.add.get_result(result.id).enqueued_at)


def test_options_of_the_decorator_are_those_of_the_job(site: Site) -> None:
    result = tasks.mail.enqueue("ada@example.org")
    view = site.app.inspect.job("mails", result.id.partition(":")[2])
    assert view is not None
    assert (view.shape.lane, view.shape.unique is not None) == ("outgoing", True)
    with pytest.raises(NotUnique):
        tasks.mail.enqueue("ada@example.org")
    assert tasks.mail.using(unique=None).enqueue("ada@example.org").id != result.id


def test_signals_tell_of_the_enqueue_the_start_and_the_end(site: Site) -> None:
    heard: list[tuple[str, str, Any]] = []

    def hear(signal: Any, task_result: Any, **_: Any) -> None:
        heard.append((names[id(signal)], task_result.status, task_result.args))

    names = {id(getattr(framework, f"task_{name}")): name for name in ("enqueued", "started", "finished")}
    for name in names.values():
        getattr(framework, f"task_{name}").connect(hear, dispatch_uid="test")
    try:
        tasks.add.enqueue(1)
        tasks.fails.enqueue("x")
        drained(site.app)
    finally:
        for name in names.values():
            getattr(framework, f"task_{name}").disconnect(dispatch_uid="test")
    assert heard == [
        ("enqueued", "READY", [1]),
        ("enqueued", "READY", ["x"]),
        ("started", "RUNNING", [1]),
        ("finished", "SUCCESSFUL", [1]),
        ("started", "RUNNING", ["x"]),
        ("finished", "FAILED", []),
    ]


def local_task() -> Any:
    def inner() -> None: ...

    return inner


def test_a_task_in_a_function_is_refused(site: Site) -> None:
    with pytest.raises(framework.InvalidTask, match="module level"):
        task(local_task())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"lane": "a", "priority": 1}, "cannot both be given"),
        ({"retries": -1}, "retries"),
        ({"schedule": Cron("* * * * *"), "run_in": "moon"}, "run_in"),
        ({"queue_name": "other"}, "not valid for backend"),
    ],
)
def test_options_that_cannot_be_used_are_refused_where_the_task_is_defined(
    site: Site, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(framework.InvalidTask, match=error):
        task(**options)(drained)


def test_an_id_that_its_result_could_not_be_read_by_is_refused(site: Site) -> None:
    with pytest.raises(framework.InvalidTask, match="id must be without ':'"):
        tasks.add.using(id="order:7").enqueue(1)


def test_an_unknown_option_is_refused_with_the_nearest_name(site: Site) -> None:
    with pytest.raises(TypeError, match=r"lnae.* Did you mean 'lane'\?"):
        task(lnae="a")(drained)
    assert "lane" in {one.name for one in fields(TenureTask)}


def test_another_backend_gets_the_options_of_django_only(site: Site) -> None:
    immediate = f"{framework.BaseTaskBackend.__module__.rpartition('.')[0]}.immediate.ImmediateBackend"
    with override_settings(TASKS={"default": {"BACKEND": immediate}}):
        result = task(priority=5, lane="a", retries=1)(tasks.add.func).enqueue(1)
        assert (result.status, result.task.priority) == (TaskResultStatus.SUCCESSFUL, 5)
        with pytest.raises(TypeError, match="lnae"):
            task(lnae="a")(tasks.add.func)


def test_a_worker_serves_all_queues_of_the_backend(site: Site) -> None:
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": ["default", "mails", "reports"]}}):
        assert sorted(queues_of(site.app)) == ["default", "mails", "reports"]


def test_arguments_that_json_cannot_hold_are_refused_by_name(site: Site) -> None:
    with pytest.raises(TypeError, match=r"Argument second of task tests\..*\.add must be what JSON can hold"):
        tasks.add.enqueue(1, timezone.now())
    with pytest.raises(TypeError, match="Argument first of task"):
        tasks.attempt_of.enqueue(first={1})
    with pytest.raises(TypeError, match="Argument 2 of task"):
        tasks.echo.enqueue("a", {1})
    with pytest.raises(PayloadInvalid, match="third"):
        tasks.add.enqueue(1, third=3)
    assert site.app.inspect.queues() == []


@pytest.mark.parametrize("id", ["default:none", "none", ":", "a/b:c", ""])
def test_the_result_of_an_unknown_job_does_not_exist(site: Site, id: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(id)


def test_backends_with_options_have_apps_of_their_own(site: Site) -> None:
    options = {"url": site.url, "namespace": "second", "retries": 1}
    both = {"default": {"BACKEND": BACKEND}, "second": {"BACKEND": BACKEND, "OPTIONS": options}}
    with override_settings(TASKS=both):
        result = tasks.add.using(backend="second").enqueue(1)
        app = task_backends["second"].app
        assert (app.settings.namespace, site.app.inspect.queues()) == ("second", [])
        drained(app)
        result.refresh()
        assert (result.return_value, result.backend) == (2, "second")
        app.close()


def report() -> None: ...


def test_a_schedule_belongs_to_the_app_of_its_backend(site: Site) -> None:
    options = {"url": site.url, "namespace": "second"}
    both = {"default": {"BACKEND": BACKEND}, "second": {"BACKEND": BACKEND, "OPTIONS": options}}
    with override_settings(TASKS=both):
        defined = task(schedule=Cron("0 9 * * mon"))(report)
        try:
            apps = (site.app, task_backends["second"].app)
            assert [[spec.queue for spec in app.scheduled("", ["default"])] for app in apps] == [["default"], []]
        finally:
            registry.forget(defined)
