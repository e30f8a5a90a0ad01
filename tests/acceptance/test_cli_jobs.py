"""`tenure jobs` and `tenure job`: jobs in every state, page by page, of one lane; one with its payload."""

import json
import re

import pytest

from tenure import State
from tenure.cli.output.jobs import JOBS_SHOWN, job_table
from tenure.core.job import ErrorInfo, JobView


def rows(out):
    return [re.split("  +", line) for line in out.splitlines()]


@pytest.fixture
def every_state(app):
    """A job in each state but unroutable and broken, called by its state; those that ended are of the lane `l`."""
    queue = app.queue("emails")
    for state, end in (("completed", queue.complete), ("failed", queue.fail)):
        queue.enqueue(b"x", id=state, lane="l")
        end(queue.lease(seconds=60))
    queue.enqueue(b"x", id="cancelled", lane="l")
    app.control.cancel("emails", "cancelled")
    queue.enqueue(b"x", id="active")
    queue.lease(seconds=60)
    queue.enqueue(b"x", id="ready")
    queue.enqueue(b"x", id="scheduled", delay=60)


ORDER = ["active", "ready", "scheduled", "failed", "cancelled", "completed"]


def test_some_of_each_state(run, every_state):
    out, err = run("jobs", "emails")
    assert [row[:2] for row in rows(out)] == [["job", "state"], *([state, state] for state in ORDER)]
    assert err == ""


def test_one_state(run, every_state):
    for state in ORDER:
        head, row = rows(run("jobs", "emails", "--state", state)[0])
        assert row[0] == state
        assert "state" not in head
    assert run("jobs", "emails", "--state", "broken") == ("No broken jobs in emails.\n", "")


def test_of_one_lane(run, every_state):
    out, _ = run("jobs", "emails", "--lane", "l")
    assert [row[0] for row in rows(out)] == ["job", "failed", "cancelled", "completed"]
    assert run("jobs", "emails", "--lane", "m")[0] == "No jobs in emails, lane m.\n"
    assert run("jobs", "emails", "--lane", "l", "--state", "failed", "--offset", "1")[0].startswith("No failed jobs")


def test_ready_jobs_of_a_lane_in_its_order(app, run):
    for number in range(5):
        app.queue("emails").enqueue(b"x", id=f"job{number}", lane="l")
    names = ("jobs", "emails", "--lane", "l", "--state", "ready", "--limit", "2")
    out, err = run(*names)
    assert [row[0] for row in rows(out)[1:]] == ["job0", "job1"]
    (after,) = re.findall("--state ready --after ([^ ,]+)", err)
    out, err = run(*names, "--after", after)
    assert [row[0] for row in rows(out)[1:]] == ["job2", "job3"]
    out, err = run(*names, "--offset", "4")
    assert ([row[0] for row in rows(out)[1:]], err) == (["job4"], "")
    # Of a lane only the next one stands among the ready ones.
    assert [row[0] for row in rows(run("jobs", "emails", "--state", "ready")[0])[1:]] == ["job0"]


def test_page_by_page_until_the_end(app, run):
    app.queue("emails").enqueue_many(str(number) for number in range(250))
    seen: list[str] = []
    for offset, count in ((0, 120), (120, 120), (240, 10)):
        shown = json.loads(
            run("jobs", "emails", "--state", "ready", "--limit", "120", "--offset", str(offset), "--json")[0]
        )
        assert (len(shown["jobs"]), shown["totals"], shown["offset"]) == (count, {"ready": 250}, offset)
        assert shown["more"] == (["ready"] if offset < 240 else [])
        seen += [job["id"] for job in shown["jobs"]]
    assert len(set(seen)) == 250
    out, err = run("jobs", "emails")
    assert len(rows(out)) == 1 + JOBS_SHOWN
    assert re.fullmatch("Note: There are more: --state ready --after [^ ]+, or a larger --limit.\n", err)
    assert run("jobs", "emails", "--state", "ready", "--offset", "250") == (
        "No ready jobs in emails after the first 250.\n",
        "",
    )


def test_cursor_by_cursor_while_jobs_end_and_others_come(app, run):
    for number in range(90):
        app.queue("emails").enqueue(b"x", id=f"job{number}")
    for number in range(60):
        app.control.cancel("emails", f"job{number}")
    seen: list[str] = []
    after: tuple[str, ...] = ()
    for number in range(60, 90):
        names = ("jobs", "emails", "--state", "cancelled", "--limit", "20", "--json", *after)
        shown = json.loads(run(*names)[0])
        seen += [job["id"] for job in shown["jobs"]]
        if not shown["next"]:
            break
        assert shown["more"] == list(shown["next"]) == ["cancelled"]
        after = ("--after", shown["next"]["cancelled"])
        # One is new, and the one at which the page ended goes.
        app.control.cancel("emails", f"job{number}")
        app.control.discard("emails", shown["jobs"][-1]["id"])
    assert sorted(seen) == sorted(f"job{number}" for number in range(60))
    assert len(rows(run(*names[:4], *after)[0])) == 1 + len(shown["jobs"])
    _, err = run("jobs", "emails", "--state", "failed", *after, expect=2)
    assert err.startswith(
        "Error: after must be the cursor of a page of these jobs, got one of a page of cancelled jobs"
    )


def test_a_queue_that_nothing_is_known_of(app, run):
    app.queue("emails").enqueue(b"x")
    out, err = run("jobs", "emials")
    assert out == "No jobs in emials.\n"
    assert "Did you mean 'emails'?" in err


def test_what_users_wrote_does_not_move_the_cursor(app, run):
    app.queue("emails").enqueue(b"\x1b[2Jx", id="[red]\x1b[2Jodd")
    for words in (["jobs", "emails"], ["job", "emails", "[red]\x1b[2Jodd", "--payload"]):
        out, _ = run(*words)
        assert "\x1b" not in out
        assert r"[red]\x1b[2Jodd" in out
    assert r"payload     \x1b[2Jx" in out


def test_a_payload_and_headers_are_shown_when_asked_for_and_not_too_much(app, run):
    headers = {"tenant": "7", "trace": "00-4bf9\nstate     failed"}
    app.queue("emails").enqueue(b"x" * 5 + b"y" * 20_000 + b"end", id="long", headers=headers)
    out, _ = run("job", "emails", "long")
    assert "20,008 bytes (--payload shows them)" in out
    assert re.search(r"^headers +2 \(--headers shows them\)$", out, re.M)
    out, _ = run("job", "emails", "long", "--payload", "--headers")
    assert re.search(r"^headers +tenant: 7\n +trace: 00-4bf9\n +state     failed$", out, re.M)
    assert "xxxxxyyyy" in out
    assert "... (11,816 bytes more; --json has all)" in out
    assert len(out) < 10_000
    assert not json.loads(run("job", "emails", "long", "--json")[0]).keys() & {"payload", "headers"}
    assert json.loads(run("job", "emails", "long", "--payload", "--json")[0])["payload"].endswith("yyyend")


def test_a_job_is_found_without_its_queue(app, run):
    app.queue("emails").enqueue(b"x", id="one")
    app.queue("images").enqueue(b"x", id="two")
    app.queue("emails").enqueue(b"x", id="both")
    app.queue("images").enqueue(b"x", id="both")
    assert "queue       images\n" in run("job", "two")[0]
    assert json.loads(run("job", "one", "--json")[0])["queue"] == "emails"
    assert "in any queue" in run("job", "three", expect=1)[1]
    assert "'emails', 'images'. Name one before the job." in run("job", "both", expect=2)[1]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_narrow_terminal_cuts_messages_and_states_it(width):
    error = ErrorInfo("ConnectionError", "smtp.example.org does not answer, " + "whatever it was asked " * 3)
    views = [JobView("AnCj0WBNtPUkrr", "default", State.FAILED, task="shop.send", failures=4, error=error)]
    table = job_table(views, 0.0, "title", "empty").fitted(width)
    (row,) = table.rows
    assert row["message"].startswith("smtp.example.org ")
    assert (row["message"].endswith("..."), "tenure job JOB_ID" in table.below) == ((width < 200,) * 2)
    assert width < 80 or table._drawn_width() <= width
