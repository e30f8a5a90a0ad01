"""`tenure limits`, and where other commands name limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure import InvalidArgument, Limit, LimitRule, Tenure
from tenure.cli import commands
from tenure.cli.errors import run
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Retried
from tenure.core.worker_view import WorkerView

GPU = Limit("gpu", concurrency=1)


def charge(tenant: str) -> None: ...


@pytest.fixture
def app(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenure]:
    monkeypatch.setenv("TENURE_URL", redis_url)
    with Tenure(redis_url) as app:
        yield app


@pytest.fixture
def cli(app: Tenure, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Runs a command in this process: its status, and what it wrote, or with --json its document."""

    def cli(*args: str) -> tuple[int, Any]:
        status = run(commands, list(args))
        text = capsys.readouterr()
        return status, json.loads(text.out) if "--json" in args and text.out else text.out + text.err

    return cli


def test_a_limit_is_stored_shown_and_cleared(app, cli):
    status, shown = cli("limits", "stripe", "--per-second", "5", "--concurrency", "2")
    assert status == 0
    assert "5 per second" in shown
    assert app.limits.get("stripe").concurrency == 2
    assert [limit.name for limit in app.limits.list()] == ["stripe"]
    assert cli("limits", "--json")[1]["limits"][0]["interval_us"] == 200_000
    assert cli("limits", "stripe", "--clear")[0] == 0
    status, text = cli("limits", "stripe", "--clear")
    assert (status, app.limits.list()) == (1, ())
    assert "no stored numbers" in text


def test_a_limit_shows_the_numbers_of_the_code_and_counts_jobs_before_any_are_stored(app, cli):
    queue = app.queue("images")
    limit = Limit("gpu", concurrency=2, per_minute=90, burst=40)
    assert cli("limits", "gpu", "--json")[1]["limits"][0]["code"] is None
    for _ in range(5):
        queue.enqueue(b"x", limits=[limit])
    jobs = [queue.lease(), queue.lease(), queue.lease()]
    assert list(map(bool, jobs)) == [True, True, False]
    shown = cli("limits", "gpu")[1]
    assert shown == cli("limits")[1], "it is in use"
    assert all(text in shown for text in ("90 per minute", "40", "code"))
    (view,) = app.limits.list()
    assert (view.active, view.jobs, view.lanes) == (2, {"images": 3}, {"images": 1})
    for job in jobs[:2]:
        queue.complete(job)
    app.control.purge("images", "ready")
    while job := queue.lease():
        queue.complete(job)
    assert app.limits.list() == ()


def test_a_limit_for_which_jobs_only_wait_shows_the_numbers_of_the_code(app, cli):
    queue = app.queue("images")
    for _ in range(2):
        queue.enqueue(b"x", limits=[Limit("api", per_hour=1)])
    queue.complete(queue.lease())
    assert not queue.lease()
    (view,) = app.limits.list()
    assert view.code == LimitRule("api", interval_us=3_600_000_000)
    assert "1 per hour" in cli("limits")[1]


class TestNamesInCode:
    @pytest.fixture
    def coded(self, app: Tenure) -> Tenure:
        limits = [Limit("stripe", per_second=10, per_day=1_000), Limit("tenant:{tenant}", concurrency=3)]
        app.task(name="charge", limits=limits)(charge)
        app.queue_defaults("mails", limits=[Limit("smtp", concurrency=5)])
        return app

    def test_a_mistyped_name_is_told_and_not_stored(self, coded):
        with pytest.raises(InvalidArgument, match=r"such as 'stripe', got 'strpe'.*new=True or --new"):
            coded.limits.set("strpe", per_second=5)
        assert coded.limits.list() == ()
        for name in ("stripe", "stripe per day", "tenant:acme", "smtp", "tenant:" + "x" * 300):
            assert coded.limits.set(name, per_second=5).interval_us == 200_000
        assert coded.limits.set("strpe", per_second=5, new=True).is_stored
        assert coded.limits.set("strpe", per_second=6).is_stored, "it is known by now"

    def test_a_note_names_what_could_not_check_a_name(self, app, cli):
        status, text = cli("limits", "stripee", "--per-second", "3")
        assert status == 0
        assert "Note: Nothing could check the name 'stripee'" in text
        assert "--app MODULE:APP" in text
        assert "Note" not in cli("limits", "stripee", "--per-second", "4")[1], "it is known by now"
        assert "Note" not in cli("limits", "new", "--per-second", "3", "--new")[1]
        app.queue("images").enqueue(b"x", limits=[GPU])
        assert app.queue("images").lease()
        assert "Note" not in cli("limits", "gpu", "--per-second", "3")[1], "a job has it"

    def test_a_note_tells_that_nothing_has_a_limit(self, coded, cli):
        status, text = cli("limits", "nope")
        assert status == 0
        assert "Note: No job, no stored number and no known code has a limit 'nope'" in text
        assert "Note" not in cli("limits")[1]
        app_limits = coded.limits.set("nope", per_second=3, new=True)
        assert app_limits.is_stored
        assert "Note" not in cli("limits", "nope")[1]

    def test_the_numbers_of_the_code_are_shown_before_the_first_job(self, coded):
        assert coded.limits.get("tenant:acme").code == LimitRule("tenant:acme", concurrency=3)
        assert coded.limits.get("strpe").code is None

    def test_the_code_of_a_worker_counts_as_well(self, coded, cli):
        (spec,) = coded.specs()
        view = WorkerView("w", ("q",), "host", 1, 1, 1, 1, limits=spec.limits)
        coded._client.run(coded.engine.announce(view))
        status, text = cli("limits", "strpe", "--per-second", "5")
        assert status == 2
        assert "'stripe'" in text
        assert cli("limits", "strpe", "--per-second", "5", "--new")[0] == 0
        assert cli("limits", "tenant:acme", "--json")[1]["limits"][0]["code"]["concurrency"] == 3
        assert "limits" not in cli("info", "--json")[1]["workers"][0]


def test_a_limit_that_rests_is_listed_without_a_waiting_job(app, cli):
    def names() -> list[str]:
        return [limit["name"] for limit in cli("limits", "--json")[1]["limits"]]

    queue = app.queue("images")
    queue.enqueue(b"x", limits=[GPU])
    job = queue.lease()
    outcome = Retried(ErrorInfo("RateLimited", "", ""), 3_600_000, deferred=True, limit="gpu")
    assert app._client.run(app.engine.settle([(job.lease, outcome)])) == [True]
    app.control.purge("images", "ready")
    assert names() == ["gpu"]
    assert "more" in cli("limits")[1]
    app.limits.set("gpu", concurrency=2)
    assert names() == ["gpu"], "each once"
    assert cli("limits", "gpu", "--clear")[0] == 0
    assert names() == []


def test_the_weights_of_shares_are_listed(app, cli):
    assert "hares" not in cli("limits")[1]
    cli("limits", "tenant:b", "--weight", "3")
    app.limits.set_share("tenant:a", weight=2)
    app.limits.set_share("tenant:c", weight=1)
    assert app.limits.shares() == {"tenant:a": 2, "tenant:b": 3}
    assert cli("limits", "--json")[1]["shares"] == {"tenant:a": 2, "tenant:b": 3}
    text = cli("limits")[1]
    assert text.index("tenant:a") < text.index("tenant:b")
    app.limits.set_share("tenant:b", weight=1)
    assert app.limits.shares() == {"tenant:a": 2}


def test_a_waiting_job_and_its_queue_name_the_limit(app, cli):
    queue = app.queue("images")
    for id in ("a", "b", "c"):
        queue.enqueue(b"x", id=id, limits=[GPU])
    assert queue.lease()
    assert not queue.lease()
    job = cli("job", "images", "b", "--json")[1]
    assert [one["code"] for one in (job["why"], *job["why"]["also"])] == ["no_worker", "limit_full"]
    assert [limit["name"] for limit in job["limits"]] == ["gpu"]
    assert cli("info", "--json")[1]["queues"][0]["limited"] == 2
    assert "limited=2" in cli("info")[1]
    assert [job["id"] for job in cli("jobs", "images", "--state", "ready", "--json")[1]["jobs"]] == ["b", "c"]
    assert cli("limits", "--json")[1]["limits"][0]["lanes"] == {"images": 1}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--per-second", "5"], "A change needs the name of the limit"),
        (["stripe", "--per-second", "0"], "per_second must be a number above 0"),
        (["stripe", "--clear", "--weight", "2"], "--clear and --weight do not go together"),
        (["stripe", "--per-second", "1", "--per-hour", "1"], "one of per_second, per_minute, per_hour"),
        (["stripe", "--weight", "101"], "weight must be a whole number from 1 to 100"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, args, message):
    status, text = cli("limits", *args)
    assert status == 2
    assert message in " ".join(text.split())
