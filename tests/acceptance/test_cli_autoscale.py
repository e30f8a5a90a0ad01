"""`tenure autoscale`: mistakes, the port, and worker processes that come and go without the loss of a job."""

from __future__ import annotations

import os
import re
import signal
import socket
from urllib.request import Request, urlopen

import pytest

from tenure import State
from tests.acceptance.workers import gone, pids
from tests.support.waiting import until

JOBS = """
import os, time
from tenure import Tenure

app = Tenure()

@app.task(queue="orders")
def pay(number: int, gate: str) -> None:
    with open("began", "a") as file:
        print(number, os.getpid(), file=file)
    while not os.path.exists(gate):
        time.sleep(0.01)
    with open("paid", "a") as file:
        print(number, file=file)
"""


pytestmark = pytest.mark.usefixtures("jobs")


@pytest.fixture
def pay(app):
    def pay(number: int, gate: str) -> None: ...

    return app.task(queue="orders", name="jobs.pay")(pay)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("q --min 3 --max 2", "min must be at most max, which is 2, got 3"),
        ("q --drain-within 0", "drain_within must be 0.001 to"),
        ("q --slots 0", "slots must be a whole number from 1 to 500, got 0"),
        ("a,b,a", "queues must be different ones, since one policy sizes the workers of a queue, got 'a'"),
        ("a,,", "queue must be 1 to 200 characters"),
        ("q --protocol hworker:pool", "queue must be 'default' with the protocol hworker, got 'q'"),
        ("q --feeds other=3", "--feeds names queue 'other', which is not one of q."),
        ("q --feeds q=0", "--feeds must be a name, = and a number from 1 to 1,000, got 'q=0'."),
        ("q --tier spot", "--tier must be a name, = and a number"),
        ("q --tier a=1 --tier a=2", "--tier names 'a' twice."),
        ("q --once --serve 0", "--once and --serve do not go together."),
        ("q --once --run jobs:app", "--once and --run do not go together."),
        ("q --token-file nothing", "--token-file needs --serve."),
        ("q --serve 0 --token-file nothing", "--token-file 'nothing' cannot be read: No such file or directory."),
        ("q --serve 0 --token-file empty", "--token-file 'empty' must have a token, and it is empty."),
        ("q --serve web", "The scale port must be [HOST:]PORT"),
        ("q --max 257 --run jobs:app", "--run starts at most 256 processes, and the policy has up to 257."),
    ],
)
def test_a_mistake_is_named(command, redis_url, tmp_path, words, text):
    (tmp_path / "empty").write_text("\n")
    assert text in command("autoscale", *words.split(), url=redis_url).end(2).err


def test_an_unknown_queue_is_noted_and_needs_the_least(command, app, redis_url):
    app.queue("orders").enqueue(b"x")
    shown = command("autoscale", "order", "--once", url=redis_url).end()
    assert "no job waits, 0 held: 1 worker of 16 slots (the least)" in shown.out
    assert "Queue 'order' is unknown" in shown.err
    assert "Did you mean 'orders'?" in shown.err


@pytest.mark.parametrize("more", [(), ("--run", "jobs:app")])
def test_a_port_in_use_ends_the_command(tenure, redis_url, more):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = tenure("autoscale", "orders", "--serve", port, *more, url=redis_url)
        assert f"The scale port 127.0.0.1:{port} cannot be opened" in run.end(2).err


def test_it_answers_until_a_signal_stops_it(tenure, app, redis_url, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    app.queue("orders").enqueue_many([b"x"] * 300)
    words = ("--slots", "1", "--max", "50", "--every", "0.1", "--json", "--serve", "0", "--token-file", "token")
    run = tenure("autoscale", "orders", *words, url=redis_url).wait_for("/scale has").wait_for('"desired": 10', "out")
    (url,) = re.findall(r"GET (http://\S+)", run.err)
    with urlopen(Request(url, headers={"Authorization": "Bearer secret"}), timeout=60) as reply:
        assert b'"desired": 10' in reply.read()
    assert "secret" not in run.signal(signal.SIGTERM).end().err
    assert len(run.out.splitlines()) == 1, "a line for each change"


def test_processes_come_and_go_and_no_job_is_lost_when_they_are_killed(tenure, app, pay, redis_url, tmp_path):
    def paid() -> set[int]:
        path = tmp_path / "paid"
        return {int(line) for line in path.read_text().split()} if path.exists() else set()

    def began() -> list[list[int]]:
        path = tmp_path / "began"
        lines = path.read_text().splitlines() if path.exists() else []
        return [[int(word) for word in line.split()] for line in lines if len(line.split()) == 2]

    words = ("--min=0", "--max=3", "--slots=2", "--drain-within=1", "--calm-down=0", "--every=0.2", "--run=jobs:app")
    run = tenure("autoscale", "orders", *words, url=redis_url).wait_for("0 workers", "out")
    pay.enqueue_many([pay.call(number, "open") for number in range(60)])
    until(lambda: len({pid for _, pid in began()}) == 3)
    os.kill(began()[-1][1], signal.SIGKILL)
    (tmp_path / "open").touch()
    until(lambda: len(paid()) == 60)
    until(lambda: "0 workers" in run.out.splitlines()[-1])
    until(lambda: all(gone(pid) for pid in pids(run)))

    pay.enqueue(100, "late")
    until(lambda: [number for number, _ in began() if number == 100] == [100])
    pay.enqueue_many([pay.call(number, "late") for number in range(200, 260)])
    run.process.kill()
    (tmp_path / "late").touch()
    until(lambda: all(gone(pid) for pid in {pid for _, pid in began()}))
    assert 100 in paid(), "its worker finished it without its parent"

    run = tenure("autoscale", "orders", *words, url=redis_url)
    until(lambda: app.inspect.queue("orders").counts[State.COMPLETED] == 121)
    counts = app.inspect.queue("orders").counts
    assert {state: count for state, count in counts.items() if count} == {State.COMPLETED: 121}
    assert len(paid()) == 121
    run.signal(signal.SIGTERM).end()


def test_a_process_that_is_not_needed_finishes_its_jobs(tenure, app, pay, redis_url, tmp_path):
    words = ("--min=0", "--max=3", "--slots=1", "--drain-within=1", "--calm-down=0", "--every=0.1", "--run=jobs:app")
    run = tenure("autoscale", "orders", *words, url=redis_url).wait_for("0 workers", "out")
    pay.enqueue_many([pay.call(number, f"open{number}") for number in range(3)])
    until(lambda: (tmp_path / "began").exists() and len((tmp_path / "began").read_text().splitlines()) == 3)
    for number in (0, 1):
        (tmp_path / f"open{number}").touch()
    run.wait_for("1 worker of 1 slot", "out").wait_for("reason='fewer workers are needed'")
    (tmp_path / "open2").touch()
    until(lambda: app.inspect.queue("orders").counts[State.COMPLETED] == 3)
    view = app.inspect.queue("orders")
    assert view.totals == {"completed": 3}, "and none of them twice"
    run.signal(signal.SIGTERM).end()
