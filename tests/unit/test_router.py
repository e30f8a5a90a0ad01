"""Tasks of a router: defined without an app, and bound to one by `app.include`."""

from __future__ import annotations

import pytest

from tenure import Cron, Hworker, Limit, Router, Tenure
from tenure.core.errors import InvalidArgument, UnsupportedFeature
from tests.support.fakes import double, recorder


@pytest.fixture
def router() -> Router:
    return Router()


class TestIncluding:
    def test_its_tasks_are_those_of_the_app(self, app, engine, router):
        task = router.task(retries=7)(double)
        other = router.task(name="other", queue="slow")(lambda: None)
        app.include(router, prefix="math.", queue="fast")
        assert app.tasks == {f"math.{double.__module__}.double": task, "math.other": other}
        assert (task.queue, task.spec.retries, other.queue) == ("fast", 7, "slow")
        task.enqueue(2)
        other.enqueue()
        assert [(job.queue, job.task) for job in engine.enqueued] == [("fast", task.name), ("slow", "math.other")]

    def test_a_call_that_was_refused_can_be_repeated_corrected(self, app, router):
        app.task(name="taken")(lambda: None)
        task, other = router.task(name="double")(double), router.task(name="taken")(lambda: None)
        with pytest.raises(InvalidArgument):
            app.include(router)
        app.include(router, prefix="math.")
        assert list(app.tasks) == ["taken", "math.double", "math.taken"]
        assert [task.spec.name, other.spec.name] == ["math.double", "math.taken"]

    def test_without_options_it_is_as_on_the_app(self, app, router):
        task = router.task(double)
        app.include(router)
        assert (task.name, task.queue) == (f"{double.__module__}.double", "default")

    def test_defaults_of_the_app_and_the_queue_hold(self, app, router):
        task = router.task(double)
        app.include(router, queue="fast")
        app.queue_defaults("fast", retries=9)
        assert task.spec.retries == 9

    def test_copies_made_before_are_of_the_app_too(self, app, engine, router):
        task = router.task(double)
        urgent = task.using(priority=5).using(delay=1)
        app.include(router, prefix="p.", queue="fast")
        urgent.enqueue(2)
        (job,) = engine.enqueued
        assert (job.queue, job.task, job.shape.priority, job.delay_ms) == ("fast", task.name, 5, 1_000)

    def test_tasks_defined_later_are_added_at_once(self, app, router):
        app.include(router, queue="fast")
        assert router.task(double).queue == "fast"
        assert list(app.tasks) == [f"{double.__module__}.double"]

    def test_schedules_and_limits(self, app, router):
        @router.task(name="nightly", schedule=Cron("0 3 * * *"), limits=[Limit("mail", per_second=1)])
        def nightly() -> None: ...

        app.include(router, queue="fast")
        assert [(one.queue, one.name) for one in app.scheduled("", ["fast"])] == [("fast", "nightly")]


class TestRefusals:
    def test_before_it_is_included(self, router):
        task = router.task(name="t")(double)
        assert task(2) == 4
        for call in (lambda: task.enqueue(1), lambda: task.call(1), lambda: task.job("id"), lambda: task.spec):
            with pytest.raises(InvalidArgument, match=r"Task t is of a router that no app has included\. Call app\."):
                call()

    def test_options_are_checked_where_the_task_is_defined(self, router):
        with pytest.raises(InvalidArgument, match="retries"):
            router.task(retries=-1)
        with pytest.raises(InvalidArgument, match="priority"):
            router.task(lane="a", priority=1)
        with pytest.raises(InvalidArgument, match="function"):
            router.task(name="x")(5)

    def test_what_the_protocol_lacks_is_refused_by_include(self):
        for options in ({"schedule": Cron("* * * * *")}, {"limits": [Limit("mail", per_second=1)]}):
            router = Router()
            router.task(name="t", **options)(double)
            with pytest.raises(UnsupportedFeature, match="hworker"):
                Tenure("redis://nowhere.invalid", protocol=Hworker("h")).include(router)

    def test_a_second_app_and_other_things(self, app, router, runner):
        app.include(router)
        with pytest.raises(InvalidArgument, match=r"a router that this app has\. Call include once\."):
            app.include(router)
        with pytest.raises(InvalidArgument, match=r"a router that another app has\. Make one for each app"):
            Tenure("redis://nowhere.invalid", protocol=recorder(), runner=runner).include(router)
        with pytest.raises(InvalidArgument, match="router must be a Router, got Tenure"):
            app.include(app)
        with pytest.raises(InvalidArgument, match="prefix must be a str, got NoneType"):
            app.include(Router(), prefix=None)

    @pytest.mark.parametrize("options", [{"prefix": "a b"}, {"queue": "a\nb"}])
    def test_bad_names(self, app, router, options):
        router.task(double)
        with pytest.raises(InvalidArgument, match=r"name|queue"):
            app.include(router, **options)

    def test_a_name_that_another_task_has(self, app, router):
        app.task(name="p.t")(double)
        router.task(name="t")(lambda: None)
        with pytest.raises(InvalidArgument, match=r"already is a task 'p\.t'"):
            app.include(router, prefix="p.")
