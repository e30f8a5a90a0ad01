"""The log of `leasehold worker`: one line an event, for people or as JSON, and never a payload."""

import json
from datetime import datetime

import pytest

from leasehold import Leasehold

JOBS = """
import logging
from leasehold import Fail, Leasehold, events

app = Leasehold()

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
    with Leasehold(redis_url) as app:

        @app.task(name="jobs.charge")
        def charge(card: str) -> str: ...

        yield charge.enqueue("4242")


@pytest.mark.parametrize("how", ["option", "environment"])
def test_json(leasehold, job, redis_url, how):
    options = ["--log-format", "json"] if how == "option" else []
    variables = {"LEASEHOLD_LOG_FORMAT": "json"} if how == "environment" else {}
    run = leasehold("worker", "jobs:app", "--burst", *options, url=redis_url, **variables).end()
    lines = [json.loads(line) for line in run.err.splitlines()]
    assert all(datetime.fromisoformat(line["time"]).utcoffset() is not None for line in lines)
    events = {line["event"]: line for line in lines if line["logger"] == "leasehold.worker"}
    assert {"worker_started", "failed", "worker_stopped"} <= events.keys()
    about = {"queue": "default", "task": "jobs.charge", "id": job.id}
    assert events["failed"].items() >= (about | {"level": "warning", "error": "Fail", "attempt": 1}).items()
    (own,) = [line for line in lines if line["logger"] == "shop"]
    assert own.items() >= (about | {"message": "charging"}).items()
    assert "4242" not in run.err
    assert run.out == f"told {job.id}\n"


def test_for_people(leasehold, job, redis_url):
    run = leasehold("worker", "jobs:app", "--burst", url=redis_url).end()
    (failed,) = [line for line in run.err.splitlines() if " failed " in line]
    time, level, event, rest = failed.split(" ", 3)
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert (level, event) == ("WARNING", "failed")
    assert f"queue=default task=jobs.charge id={job.id} attempt=1 error=Fail" in rest
    assert "4242" not in run.err


def test_a_payload_that_does_not_fit_has_no_place_in_our_code(leasehold, redis_url):
    with Leasehold(redis_url) as app:

        @app.task(name="jobs.charge")
        def charge(card: str, twice: bool) -> str: ...

        charge.enqueue("4242", True)
    run = leasehold("worker", "jobs:app", "--burst", url=redis_url).end()
    (broken,) = [line for line in run.err.splitlines() if " broken " in line]
    assert "error=PayloadInvalid" in broken
    assert " at=" not in broken


def test_a_form_that_there_is_not(leasehold, redis_url):
    run = leasehold("worker", "jobs:app", "--log-format", "xml", url=redis_url).end(expect=2)
    assert "--log-format" in run.err
    run = leasehold("worker", "jobs:app", url=redis_url, LEASEHOLD_LOG_FORMAT="xml").end(expect=2)
    assert "LEASEHOLD_LOG_FORMAT is not usable" in run.err
