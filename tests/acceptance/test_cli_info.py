"""`tenure info`: plain columns in a pipe, tables on a terminal, JSON for programs."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from tenure import QueueView, State, Tenure, WorkerView
from tenure.cli.output.overview import queue_table, worker_table
from tenure.core.latency import Times, bucket_of
from tenure.core.minutes import Ends
from tenure.redis.sync import SyncDriver
from tests.support.waiting import until


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url, namespace="shop") as app:
        app.queue("emails").enqueue(b"one")
        app.queue("emails").enqueue(b"two")
        app.queue("[red]odd[red] name").enqueue(b"three")
        yield app


def test_plain_columns_in_a_pipe(command, app, redis_url):
    out = command("info", "--namespace", "shop", url=redis_url).end().out
    lines = [re.split("  +", line) for line in out.splitlines()]
    assert lines[0][:4] == ["queue", "scheduled", "ready", "active"]
    assert ["emails", "0", "2"] in [line[:3] for line in lines]
    assert ["[red]odd[red] name", "0", "1"] in [line[:3] for line in lines]
    assert "No workers." in out
    assert out.isascii()


def test_json(command, app, redis_url):
    shown = json.loads(command("info", "--json", "--url", redis_url, "--namespace", "shop").end().out)
    assert {queue["name"]: queue["counts"]["ready"] for queue in shown["queues"]} == {
        "emails": 2,
        "[red]odd[red] name": 1,
    }
    assert shown["workers"] == []


def test_why_a_job_waits_beside_idle_workers(command, app, redis_url):
    """It was running when four workers died."""
    driver, engine = SyncDriver(redis_url), app.engine
    job = app.queue("suspects").enqueue(b"x")
    for n in range(4):
        driver.run(engine.lease(f"w{n}", ["suspects"], 1))
        driver.run(engine.leave(f"w{n}", ["suspects"], crashed=True))
    driver.run(engine.announce(WorkerView("idle", ("suspects",), "host", 1, 0, 0, 1)))
    driver.close()
    where = ("--url", redis_url, "--namespace", "shop")
    why = "it was running when 4 workers died: it waits for a worker that can run it alone"
    assert re.search(f"^waits +{why}$", command("job", "suspects", job.id, *where).end().out, re.MULTILINE)
    assert json.loads(command("job", "suspects", job.id, *where, "--json").end().out)["waits"] == why
    assert "suspects=1" in command("info", *where).end().out
    (shown,) = json.loads(command("info", "suspects", *where, "--json").end().out)["queues"]
    assert shown["suspects"] == 1
    lines = [line.split() for line in command("info", "suspects", *where).end().out.splitlines()]
    head = next(line for line in lines if "lane_failure" in line)
    settings = dict(zip(head, lines[lines.index(head) + 1], strict=True))
    assert settings["suspects"] == "1"


def test_another_namespace_is_empty(command, app, redis_url):
    assert "No queues" in command("info", url=redis_url).end().out


def test_a_queue_that_redis_refuses_hides_no_other(tenure, app, redis_url, server):
    """Another program's data among its keys. What is no number in its counters is no reason to refuse anything."""
    server.command("SET", "{shop:emails}:failed", "x")
    server.command("HSET", "{shop:[red]odd[red] name}:meta", "completed", "x")
    where = ("--url", redis_url, "--namespace", "shop")
    run = tenure("info", *where).end(expect=1)
    assert "[red]odd[red] name" in run.out
    assert run.err.startswith("Error: Queue 'emails' cannot be shown.")
    shown = json.loads(tenure("info", "--json", *where).end(expect=1).out)
    assert [queue["name"] for queue in shown["queues"]] == ["[red]odd[red] name"]
    assert [refused["queue"] for refused in shown["refused"]] == ["emails"]
    assert "WRONGTYPE" in shown["refused"][0]["error"]
    assert "WRONGTYPE" in tenure("info", "emails", *where).end(expect=1).err
    watch = tenure("info", "--watch", *where).wait_for("[red]odd", "out").wait_for("Queue 'emails' cannot be shown")
    watch.signal(signal.SIGINT).end(expect=130)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("output", "status", "says"), [("> /dev/full", 1, "Error: The output could not be written: No"), (">&-", 0, "")]
)
def test_output_that_nobody_can_read(app, redis_url, output, status, says):
    command = f"{sys.executable} -m tenure info --namespace shop {output}"
    environment = {**os.environ, "TENURE_URL": redis_url}
    done = subprocess.run(command, shell=True, env=environment, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr[: len(says)]) == (status, says)
    assert "Traceback" not in done.stderr


def test_output_in_a_locale_that_lacks_a_character(app, redis_url):
    app.queue("emails").enqueue(b"x", id="a\N{RIGHTWARDS ARROW}b")
    command = [sys.executable, "-m", "tenure", "jobs", "emails", "--namespace", "shop"]
    environment = {**os.environ, "TENURE_URL": redis_url, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, "a\\u2192b" in done.stdout) == (0, True)


def test_workers_are_shown(tenure, redis_url, tmp_path):
    text = "from tenure import Tenure\napp = Tenure()\n@app.task\ndef f() -> None: ...\n"
    (tmp_path / "jobs.py").write_text(text)
    run = tenure("worker", "jobs:app", "-c", "3", "-q", "default", "-q", "other", url=redis_url).wait_for(
        "worker_started"
    )
    for _ in range(50):
        workers = json.loads(tenure("info", "--json", url=redis_url).end().out)["workers"]
        if workers:
            break
    assert [(w["pid"], w["concurrency"], w["queues"]) for w in workers] == [(run.worker, 3, ["default", "other"])]
    assert f"{run.worker}" in tenure("info", url=redis_url).end().out


def test_how_long_jobs_wait_and_run(tenure, command, redis_url, tmp_path):
    text = "from tenure import Tenure\napp = Tenure()\n@app.task\ndef f() -> None: ...\n"
    (tmp_path / "jobs.py").write_text(text)
    with Tenure(redis_url) as app:
        f = app.task(name="jobs.f")(lambda: None)
        f.enqueue()
        waiting = json.loads(command("info", "--json", url=redis_url).end().out)["queues"][0]
        assert waiting["oldest_ms"] == app.inspect.page("default", "ready").jobs[0].enqueued_ms
        f.using(delay=0.01).enqueue()
        run = tenure("worker", "jobs:app", url=redis_url).wait_for("worker_started")
        until(lambda: app.inspect.queue("default").counts[State.COMPLETED] == 2)
        app.control.quiet(app.inspect.workers()[0].id)  # so that it announces itself at once
        run.wait_for("worker_paused")
        until(lambda: app.inspect.latency("default").run is not None)
        latency = app.inspect.latency("default")
        assert latency.run is not None
        assert latency.wait is not None
        assert (latency.run.count, latency.wait.count) == (2, 1), "the delay of the other is no wait"
        assert app.inspect.queue("default").oldest_ms is None
    shown = json.loads(command("info", "default", "--json", url=redis_url).end().out)
    assert shown["latency"]["default"]["wait"]["count"] == 1
    assert "times" not in shown["workers"][0]
    out = command("info", url=redis_url).end().out
    assert re.search(r"^queue +wait_jobs +wait_p50", out, re.MULTILINE)
    assert re.search(r"^default +1 +", out, re.MULTILINE)


JOBS = """
import json
from tenure import Tenure
app = Tenure(namespace="shop")

@app.task(queue="images", retries=0)
def thumbnail(path: str) -> None:
    json.loads("{s3cret")
"""


@pytest.fixture
def failed(tenure, redis_url, tmp_path):
    """The id of a job that failed, and what its worker logged."""
    (tmp_path / "jobs.py").write_text(JOBS)
    code = "from jobs import thumbnail; print(thumbnail.using(id='cat').enqueue('c4t.png').id)"
    environment = os.environ | {"TENURE_URL": redis_url}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=20)
    return tenure("worker", "jobs:app", "--burst", "-q", "images", "-q", "nosuch", url=redis_url).end().err


def test_one_job(command, failed, redis_url):
    out = command("job", "images", "cat", "--namespace", "shop", url=redis_url).end().out
    for words in ("state +failed", "task +jobs.thumbnail", "failures +1", "ended +20", "error +json.*Expecting"):
        assert re.search(rf"^{words}", out, re.MULTILINE), words
    assert 'jobs.py", line 8, in thumbnail' in out
    assert "c4t.png" not in out
    out = command("job", "images", "cat", "--namespace", "shop", "--payload", url=redis_url).end().out
    assert '[["c4t.png"],{}]' in out


def test_one_job_as_json(command, failed, redis_url):
    shown = json.loads(command("job", "images", "cat", "--namespace", "shop", "--json", url=redis_url).end().out)
    assert (shown["state"], shown["failures"], shown["error"]["type"]) == ("failed", 1, "json.decoder.JSONDecodeError")
    assert "payload" not in shown


def test_why_workers_of_an_older_release_serve_a_queue_no_longer(command, app, server):
    server.command("HSET", "{shop:emails}:meta", "layout", 99)
    where = ("--namespace", "shop", "--url", server.url)
    assert "newer_layout=99" in command("info", *where).end().out
    one = command("info", "emails", *where).end()
    assert "newer_layout" in one.out
    assert "claim nothing from this queue. Queue 'emails' has layout version 99, written by a newer release" in one.err
    shown = json.loads(command("info", *where, "--json").end().out)["queues"]
    assert {queue["name"]: queue["newer_layout"] for queue in shown} == {"emails": 99, "[red]odd[red] name": None}


def test_a_job_that_is_not_there(command, app, redis_url):
    error = command("job", "emails", "nope", "--namespace", "shop", url=redis_url).end(expect=1).err
    assert "no job 'nope' in queue 'emails'" in error


def test_a_page_of_jobs(command, failed, app, redis_url):
    out = command("jobs", "images", "--state", "failed", "--namespace", "shop", url=redis_url).end().out
    head, row = (line.split() for line in out.splitlines())
    assert head == ["job", "task", "failures", "crashes", "when", "error", "message"]
    assert row[:4] == ["cat", "jobs.thumbnail", "1", "0"]
    out = command("jobs", "emails", "--state", "ready", "--json", "--namespace", "shop", url=redis_url).end().out
    assert (len(json.loads(out)["jobs"]), json.loads(out)["totals"]) == (2, {"ready": 2})
    assert "No broken jobs" in command("jobs", "emails", "--state", "broken", url=redis_url).end().out


def test_one_queue(command, app, redis_url):
    out = command("info", "emails", "--namespace", "shop", url=redis_url).end().out
    assert "emails" in out
    assert "odd" not in out


def test_a_worker_warns_of_a_queue_that_nothing_names(failed):
    assert "No task or handler of the app names the queue 'nosuch'; those that are named: 'images'." in failed
    assert "queue 'images';" not in failed


def test_what_a_worker_has_claimed_ahead_is_not_said_to_run():
    view = WorkerView("w", ("q",), "host", 7, started_ms=0, seen_ms=56_000, concurrency=2, active=5)
    table = worker_table([view], 60_000)
    shown = table.rows[0]
    assert (shown["held"], shown["slots"], shown["announced"]) == ("5", "2", "4s ago")
    assert "running" not in shown


@pytest.mark.parametrize(("width", "has", "has_not"), [(200, "cancelled", "..."), (60, "ready", "cancelled")])
def test_a_narrow_terminal_leaves_out_what_is_zero(width, has, has_not):
    queues = [QueueView("emails", {State.READY: 3, State.FAILED: 123_456}), QueueView("empty", {})]
    table = queue_table(queues, 0.0).fitted(width)
    assert has in table.head
    assert has_not not in table.head
    assert "failed" in table.head


def test_tables_on_a_terminal(app, redis_url):
    outside, inside = pty.openpty()
    command = [sys.executable, "-m", "tenure", "info", "--namespace", "shop", "--url", redis_url]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "150"}
    subprocess.run(command, stdout=inside, env=environment, check=True, timeout=20)
    os.close(inside)
    shown = os.read(outside, 65536).decode()
    os.close(outside)
    assert "Queues" in shown
    assert "[red]odd[red] name" in shown
    assert "\x1b[" in shown


def test_a_reader_that_goes_away_is_no_error(app, redis_url):
    command = [sys.executable, "-m", "tenure", "info", "--json", "--url", redis_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_queue_or_a_task_without_a_living_worker_is_named(command, app, redis_url):
    task = app.task(name="shop.send", queue="letters")(lambda: None)
    job = task.enqueue()
    where = ("--url", redis_url, "--namespace", "shop")

    def shown(*words: str):
        return json.loads(command(*words, *where, "--json").end().out)

    def announce(tasks: tuple[str, ...] | None) -> None:
        driver.run(app.engine.announce(WorkerView("w", ("letters",), "host", 1, 0, 0, 1, tasks=tasks)))

    driver = SyncDriver(redis_url)
    assert shown("info")["without_worker"] == ["[red]odd[red] name", "emails", "letters"]
    assert "no_worker" in command("info", *where).end().out
    assert "No living worker serves 'letters'" in command("info", "letters", *where).end().err
    assert shown("job", job.id)["waits"] == "no living worker serves the queue"
    announce(("shop.other",))
    assert shown("info", "letters")["without_worker"] == []
    assert shown("job", job.id)["waits"] == "no living worker of the queue has task shop.send: w has shop.other"
    for tasks in (None, ("shop.send",)):
        announce(tasks)
        assert shown("job", job.id)["waits"] == "it is the next one"
    app.control.pause("letters")
    assert shown("job", job.id)["waits"] == "the queue is paused"
    driver.close()


def test_a_job_that_waits_in_the_only_slot_for_a_ready_one_is_named(tenure, command, app, redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(
        "from tenure import Tenure\napp = Tenure(namespace='shop')\n"
        "@app.task\nasync def part(): ...\n"
        "@app.task\nasync def whole(): await (await part.using(id='part').aenqueue()).aresult()\n"
    )
    where = ("--url", redis_url, "--namespace", "shop")
    whole = app.task(name="jobs.whole")(lambda: None).enqueue()
    tenure("worker", "jobs:app", "-c", "1", url=redis_url).wait_for("result_awaited")
    (worker,) = app.inspect.workers()
    app.control.quiet(worker.id)  # so that it announces itself at once

    def shown(*words: str):
        return json.loads(command(*words, *where, "--json").end().out)

    until(lambda: shown("info")["all_awaiting"] == ["default"])
    assert "all_awaiting" in command("info", *where).end().out
    page = "docs/howto/results.md#a-job-that-waits-for-another"
    why = "jobs that wait for the results of other jobs hold all slots"
    assert f"No worker of 'default' has a free slot: {why}. See {page}." in command("info", "default", *where).end().err
    app.control.unquiet(worker.id)
    until(lambda: shown("job", "part")["waits"] == why)
    about = command("job", whole.id, *where).end().err
    assert "has announced awaiting=1: jobs that wait for the result of another job. This may be one of them." in about
    assert "awaiting" not in command("job", "part", *where).end().err


def test_the_last_hours_of_a_queue(command, app, redis_url):
    where = ("--url", redis_url, "--namespace", "shop")
    assert command("info", "emails", "--minutes", *where).end().out == "No job ended in the last 24 hours.\n"
    times = Times({bucket_of(1.5): 1_200}, {bucket_of(0.012): 1_200})
    with contextlib.closing(SyncDriver(redis_url)) as driver:
        driver.run(app.engine.history.note_ends("emails", Ends(completed=1_200, failed=2, times=times)))
    quarters, minutes = command("info", "emails", "--minutes", *where).end().out.split("\n\n")
    row = dict(zip(*(line.split() for line in quarters.splitlines()), strict=True))
    assert re.fullmatch(r"\d\d:(00|15|30|45)", row.pop("quarter"))
    ended = {"completed": "1,200", "failed": "2", "retried": "0", "cancelled": "0"}
    assert row == {**ended, "wait_p50": "2.0s", "wait_p95": "2.0s", "run_p50": "16ms", "run_p95": "16ms"}
    row = dict(zip(*(line.split() for line in minutes.splitlines()), strict=True))
    assert re.fullmatch(r"\d\d:\d\d", row.pop("minute"))
    assert row == ended


def test_the_last_hours_need_a_queue_and_the_native_format(command, redis_url):
    run = command("info", "--minutes", url=redis_url).end(expect=2)
    assert "--minutes goes with a queue, as in `tenure info QUEUE --minutes`." in run.err
    run = command("info", "q", "--minutes", "--protocol", "worqr:x", url=redis_url).end(expect=2)
    assert "does not support a history by the minute" in run.err
