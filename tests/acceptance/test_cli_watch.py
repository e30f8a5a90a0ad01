"""`tenure job QUEUE JOB_ID --watch`: a line for each change in a pipe, a picture that moves on a terminal."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tenure import Tenure


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url) as app:
        app.queue("emails").enqueue(b"x", id="one")
        yield app


@pytest.fixture
def watch(tenure, redis_url):
    return lambda *args: tenure("job", "emails", "one", "--watch", *args, url=redis_url)


def words(out):
    """The lines without the times they begin with."""
    return [line.partition(" ")[2] for line in out.splitlines()]


def test_a_line_for_each_change(app, watch):
    queue, run = app.queue("emails"), watch().wait_for("ready", "out")
    job = queue.lease(seconds=60)
    queue.progress(job, 3, 12, "step [red]3[/red]\nof many")
    run.wait_for("active 3 of 12 (25%) step [red]3[/red] of many", "out")
    app.control.cancel("emails", "one", "too slow")
    queue.progress(job, 6, 12)
    run.wait_for("active 6 of 12 (50%) (asked to end: too slow)", "out")
    queue.complete(job)
    lines = words(run.end().out)
    assert (lines[0], lines[-1]) == ("ready", "completed")


def test_as_json_a_document_for_each_change(app, watch):
    queue, run = app.queue("emails"), watch("--json").wait_for("ready", "out")
    job = queue.lease(seconds=60)
    queue.progress(job, 3, 12, "step")
    run.wait_for("step", "out")
    queue.complete(job)
    views = [json.loads(line) for line in run.end().out.splitlines()]
    # The lease and its progress may be seen together or one after the other.
    assert list(dict.fromkeys(view["state"] for view in views)) == ["ready", "active", "completed"]
    progress = views[-2]["progress"]
    assert progress.pop("at_ms") > 0
    assert progress == {"current": 3, "total": 12, "percent": 25, "text": "step"}


def test_a_job_that_did_not_complete(app, watch):
    app.queue("emails").fail(app.queue("emails").lease(seconds=60), "no luck")
    run = watch().end(expect=1)
    assert words(run.out) == ["failed Fail: no luck"]
    assert run.err == ""


def test_a_job_that_is_not_there(app, command, redis_url):
    run = command("job", "emails", "two", "--watch", url=redis_url).end(expect=1)
    assert run.out == ""
    assert "no job 'two' in queue 'emails'" in run.err


def test_a_job_whose_record_goes_away(app, watch):
    run = watch().wait_for("ready", "out")
    app.control.discard("emails", "one")
    run.end(expect=1)
    assert words(run.out) == ["ready"]
    assert "Job 'one' is no longer in queue 'emails', and no record says how it ended." in run.err


def test_an_interrupt_ends_it(app, watch):
    run = watch().wait_for("ready", "out")
    app.queue("emails").lease(seconds=60)
    run.wait_for("active", "out")  # by now it listens
    run.signal(signal.SIGINT).end(expect=130)


def test_the_picture_on_a_terminal(app, terminal, redis_url):
    command = [sys.executable, "-m", "tenure", "job", "emails", "one", "--watch", "--url", redis_url]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(
        command, stdin=terminal.inside, stdout=terminal.inside, stderr=terminal.inside, env=environment
    ) as process:
        terminal.wait_for("ready")
        queue = app.queue("emails")
        job = queue.lease(seconds=60)
        queue.progress(job, 3, 12, "step [red]3[/red]")
        assert "3 of 12 (25%)" in terminal.wait_for("step [red]3[/red]")
        queue.complete(job)
        assert "completed" in terminal.wait_for("expires")
        assert process.wait(20) == 0
