"""`tenure enqueue`: calls of tasks with arguments that are checked, raw payloads, and where they go."""

import json
import subprocess
import sys

import pytest

from tenure import State, Tenure

JOBS = """
from datetime import date
from tenure import Tenure, Unique
app = Tenure({url})

@app.task(queue="sums")
def add(a: int, b: int = 0, *, name: str = "x", on: date | None = None) -> int:
    return a + b

@app.task(queue="sums", unique=Unique(on_conflict="existing"))
def once(a: int) -> int:
    return a
"""


@pytest.fixture
def app(redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS.format(url=""))
    with Tenure(redis_url) as app:
        yield app


@pytest.fixture
def run(command, redis_url):
    def run(*args, expect=0):
        ended = command("enqueue", *args, url=redis_url).end(expect)
        return ended.out, ended.err

    return run


@pytest.fixture
def pipe(app, tmp_path, redis_url):
    """Runs the command with something on its stdin; answers its status and its stderr."""

    def pipe(data, *args):
        command = [sys.executable, "-m", "tenure", "enqueue", *args, "--url", redis_url]
        ended = subprocess.run(command, input=data, capture_output=True, cwd=tmp_path, timeout=120)
        return ended.returncode, ended.stderr.decode()

    return pipe


@pytest.mark.parametrize(
    ("args", "payload"),
    [
        (["[1, 2]"], [[1, 2], {}]),
        (['{"a": 1, "b": 2}'], [[], {"a": 1, "b": 2}]),
        (["[1]", '{"on": "2026-12-24"}'], [[1], {"on": "2026-12-24"}]),
        (['{"name": "y"}', "[1]"], [[1], {"name": "y"}]),
    ],
)
def test_a_call_of_a_task(app, run, args, payload):
    out, err = run("jobs:app", "jobs.add", *args, "--id", "one")
    assert out == "Job 'one' is in queue 'sums'.\n"
    assert err == "Note: To follow it: tenure job sums one --watch\n"
    view = app.inspect.job("sums", "one")
    assert (view.task, view.state, json.loads(view.payload)) == ("jobs.add", State.READY, payload)


def test_a_worker_runs_it(app, run, tenure, redis_url):
    run("jobs:app", "jobs.add", "[1, 2]", "--id", "one")
    tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert app.inspect.job("sums", "one").result == b"3"


def test_what_does_not_fit_is_not_enqueued(app, run):
    for args in (["[1]", '{"c": 1}'], ['["s3cret"]'], [], ['{"a": 1.5}']):
        out, err = run("jobs:app", "jobs.add", *args, expect=2)
        assert out == ""
        assert "jobs.add" in err
        assert "s3cret" not in err
    assert app.inspect.queues() == []


def test_the_options_of_a_job(app, run):
    run(
        "jobs:app",
        "jobs.add",
        "[1]",
        "--id",
        "one",
        "--queue",
        "other",
        "--lane",
        "l 1",
        "--unique",
        "k",
        "--header",
        "a=b=c",
    )
    view = app.inspect.job("other", "one")
    assert (view.shape.lane, view.shape.unique.key, view.headers) == ("l 1", "k", {"a": "b=c"})
    run("--queue", "emails", "--payload", "x", "--id", "two", "--delay", "60.5", "--priority", "-5")
    view = app.inspect.job("emails", "two")
    assert (view.state, view.shape.priority, view.due_ms - view.enqueued_ms) == (State.SCHEDULED, -5, 60_500)


def test_a_raw_payload(app, run):
    shown = json.loads(run("--queue", "emails", "--payload", "Grüße", "--json")[0])
    view = app.inspect.job("emails", shown.pop("id"))
    assert shown == {"queue": "emails", "task": None, "created": True, "conflict": None}
    assert (view.task, view.payload) == (None, "Grüße".encode())
    out, _ = run("jobs:app", "--queue", "emails", "--payload", "", "--id", "empty")
    assert out == "Job 'empty' is in queue 'emails'.\n"
    assert app.inspect.job("emails", "empty").payload == b""


def test_from_stdin(app, pipe):
    assert pipe(b"\xff\x00raw\n", "--queue", "emails", "--payload", "-", "--id", "one")[0] == 0
    assert app.inspect.job("emails", "one").payload == b"\xff\x00raw\n"
    assert pipe(b"[1, 2]\n", "jobs:app", "jobs.add", "-", "--id", "one")[0] == 0
    assert app.inspect.job("sums", "one").payload == b"[[1,2],{}]"
    status, err = pipe(b"x" * 1_048_577, "--queue", "emails", "--payload", "-", "--id", "two")
    assert status == 2
    assert "the limit is 1,048,576" in err
    assert app.inspect.job("emails", "two") is None


def test_a_terminal_is_no_stdin(app, terminal, redis_url):
    command = [sys.executable, "-m", "tenure", "enqueue", "--queue", "emails", "--payload", "-", "--url", redis_url]
    ended = subprocess.run(command, stdin=terminal.inside, capture_output=True, timeout=120)
    assert ended.returncode == 2
    assert b"that is the terminal" in ended.stderr


def test_what_is_there_already(app, run):
    run("--queue", "emails", "--payload", "x", "--id", "one", "--unique", "k")
    out, err = run("--queue", "emails", "--payload", "x", "--id", "one", expect=1)
    assert (out, "already has a job with the id 'one'" in err) == ("", True)
    out, err = run("--queue", "emails", "--payload", "x", "--id", "two", "--unique", "k", expect=1)
    assert (out, "has job 'one' with the same unique key" in err) == ("", True)
    run("jobs:app", "jobs.once", "[1]", "--id", "one")
    out, _ = run("jobs:app", "jobs.once", "[1]")
    assert out == "Nothing new: job 'one' of queue 'sums' has the unique key (existing).\n"
    assert json.loads(run("jobs:app", "jobs.once", "[1]", "--json")[0])["created"] is False


def test_a_queue_that_is_full(app, run):
    app.control.configure("emails", max_length=1)
    run("--queue", "emails", "--payload", "x")
    assert "QueueFull" not in run("--queue", "emails", "--payload", "x", expect=1)[1]
    assert app.inspect.queue("emails").counts[State.READY] == 1


def test_an_app_that_says_itself_where_its_redis_is(app, run, tmp_path, redis_url):
    (tmp_path / "fixed.py").write_text(JOBS.format(url=repr(redis_url)))
    assert run("fixed:app", "fixed.add", "[1]")[0].endswith("is in queue 'sums'.\n")
    _, err = run("fixed:app", "fixed.add", "[1]", "--url", "redis://me:s3cret@localhost:1/0", expect=2)
    assert "fixed:app sets another value than --url" in err
    assert "s3cret" not in err
    shown = json.loads(run("jobs:app", "jobs.add", "[1]", "--namespace", "shop", "--json")[0])
    with Tenure(redis_url, namespace="shop") as shop:
        assert shop.inspect.queue("sums").counts[State.READY] == 1
        assert shop.inspect.job("sums", shown["id"]) is not None
