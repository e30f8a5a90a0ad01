"""`tenure cancel`, `pause`, `resume`, `configure`: what they change, what they say, and where."""

import json
import re
import subprocess
import sys

import pytest

from tenure import QueueFull, State, Tenure
from tenure.core.shape import LaneState


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url) as app:
        yield app


@pytest.fixture
def run(command, redis_url):
    """Runs the command to its end; answers what it wrote on stdout and on stderr."""

    def run(*args, expect=0):
        ended = command(*args, url=redis_url).end(expect)
        return ended.out, ended.err

    return run


def state(app, queue, job_id):
    view = app.inspect.job(queue, job_id)
    return None if view is None else view.state


def test_cancel_a_job_that_waits(app, run):
    queue = app.queue("emails")
    queue.enqueue(b"x", id="job0")
    queue.enqueue(b"x", id="job1", delay=60)
    queue.enqueue(b"x", id="job2", lane="l")
    queue.enqueue(b"x", id="job3", lane="l")
    queue.enqueue(b"x", id="job4", priority=7)
    for number in range(5):
        assert run("cancel", "emails", f"job{number}", "--reason", "typed wrong") == (
            f"Job 'job{number}' of queue 'emails': cancelled.\n",
            "",
        )
        view = app.inspect.job("emails", f"job{number}")
        assert (view.state, view.error.message) == (State.CANCELLED, "typed wrong")


def test_cancel_a_job_that_runs(app, run):
    app.queue("emails").enqueue(b"x", id="one")
    job = app.queue("emails").lease(seconds=60)
    out, err = run("cancel", "emails", "one", "--reason", "too late")
    assert out.startswith("Job 'one' of queue 'emails' runs: its worker is asked to end it.")
    assert "tenure job emails one --watch" in out
    assert err == ""
    assert "cancelling  asked: too late\n" in run("job", "emails", "one")[0]
    assert json.loads(run("job", "emails", "one", "--json")[0])["cancelling"] == "too late"
    assert re.search(r"cancelling\b.*\n.*\basked\b", run("jobs", "emails", "--state", "active")[0])
    app.queue("emails").complete(job)
    assert state(app, "emails", "one") is State.COMPLETED


def test_nothing_to_cancel(app, run):
    app.queue("emails").enqueue(b"x", id="one")
    app.queue("emails").complete(app.queue("emails").lease(seconds=60))
    out, err = run("cancel", "emails", "one", expect=1)
    assert (out, err) == ("", "Error: Job 'one' of queue 'emails' has ended already: completed.\n")
    out, err = run("cancel", "emails", "two", expect=1)
    assert (out, err) == ("", "Error: There is no job 'two' in queue 'emails', or its record has expired.\n")
    out, err = run("cancel", "emials", "two", expect=1)
    assert out == ""
    assert "Note: Queue 'emials' is unknown" in err
    assert "Did you mean 'emails'?" in err
    out, err = run("cancel", "emails", "two", "--json", expect=1)
    assert json.loads(out) == {"queue": "emails", "job": "two", "answer": "nothing"}
    assert json.loads(run("job", "emails", "two", "--json", expect=1)[0]) == {
        "queue": "emails",
        "id": "two",
        "state": None,
    }
    assert json.loads(run("discard", "emails", "two", "--json", expect=1)[0])["discarded"] is False
    assert json.loads(run("retry", "emails", "two", "--json", expect=1)[0])["retried"] is False
    assert json.loads(run("quiet", "nobody", "--json", expect=1)[0]) == {"worker": "nobody", "quiet": None}
    assert run("cancel", "emails", "--lane", "usr:42", expect=1) == (
        "",
        "Error: There are no jobs of lane 'usr:42' of queue 'emails' that are ready or scheduled or unroutable or "
        "active; there is nothing to cancel.\n",
    )
    assert "There are no jobs of queue 'emails'" in run("cancel", "emails", "--all", "--yes", expect=1)[1]
    assert "There are no jobs of all queues" in run("cancel", "--all", "--yes", expect=1)[1]


def fill(app, lane="user:42"):
    """One job of the lane is held, two wait; two others wait, one of them for its time."""
    queue = app.queue("emails")
    for _ in range(3):
        queue.enqueue(b"x", lane=lane)
    held = queue.lease(seconds=60)
    queue.enqueue(b"x", id="other")
    queue.enqueue(b"x", id="later", delay=60)
    return held


def test_cancel_a_lane(app, run):
    held = fill(app)
    out, err = run("cancel", "emails", "--lane", "user:42")
    assert out == ("Lane 'user:42' of queue 'emails': 2 jobs cancelled; 1 job running, asked to end.\n")
    assert err == ""
    assert app.inspect.job("emails", held.id).cancelling == ""
    assert state(app, "emails", "other") is State.READY
    assert state(app, "emails", "later") is State.SCHEDULED


def test_cancel_a_lane_as_json(app, run):
    fill(app)
    shown = json.loads(run("cancel", "emails", "--lane", "user:42", "--json")[0])
    (row,) = shown.pop("queues")
    assert row == {"queue": "emails", "found": 3, "cancelled": 2, "requested": 1}
    counts = {"found": 3, "cancelled": 2, "requested": 1, "left": 0}
    assert shown == {"queue": "emails", "state": None, "lane": "user:42", **counts, "unchanged": []}


def test_cancel_all_in_a_pipe_needs_yes(app, run):
    fill(app)
    out, err = run("cancel", "emails", "--all", expect=2)
    assert out == ""
    assert "pass --yes" in err
    assert app.inspect.queue("emails").counts[State.CANCELLED] == 0
    assert run("cancel", "emails", "--all", "--yes")[0].startswith("Queue 'emails': 4 jobs cancelled; 1 job running")
    counts = app.inspect.queue("emails").counts
    assert (counts[State.CANCELLED], counts[State.ACTIVE], counts[State.READY]) == (4, 1, 0)


@pytest.mark.parametrize(("answer", "status", "cancelled"), [("n", 1, 0), ("", 1, 0), ("y", 0, 4)])
def test_cancel_all_on_a_terminal_asks(app, terminal, redis_url, answer, status, cancelled):
    fill(app)
    command = [sys.executable, "-m", "tenure", "cancel", "emails", "--all", "--url", redis_url]
    with subprocess.Popen(command, stdin=terminal.inside, stdout=subprocess.PIPE, stderr=terminal.inside) as process:
        asked = terminal.wait_for("[y/N]")
        terminal.type(f"{answer}\n")
        assert process.stdout is not None
        out = process.stdout.read().decode()
        assert process.wait(20) == status
    assert "Cancel 5 jobs of queue 'emails' (3 ready, 1 scheduled, 1 active)?" in asked
    assert out.startswith("Queue 'emails': 4 jobs cancelled") == (status == 0)
    assert app.inspect.queue("emails").counts[State.CANCELLED] == cancelled


def test_pause_and_resume_a_queue(app, run):
    app.queue("emails").enqueue(b"x")
    for _ in range(2):
        out, err = run("pause", "emails")
        assert (out, err) == ("Queue 'emails' is paused. To resume: tenure resume emails\n", "")
    assert not app.queue("emails").lease(seconds=60)
    assert "paused" in run("info")[0]
    for _ in range(2):
        assert run("resume", "emails") == ("Queue 'emails' continues.\n", "")
    assert "paused" not in run("info")[0]
    assert app.queue("emails").lease(seconds=60)


def test_names_are_written_as_a_shell_takes_them(app, run):
    app.queue("two words").enqueue(b"x", lane="it's")
    assert run("pause", "two words")[0].endswith("tenure resume 'two words'\n")
    assert run("pause", "two words", "--lane", "it's")[0].endswith("tenure resume 'two words' --lane 'it'\"'\"'s'\n")


def test_a_queue_that_nothing_is_known_of(app, run):
    app.queue("emails").enqueue(b"x")
    out, err = run("pause", "emials")
    assert out.startswith("Queue 'emials' is paused.")
    assert err == (
        "Note: Queue 'emials' is unknown: no job was enqueued to it lately, and no worker serves it. "
        "Did you mean 'emails'?\n"
    )
    assert "Queue 'new' is unknown" in run("configure", "new", "--max-length", "5")[1]
    assert run("resume", "emails")[1] == ""


def test_park_and_resume_a_lane(app, run):
    app.queue("emails").enqueue(b"x", lane="user:42", id="one")
    for _ in range(2):
        out, err = run("pause", "emails", "--lane", "user:42")
        assert out == "Lane 'user:42' of queue 'emails' is parked. To resume: tenure resume emails --lane user:42\n"
        assert err == ""
    assert app.inspect.lane("emails", "user:42").state is LaneState.PARKED
    assert not app.queue("emails").lease(seconds=60)
    out, err = run("resume", "emails")
    assert out == "Queue 'emails' continues.\n"
    assert "Lanes that are still parked: 1." in err
    assert run("resume", "emails", "--lane", "user:42") == ("Lane 'user:42' of queue 'emails' continues.\n", "")
    assert app.inspect.lane("emails", "user:42").state is LaneState.READY
    out, err = run("resume", "emails", "--lane", "user:42", expect=1)
    assert (out, err) == ("", "Error: Lane 'user:42' of queue 'emails' is not parked but ready; nothing was changed.\n")
    assert "is not parked but idle" in run("resume", "emails", "--lane", "usr:42", expect=1)[1]


def test_a_lane_without_jobs_is_told_of(app, run):
    app.queue("emails").enqueue(b"x", lane="user:42")
    note = "Note: Lane 'usr:42' of queue 'emails' has no waiting or running job. Did you mean 'user:42'?\n"
    assert "is not parked but idle" in run("resume", "emails", "--lane", "usr:42", expect=1)[1].removeprefix(note)
    out, err = run("pause", "emails", "--lane", "usr:42")
    assert out.startswith("Lane 'usr:42' of queue 'emails' is parked.")
    assert err == note
    assert run("resume", "emails", "--lane", "usr:42") == ("Lane 'usr:42' of queue 'emails' continues.\n", note)
    assert run("pause", "emails", "--lane", "other")[1].endswith("has no waiting or running job.\n")
    # A lane whose one job runs has a job.
    assert app.queue("emails").lease(seconds=60)
    assert run("pause", "emails", "--lane", "user:42")[1] == ""


def test_resume_all_lanes(app, run):
    for number in range(250):
        app.queue("emails").enqueue(b"x", lane=f"user:{number}")
        app.control.park_lane("emails", f"user:{number}")
    assert run("resume", "emails", "--all-lanes") == ("Queue 'emails': 250 lanes continue.\n", "")
    assert app.inspect.queue("emails").parked_lanes == 0
    assert json.loads(run("resume", "emails", "--all-lanes", "--json")[0]) == {"queue": "emails", "lanes": []}


def test_a_lane_that_a_failure_parked(app, run):
    run("configure", "emails", "--lane-failure", "park")
    for number in range(2):
        app.queue("emails").enqueue(b"x", lane="user:42", id=f"job{number}")
    app.queue("emails").fail(app.queue("emails").lease(seconds=60), "no such address")
    head, row = (line.split() for line in run("info", "emails", "--lanes", "parked")[0].splitlines())
    assert head == ["lane", "waiting", "busy", "limit", "parked", "parked_by"]
    assert (row[:4], row[5]) == (["user:42", "1", "0", "1"], "job0")
    run("resume", "emails", "--lane", "user:42")
    assert app.queue("emails").lease(seconds=60).id == "job1"


def test_configure_partitions(app, run):
    for lane in range(8):
        app.queue("emails").enqueue(b"x", lane=str(lane))
    out, _ = run("configure", "emails", "--partitions", "4")
    assert [line.split() for line in out.splitlines()] == [
        ["paused", "max_length", "lane_failure", "partitions"],
        ["no", "none", "skip", "1->4"],
    ]
    change = {"before": 1, "number": 4, "left": None}
    shown = json.loads(run("info", "emails", "--json")[0])["queues"][0]
    assert (shown["partitions"], shown["repartition"]) == (4, change)
    assert json.loads(run("configure", "emails", "--json")[0])["repartition"] == change
    assert "from 1 to 4 partitions" in run("configure", "emails", "--partitions", "8", expect=2)[1]


def test_configure(app, run):
    app.queue("emails").enqueue(b"x")
    out, err = run("configure", "emails", "--max-length", "2", "--lane-failure", "block")
    assert [line.split() for line in out.splitlines()] == [
        ["paused", "max_length", "lane_failure"],
        ["no", "2", "block"],
    ]
    assert err == ""
    app.queue("emails").enqueue(b"x")
    with pytest.raises(QueueFull):
        app.queue("emails").enqueue(b"x")
    # Without options it shows; what is not named stays as it is.
    expected = {"queue": "emails", "paused": False, "max_length": 2, "lane_failure": "block"}
    expected |= {"partitions": 1, "repartition": None, "unreachable": []}
    assert json.loads(run("configure", "emails", "--json")[0]) == expected
    assert json.loads(run("configure", "emails", "--lane-failure", "skip", "--json")[0]) == {
        **expected,
        "lane_failure": "skip",
    }
    assert "max_length=2" in run("info")[0]
    assert run("configure", "emails", "--max-length", "0")[0].split()[3:] == ["no", "none", "skip"]
    app.queue("emails").enqueue(b"x")
