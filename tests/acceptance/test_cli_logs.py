"""The log of `tenure worker`: one line an event, for people or as JSON, and never a payload."""

import json
import re
from datetime import datetime

import pytest

from tenure import Tenure

JOBS = """
import logging
from tenure import Fail, Tenure, events

app = Tenure()

@app.task
def charge(card: str) -> str:
    logging.getLogger("shop").warning("charging")
    raise Fail(f"card {card} refused")

@app.on(events.Failed)
def tell(event: events.Failed) -> None:
    print("told", event.id, flush=True)
"""


@pytest.fixture(autouse=True)
def jobs(tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)


@pytest.fixture
def job(redis_url):
    with Tenure(redis_url) as app:

        @app.task(name="jobs.charge")
        def charge(card: str) -> str: ...

        yield charge.enqueue("4242")


@pytest.mark.parametrize("how", ["option", "environment"])
def test_json(tenure, job, redis_url, how):
    options = ["--log-format", "json"] if how == "option" else []
    variables = {"TENURE_LOG_FORMAT": "json"} if how == "environment" else {}
    run = tenure("worker", "jobs:app", "--burst", *options, url=redis_url, **variables).end()
    lines = [json.loads(line) for line in run.err.splitlines()]
    assert all(datetime.fromisoformat(line["time"]).utcoffset() is not None for line in lines)
    events = {line["event"]: line for line in lines if line["logger"] == "tenure.worker"}
    assert {"worker_started", "failed", "traceback", "worker_stopped"} <= events.keys()
    about = {"queue": "default", "task": "jobs.charge", "id": job.id}
    assert events["failed"].items() >= (about | {"level": "error", "error": "Fail", "attempt": 1}).items()
    assert events["failed"]["error_message"] == "card 4242 refused"
    assert "in charge" in events["traceback"]["traceback"]
    (own,) = [line for line in lines if line["logger"] == "shop"]
    assert own.items() >= (about | {"message": "charging"}).items()
    assert run.out == f"told {job.id}\n"


def test_for_people(tenure, job, redis_url):
    run = tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    (failed,) = [line for line in run.err.splitlines() if " failed " in line]
    time, level, event, rest = failed.split(" ", 3)
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert (level, event) == ("ERROR", "failed")
    assert f"queue=default task=jobs.charge id={job.id} attempt=1 error=Fail error_message='card 4242 refused'" in rest
    assert f"see='tenure job default {job.id}'" in rest
    assert "  | tenure.Fail" in run.err or "  | Fail: card 4242 refused" in run.err


@pytest.mark.parametrize("detail", ["message", "type"])
def test_less_of_an_error_where_errors_hold_data(tenure, job, redis_url, detail):
    run = tenure("worker", "jobs:app", "--burst", "--log-errors", detail, url=redis_url).end()
    assert ("4242" in run.err) is (detail == "message")
    assert "  | " not in run.err


WANTED = [
    ([], {}, True),
    (["--log-jobs", "--log-level=error"], {}, True),
    ([], {"TENURE_LOG_JOBS": "0"}, False),
    (["--log-jobs"], {"TENURE_LOG_JOBS": "0"}, True),
    (["--no-log-jobs", "--log-level=debug"], {}, False),
    (["--log-level=warning"], {}, False),
]


@pytest.fixture
def fine(redis_url, tmp_path):
    (tmp_path / "fine.py").write_text("from tenure import Tenure\napp = Tenure()\n@app.task\ndef fine() -> None: ...\n")
    with Tenure(redis_url) as app:
        yield app.task(name="fine.fine")(lambda: None)


@pytest.mark.parametrize(("options", "variables", "are_wanted"), WANTED)
def test_starts_and_ends_of_jobs_off_a_terminal(tenure, fine, redis_url, options, variables, are_wanted):
    id = fine.enqueue().id
    run = tenure("worker", "fine:app", "--burst", *options, url=redis_url, **variables).end()
    assert (f"started queue=default task=fine.fine id={id} attempt=1 waited=" in run.err) is are_wanted
    assert (f"completed queue=default task=fine.fine id={id} seconds=" in run.err) is are_wanted


@pytest.mark.parametrize("are_all_wanted", [True, False])
def test_many_jobs_have_a_line_each_or_are_counted(tenure, fine, redis_url, are_all_wanted):
    fine.enqueue_many([fine.call() for _ in range(600)])
    run = tenure("worker", "fine:app", "--burst", *["--log-jobs"] * are_all_wanted, url=redis_url).end()
    lines = sum(" INFO completed " in line for line in run.err.splitlines())
    counted = [int(one) for one in re.findall(r"jobs_counted started=\d+ completed=(\d+)", run.err)]
    assert lines + sum(counted) == 600, run.err
    assert (lines == 600) is are_all_wanted


def test_a_variable_that_is_no_switch(tenure, redis_url):
    run = tenure("worker", "jobs:app", url=redis_url, TENURE_LOG_JOBS="all").end(expect=2)
    assert "TENURE_LOG_JOBS is not usable: log_jobs must be 1 or 0, got 'all'." in run.err


CONFIGURED = """
import logging.config
from tenure import Tenure

def configure():
    handler = {"class": "logging.StreamHandler", "formatter": "app"}
    logging.config.dictConfig({
        "version": 1, "formatters": {"app": {"format": "APP %(name)s %(message)s"}}, "handlers": {"app": handler},
        "root": {"handlers": ["app"], "level": "INFO"},
    })

app = Tenure()

@app.task(retries=0)
def in_job() -> None:
    configure()
    raise ValueError("no card")
"""


@pytest.mark.parametrize("where", ["module", "job"])
def test_what_an_app_configures_does_not_silence_its_worker(tenure, redis_url, tmp_path, where):
    text = CONFIGURED if where == "job" else CONFIGURED.replace("app = Tenure()", "app = Tenure()\nconfigure()")
    (tmp_path / "shop.py").write_text(text)
    with Tenure(redis_url) as app:
        app.task(name="shop.in_job")(lambda: None).enqueue()
    run = tenure("worker", "shop:app", "--burst", url=redis_url).end()
    for event in ("worker_started", "failed", "traceback", "worker_stopped"):
        assert len([line for line in run.err.splitlines() if f" {event} " in line]) == 1, run.err
    assert "APP tenure" not in run.err


def test_an_app_may_take_the_lines_of_its_worker(tenure, redis_url, tmp_path):
    (tmp_path / "shop.py").write_text(CONFIGURED.replace("app = Tenure()", "app = Tenure()\nconfigure()"))
    with Tenure(redis_url) as app:
        app.task(name="shop.in_job")(lambda: None).enqueue()
    run = tenure("worker", "shop:app", "--burst", "--log-by-app", url=redis_url).end()
    lines = [line for line in run.err.splitlines() if "failed queue=" in line]
    assert [line.partition(" failed")[0] for line in lines] == ["APP tenure.worker"]


def test_a_queue_that_is_paused_and_one_that_is_unknown_are_named(tenure, redis_url):
    with Tenure(redis_url) as app:
        app.queue("images").enqueue(b"x")
        app.control.pause("images")
    run = tenure("worker", "jobs:app", "-q", "images", "-q", "default", "--burst", url=redis_url).end()
    assert "queue_paused queue=images" in run.err
    assert "queue_unknown queue=default" in run.err


def test_a_task_that_the_app_does_not_have(tenure, redis_url):
    with Tenure(redis_url) as app:
        app.task(name="jobs.gone")(lambda: None).enqueue()
    run = tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert "known='no such task in the app: is its module imported? Tasks: jobs.charge'" in run.err


def test_a_payload_that_does_not_fit_has_no_place_in_our_code(tenure, redis_url):
    with Tenure(redis_url) as app:

        @app.task(name="jobs.charge")
        def charge(card: str, twice: bool) -> str: ...

        charge.enqueue("4242", True)
    run = tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    (broken,) = [line for line in run.err.splitlines() if " broken " in line]
    assert "error=PayloadInvalid" in broken
    assert " at=" not in broken


def test_a_form_that_there_is_not(tenure, redis_url):
    run = tenure("worker", "jobs:app", "--log-format", "xml", url=redis_url).end(expect=2)
    assert "--log-format" in run.err
    run = tenure("worker", "jobs:app", url=redis_url, TENURE_LOG_FORMAT="xml").end(expect=2)
    assert "TENURE_LOG_FORMAT is not usable" in run.err
