"""`--health-file` and `--health-port`: how a worker is, also while its loop is blocked or Redis is away."""

import json
import signal
import time
import urllib.error
import urllib.request

import pytest

from tenure import Tenure
from tests.acceptance.workers import pids, ready
from tests.support.waiting import until

JOBS = """
import asyncio, time
from tenure import Tenure

app = Tenure()

@app.task
async def block(seconds: float) -> None:
    open("blocking", "w").close()
    time.sleep(seconds)
"""

pytestmark = pytest.mark.usefixtures("jobs")


def port_of(run) -> int:
    return int(run.wait_for("health_served at=").err.split("health_served at=127.0.0.1:")[1].split()[0])


def ask(port: int, path: str):
    """The status and what was said."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_and_a_supervisor_tell_how_they_are(tenure, redis_url, tmp_path, processes):
    words = ["--processes", str(processes), "--health-port", "0", "--health-file", "health.json"]
    run = tenure("worker", "jobs:app", *words, url=redis_url)
    port = port_of(run)
    assert ask(port, "/live")[0] == 200
    until(lambda: ask(port, "/ready")[0] == 200)
    if processes > 1:
        ready(run, processes)
    until(lambda: len(json.loads((tmp_path / "health.json").read_text())["workers"]) == processes)
    told = ask(port, "/live")[1]["workers"]
    assert {one["pid"] for one in told} == ({run.worker} if processes == 1 else set(pids(run)))
    assert all(0 <= one["last_good_reply_s"] < 15 for one in told)
    run.signal(signal.SIGTERM).end()
    assert not (tmp_path / "health.json").exists()


def test_it_answers_while_a_handler_blocks_the_loop(tenure, redis_url, tmp_path):
    run = tenure("worker", "jobs:app", "--health-port", "0", "--grace", "0", url=redis_url)
    port = port_of(run)
    with Tenure(redis_url) as app:

        @app.task(name="jobs.block")
        def block(seconds: float) -> None: ...

        block.enqueue(5.0)
    until(lambda: (tmp_path / "blocking").exists())
    assert ask(port, "/live")[0] == 200


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_without_redis_it_is_not_ready_and_goes_on_trying(tenure, private_server, processes):
    words = ["--processes", processes, "--health-port", "0"]
    run = tenure("worker", "jobs:app", *words, url=private_server.url)
    port = port_of(run)
    until(lambda: ask(port, "/ready")[0] == 200)
    private_server.kill()
    until(lambda: ask(port, "/ready")[0] == 503, 40)
    assert ask(port, "/live")[0] == 200
    private_server.start()
    until(lambda: ask(port, "/ready")[0] == 200)
    run.signal(signal.SIGTERM)
    time.sleep(0)
    run.end()


def test_a_port_that_is_taken_is_said(tenure, redis_url):
    run = tenure("worker", "jobs:app", "--health-port", "0", url=redis_url)
    port = str(port_of(run))
    for words in ([], ["--processes", "2"]):
        message = tenure("worker", "jobs:app", "--health-port", port, *words, url=redis_url).end(expect=2).err
        assert f"The health port 127.0.0.1:{port} cannot be opened" in message
