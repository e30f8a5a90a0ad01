"""`tenure retry`, `discard`, `purge`: one job or many, another payload, and what is asked before."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tenure import NotUnique, State
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Failed
from tenure.redis.sync import SyncDriver

JOBS = """
from tenure import Tenure
app = Tenure()

@app.task(name="jobs.add", queue="sums", retries=0)
def add(a: int, b: int = 0) -> int:
    return a + b
"""

pytestmark = pytest.mark.usefixtures("jobs")


@pytest.fixture
def ask(terminal, redis_url, tmp_path):
    """Runs the command at a terminal, types an answer to its question; answers the status, the question, stdout."""

    def ask(answer, *args, **variables):
        command = [sys.executable, "-m", "tenure", *args, "--url", redis_url]
        streams = {"stdin": terminal.inside, "stdout": subprocess.PIPE, "stderr": terminal.inside}
        with subprocess.Popen(command, cwd=tmp_path, env=os.environ | variables, **streams) as process:
            asked = terminal.wait_for("[y/N]" if "--edit" not in args else "[Y/n]")
            terminal.type(f"{answer}\n")
            assert process.stdout is not None
            out = process.stdout.read().decode()
            return process.wait(20), asked, out

    return ask


def fail(app, *ids, queue="emails", **options):
    for id in ids:
        app.queue(queue).enqueue(b"x", id=id, **options)
        app.queue(queue).fail(app.queue(queue).lease(seconds=60), "no luck")


def state(app, queue, id):
    view = app.inspect.job(queue, id)
    return None if view is None else view.state


@pytest.fixture
def sum_failed(app):
    @app.task(name="jobs.add", queue="sums")
    def add(a: int, b: int = 0) -> int: ...

    add.using(id="one").enqueue(1, b=2)
    app.queue("sums").fail(app.queue("sums").lease(seconds=60), "no luck")


def test_one_job(app, run):
    fail(app, "one")
    assert run("retry", "emails", "one") == ("Job 'one' of queue 'emails' waits for a worker; it was failed.\n", "")
    assert state(app, "emails", "one") is State.READY
    app.queue("emails").enqueue(b"x", id="later", delay=60)
    shown = json.loads(run("retry", "emails", "later", "--json")[0])
    assert shown == {"queue": "emails", "job": "later", "retried": True, "payload_changed": False}


def test_what_cannot_be_retried(app, run):
    app.queue("emails").enqueue(b"x", id="one")
    out, err = run("retry", "emails", "one", expect=1)
    assert (out, err) == ("", "Error: Job 'one' of queue 'emails' waits for a worker already. Nothing was changed.\n")
    held = app.queue("emails").lease(seconds=60)
    assert "is held by a worker" in run("retry", "emails", "one", expect=1)[1]
    app.queue("emails").complete(held)
    assert "has completed; enqueue it again" in run("retry", "emails", "one", expect=1)[1]
    assert "has completed" in run("retry", "emails", "one", "--edit", expect=1, EDITOR="false")[1]
    assert "There is no job 'two' in queue 'emails'" in run("retry", "emails", "two", expect=1)[1]
    fail(app, "three", unique="k")
    app.queue("emails").enqueue(b"x", unique="k")
    assert "another job has its unique key now" in run("retry", "emails", "three", expect=1)[1]
    assert state(app, "emails", "three") is State.FAILED


def test_another_payload(app, run):
    fail(app, "one")
    out, _ = run("retry", "emails", "one", "--payload", "Grüße")
    assert out == "Job 'one' of queue 'emails' waits for a worker with the new payload; it was failed.\n"
    assert app.queue("emails").lease(seconds=60).payload == "Grüße".encode()


def test_another_payload_makes_another_unique_key(app, run):
    fail(app, "one", unique=True)
    app.queue("emails").enqueue(b"y", id="two", unique=True)
    out, err = run("retry", "emails", "one", "--payload", "y", "--json", expect=1)
    assert json.loads(out)["retried"] is False
    assert "was not retried: job 'two' has the unique key of the new arguments." in err
    run("retry", "emails", "one", "--payload", "z")
    with pytest.raises(NotUnique) as refused:
        app.queue("emails").enqueue(b"z", unique=True)
    assert refused.value.other == "one"
    assert app.queue("emails").enqueue(b"x", unique=True).created


@pytest.mark.usefixtures("sum_failed")
def test_other_arguments_are_checked(app, run, tenure, redis_url):
    for payload, checked, words in (
        ('[["s3cret"], {}]', True, "argument 'a': Expected `int`, got `str`"),
        ('[[1], {"c": 2}]', True, "'c'"),
        ("[1, 2]", False, "[[positional...], {named...}]"),
        ("s3cret", False, "[[positional...], {named...}]"),
        ("[[NaN], {}]", False, "JSON"),
    ):
        app_option = ["--app", "jobs:app"] if checked else []
        out, err = run("retry", "sums", "one", "--payload", payload, *app_option, expect=2)
        assert (out, words in err, "s3cret" in err) == ("", True, False), err
    assert (state(app, "sums", "one"), app.inspect.job("sums", "one").payload) == (State.FAILED, b'[[1],{"b":2}]')
    run("retry", "sums", "one", "--payload", '[[3], {"b": 4}]', "--app", "jobs:app")
    tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert app.inspect.job("sums", "one").result == b"7"


@pytest.mark.usefixtures("sum_failed")
def test_a_note_says_that_arguments_were_not_checked(run):
    _, err = run("retry", "sums", "one", "--payload", '[["s3cret"], {}]')
    assert re.fullmatch(r"Note: Its arguments were not checked: .* task jobs\.add, with --app\.\n", err)


def editor(folder: Path, old: str, new: str) -> str:
    """A program that replaces a text in the file that it is given, and keeps what it saw."""
    script = folder / "editor.py"
    script.write_text(
        "import pathlib, sys\nfile = pathlib.Path(sys.argv[-1])\ntext = file.read_text()\n"
        f"pathlib.Path({str(folder / 'seen')!r}).write_text(text)\nfile.write_text(text.replace({old!r}, {new!r}))\n"
    )
    return f"{sys.executable} {script}"


@pytest.mark.usefixtures("sum_failed")
def test_edited_arguments(app, run, tmp_path):
    run("retry", "sums", "one", "--edit", "--app", "jobs:app", EDITOR=editor(tmp_path, "2", "5"))
    assert json.loads((tmp_path / "seen").read_text()) == [[1], {"b": 2}]
    assert (tmp_path / "seen").read_text().count("\n") > 3
    assert (state(app, "sums", "one"), app.inspect.job("sums", "one").payload) == (State.READY, b'[[1],{"b":5}]')


def test_an_edited_raw_payload(app, run, tmp_path):
    fail(app, "one")
    run("retry", "emails", "one", "--edit", EDITOR=editor(tmp_path, "x", "y"))
    assert app.inspect.job("emails", "one").payload == b"y"


@pytest.mark.usefixtures("sum_failed")
def test_nothing_was_edited(app, run, tmp_path):
    _, err = run("retry", "sums", "one", "--edit", expect=1, EDITOR="true")
    assert err == "Error: Nothing was changed in the editor, so nothing was done.\n"
    _, err = run("retry", "sums", "one", "--edit", expect=1, EDITOR="false")
    assert "Error:" in err
    assert state(app, "sums", "one") is State.FAILED


@pytest.mark.usefixtures("sum_failed")
def test_what_was_edited_wrongly_can_be_edited_again(app, ask, tmp_path):
    wrong = editor(tmp_path, "2", '"s3cret"')
    status, asked, out = ask("n", "retry", "sums", "one", "--edit", "--app", "jobs:app", EDITOR=wrong)
    assert "argument 'b': Expected `int`, got `str`" in asked
    assert (status, out, "s3cret" in asked) == (1, "", False)
    assert state(app, "sums", "one") is State.FAILED


def test_all_failed_ones(app, run):
    ids = [f"job{number:03}" for number in range(120)]
    fail(app, *ids)
    out, err = run("retry", "emails", "--all", "--state", "failed", "--limit", "110", "--yes")
    assert out == "Queue 'emails': 110 jobs retried.\n"
    assert err == "Note: There were 120. Run it again for the others.\n"
    # Those that failed first run first.
    views = app.inspect.page("emails", "ready").jobs
    assert [view.id for view in views] == ids[:100]
    shown = json.loads(run("retry", "emails", "--all", "--state", "failed", "--limit", "6", "--yes", "--json")[0])
    row = {"queue": "emails", "found": 10, "retried": 6}
    counts = {"found": 6, "retried": 6, "left": 4}
    assert shown == {"queue": "emails", "state": "failed", "lane": None, **counts, "queues": [row], "unchanged": []}
    shown = json.loads(run("retry", "emails", "--all", "--state", "failed", "--yes", "--json")[0])
    assert (shown["found"], shown["retried"], shown["left"]) == (4, 4, 0)
    out, err = run("retry", "emails", "--all", "--state", "failed", "--yes", expect=1)
    assert (out, err) == ("", "Error: There are no failed jobs of queue 'emails'; there is nothing to retry.\n")


def test_all_but_those_that_cannot(app, run):
    fail(app, "one")
    fail(app, "two", unique="k")
    app.queue("emails").enqueue(b"x", unique="k")
    out, err = run("retry", "emails", "--all", "--state", "failed", "--yes", expect=1)
    assert out == "Queue 'emails': 1 job retried.\n"
    why = "another job has its unique key"
    assert err == f"Error: 1 job of queue 'emails' could not be retried:\n  'two' of 'emails': {why}\n"


@pytest.mark.parametrize(("answer", "status", "left"), [("n", 1, 2), ("y", 0, 0)])
def test_all_asks_at_a_terminal(app, ask, answer, status, left):
    fail(app, "one", "two")
    ended, asked, _ = ask(answer, "retry", "emails", "--all", "--state", "failed")
    assert "Retry 2 failed jobs of queue 'emails'?" in asked
    assert (ended, app.inspect.queue("emails").counts[State.FAILED]) == (status, left)


def test_discard(app, run):
    fail(app, "one")
    assert run("discard", "emails", "one") == ("Job 'one' of queue 'emails' is discarded; it was failed.\n", "")
    assert app.inspect.job("emails", "one") is None
    assert "no job 'one'" in run("discard", "emails", "one", expect=1)[1]
    app.queue("emails").enqueue(b"x", id="two")
    app.queue("emails").lease(seconds=60)
    out, err = run("discard", "emails", "two", "--json", expect=1)
    assert json.loads(out) == {"queue": "emails", "job": "two", "discarded": False}
    assert "held by a worker" in err
    assert state(app, "emails", "two") is State.ACTIVE


def test_purge(app, run):
    fail(app, "one", "two")
    app.queue("emails").enqueue(b"x", id="three")
    _, err = run("purge", "emails", "--state", "failed", expect=2)
    assert "would remove 2 failed jobs of queue 'emails' for good" in err
    assert run("purge", "emails", "--state", "failed", "--yes") == ("Queue 'emails': 2 jobs removed.\n", "")
    assert app.inspect.job("emails", "one") is None
    assert state(app, "emails", "three") is State.READY
    shown = json.loads(run("purge", "emails", "--state", "failed", "--yes", "--json")[0])
    counts = {"found": 0, "removed": 0, "left": 0}
    assert shown == {"queue": "emails", "state": "failed", "lane": None, **counts, "queues": [], "unchanged": []}


@pytest.mark.parametrize(("answer", "status", "left"), [("n", 1, 1), ("y", 0, 0)])
def test_purge_asks_at_a_terminal(app, ask, answer, status, left):
    fail(app, "one")
    ended, asked, _ = ask(answer, "purge", "emails", "--state", "failed")
    assert "Remove 1 failed job of queue 'emails' for good?" in asked
    assert (ended, app.inspect.queue("emails").counts[State.FAILED]) == (status, left)


@pytest.fixture
def two_queues(app, redis_url):
    """Failed jobs in two queues, with two types of errors."""
    driver = SyncDriver(redis_url)
    for queue, id, error in (
        ("emails", "timeout", "requests.exceptions.ReadTimeout"),
        ("images", "other", "requests.exceptions.ReadTimeout"),
        ("images", "value", "ValueError"),
    ):
        app.queue(queue).enqueue(b"x", id=id)
        (lease,) = driver.run(app.engine.lease("w", (queue,), 1)).leases
        assert driver.run(app.engine.settle([(lease, Failed(ErrorInfo(error, "it broke")))])) == [True]
    driver.close()


def test_all_with_one_error_in_all_queues(app, run, two_queues):
    words = ("retry", "--all", "--state", "failed", "--error", "ReadTimeout")
    out, _ = run(*words, "--dry-run")
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["job", "queue"],
        ["timeout", "emails"],
        ["other", "images"],
    ]
    assert app.inspect.queue("images").counts[State.FAILED] == 2
    done = "All queues: 2 jobs retried. 1 job of 'emails', 1 job of 'images'.\n"
    assert run(*words, "--yes")[0] == done
    assert [view.id for view in app.inspect.page("images", "failed").jobs] == ["value"]
    assert "nothing to retry" in run(*words, "--yes", expect=1)[1]


def test_one_is_found_without_its_queue(app, run, two_queues):
    assert "Job 'value' of queue 'images' waits for a worker" in run("retry", "value")[0]
    assert "in any queue" in run("retry", "nobody", expect=1)[1]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--error", "ValueError"], {"value"}),
        (["--error", "requests.exceptions.ReadTimeout"], {"timeout", "other"}),
        (["--newer-than", "1h"], {"timeout", "other", "value"}),
        (["--older-than", "1h"], set()),
        (["--task", "shop.send"], set()),
    ],
)
def test_jobs_of_all_queues_that_are_selected(run, two_queues, options, ids):
    shown = json.loads(run("jobs", "--state", "failed", "--json", *options)[0])
    assert {one["id"] for one in shown["jobs"]} == ids
    assert shown["queue"] is None
    assert json.loads(run("jobs", "images", "--json", *options)[0])["totals"]["failed"] == len(ids - {"timeout"})


def test_a_purge_of_what_is_selected(app, run, two_queues):
    out, _ = run("purge", "images", "--state", "failed", "--error", "ValueError", "--older-than", "0s", "--yes")
    assert out == "Queue 'images': 1 job removed.\n"
    assert [view.id for view in app.inspect.page("images", "failed").jobs] == ["other"]


def test_a_purge_of_all_queues(app, run, two_queues):
    words = ("purge", "--all", "--state", "failed", "--error", "ReadTimeout")
    out, err = run(*words, "--dry-run")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["timeout", "emails"], ["other", "images"]]
    assert err == "Note: Nothing was changed. It would be 1 job of 'emails', 1 job of 'images'.\n"
    shown = json.loads(run(*words, "--dry-run", "--json")[0])
    assert shown["jobs"] == [{"queue": "emails", "id": "timeout"}, {"queue": "images", "id": "other"}]
    assert (shown["found"], shown["removed"], shown["left"]) == (2, 0, 2)
    assert "pass --yes" in run(*words, expect=2)[1]
    assert app.inspect.queue("images").counts[State.FAILED] == 2
    assert run(*words, "--yes")[0] == "All queues: 2 jobs removed. 1 job of 'emails', 1 job of 'images'.\n"
    assert run("purge", "--all", "--state", "failed", "--yes")[0] == "All queues: 1 job removed. 1 job of 'images'.\n"


def test_a_queue_with_a_key_of_another_program_is_left_out(app, run, redis_url, two_queues):
    key = "{tenure:emails}:failed"
    with redis.Redis.from_url(redis_url) as client:
        client.rename(key, "{tenure:emails}:apart")
        client.set(key, "of another program")
        out, err = run("purge", "--all", "--state", "failed", "--yes", expect=1)
        client.rename("{tenure:emails}:apart", key)
    assert out == "All queues: 2 jobs removed. 2 jobs of 'images'.\n"
    assert "Note: Queue 'emails' was left out: The key" in err
    assert "Error: 1 of 2 queues were left out." in err
    assert state(app, "emails", "timeout") is State.FAILED


def test_a_cancellation_of_one_state(app, run):
    app.queue("emails").enqueue(b"x", id="held")
    app.queue("emails").lease(seconds=60)
    for number in range(2):
        app.queue(f"q{number}").enqueue(b"x", id="later", delay=60)
    words = ("cancel", "--all", "--state", "scheduled", "--newer-than", "1h", "--reason", "not now", "--yes")
    assert run(*words)[0] == "All queues: 2 jobs cancelled. 1 job of 'q0', 1 job of 'q1'.\n"
    assert app.inspect.job("q1", "later").error.message == "not now"
    shown = json.loads(run("cancel", "--all", "--yes", "--json")[0])
    assert (shown["found"], shown["cancelled"], shown["requested"], shown["queue"]) == (1, 0, 1, None)


def test_a_job_that_is_retried_while_a_purge_asks_stays(app, run, two_queues, monkeypatch):
    monkeypatch.setattr("tenure.cli.many.sure", lambda *_, **__: app.control.retry("images", "value"))
    out, err = run("purge", "--all", "--state", "failed", "--older-than", "0s", expect=1)
    assert out.startswith("All queues: 2 jobs removed.")
    assert "1 job of all queues could not be removed:\n  'value' of 'images': it is ready now\n" in err
    assert state(app, "images", "value") is State.READY


@pytest.mark.parametrize("name", ["cancel", "discard"])
def test_other_commands_find_a_job_without_its_queue(app, run, name):
    app.queue("emails").enqueue(b"x", id="one")
    run(name, "one")
    assert app.inspect.queue("emails").counts[State.READY] == 0
    assert "in any queue" in run(name, "nobody", expect=1)[1]


def test_reschedule(app, run):
    app.queue("emails").enqueue(b"x", id="one")
    out, _ = run("reschedule", "one", "--run-after", "2096-03-01T09:00:00+01:00", "--priority", "3")
    assert out == "Job 'one' of queue 'emails' waits until 2096-03-01 08:00:00 UTC, with priority 3.\n"
    assert state(app, "emails", "one") is State.SCHEDULED
    assert json.loads(run("reschedule", "emails", "one", "--delay", "0", "--json")[0])["rescheduled"] is True
    job = app.queue("emails").lease(seconds=60)
    assert (
        "one' of queue 'emails' was not rescheduled: it is held by a worker"
        in run("reschedule", "one", "--delay", "9", expect=1)[1]
    )
    app.queue("emails").complete(job)
    assert "has ended already: completed" in run("reschedule", "one", "--delay", "9", expect=1)[1]
    assert "in any queue" in run("reschedule", "nobody", "--delay", "9", expect=1)[1]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((), "Expected JOB_ID"),
        (("one",), "Expected --delay, --run-after or --priority"),
        (("one", "--delay", "1", "--run-after", "2096-03-01T09:00:00Z"), "one of --delay and --run-after"),
        (("one", "--run-after", "2096-03-01T09:00:00"), "is not a time with a zone"),
        (("one", "--run-after", "tomorrow"), "is not a time with a zone"),
    ],
)
def test_reschedule_with_a_wrong_command_line(run, args, why):
    assert why in run("reschedule", *args, expect=2)[1]
