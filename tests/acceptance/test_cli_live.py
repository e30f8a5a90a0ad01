"""`tenure info --watch`: a screen that moves, tables again and again in a pipe, a document a line as JSON."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tenure import Tenure
from tenure.cli.output.live import _cut
from tenure.cli.output.tables import Table


@pytest.fixture
def app(redis_url):
    with Tenure(redis_url) as app:
        app.queue("emails").enqueue(b"x")
        yield app


def test_in_a_pipe(app, tenure, redis_url):
    run = tenure("info", "--watch", url=redis_url).wait_for("emails", "out")
    app.queue("images").enqueue(b"x")
    run.wait_for("images", "out").signal(signal.SIGINT).end(expect=130)


def test_as_json(app, tenure, redis_url):
    run = tenure("info", "emails", "--watch", "--json", url=redis_url).wait_for("emails", "out")
    app.queue("emails").lease(seconds=60)
    run.wait_for('"active": 1', "out").signal(signal.SIGINT).end(expect=130)
    seen = [json.loads(line) for line in run.out.splitlines()]
    assert seen[0]["queues"][0]["counts"]["ready"] == 1
    assert seen[-1]["queues"][0]["counts"]["active"] == 1
    assert seen[0]["at_ms"] < seen[-1]["at_ms"]


def test_a_redis_that_goes_and_comes_back(tenure, private_server):
    with Tenure(private_server.url) as app:
        app.queue("emails").enqueue(b"x")
        run = tenure("info", "--watch", url=private_server.url).wait_for("emails", "out")
        private_server.kill()
        run.wait_for("did not respond")
        private_server.start()
        app.queue("images").enqueue(b"x")
        run.wait_for("images", "out").signal(signal.SIGINT).end(expect=130)


def test_a_redis_that_is_not_there_is_an_error(command):
    assert "did not respond" in command("info", "--watch", url="redis://127.0.0.1:1/0").end(expect=1).err


def test_on_a_terminal(app, terminal, redis_url):
    command = [sys.executable, "-m", "tenure", "info", "--watch", "--url", redis_url]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(command, stdin=terminal.inside, stdout=terminal.inside, env=environment) as process:
        terminal.wait_for("emails")
        app.queue("images").enqueue(b"x")
        terminal.wait_for("images")
        process.send_signal(signal.SIGINT)
        terminal.wait_for("\x1b[?1049l")
        assert process.wait(20) == 130


@pytest.mark.parametrize(
    ("queues", "workers", "shown"), [(3, 2, (3, 2)), (50, 2, (15, 2)), (2, 50, (2, 15)), (50, 50, (11, 6))]
)
def test_a_screen_has_room_for_both_tables(queues, workers, shown):
    tables = [Table("", tuple({"name": str(n)} for n in range(count))) for count in (queues, workers)]
    first, second = _cut(tables, 17)
    assert (len(first.rows), len(second.rows)) == shown
    assert first.below == ("" if shown[0] == queues else f"... and {queues - shown[0]} more")


def test_a_table_between_the_two_stays_whole():
    tables = [Table("", tuple({"name": str(n)} for n in range(count))) for count in (50, 4, 50)]
    assert [len(table.rows) for table in _cut(tables, 17)] == [6, 4, 4]
