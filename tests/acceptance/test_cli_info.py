"""`leasehold info`: plain columns in a pipe, tables on a terminal, JSON for programs."""

import json
import os
import pty
import subprocess
import sys

import pytest

from leasehold import Leasehold


@pytest.fixture
def app(redis_url):
    with Leasehold(redis_url, namespace="shop") as app:
        app.queue("emails").enqueue(b"one")
        app.queue("emails").enqueue(b"two")
        app.queue("[red]odd[red] name").enqueue(b"three")
        yield app


def test_plain_columns_in_a_pipe(leasehold, app, redis_url):
    out = leasehold("info", "--namespace", "shop", url=redis_url).end().out
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:4] == ["queue", "scheduled", "ready", "active"]
    assert ["emails", "0", "2"] in [line[:3] for line in lines]
    assert ["[red]odd[red]_name", "0", "1"] in [line[:3] for line in lines]
    assert "No workers." in out
    assert out.isascii()


def test_json(leasehold, app, redis_url):
    shown = json.loads(leasehold("info", "--json", "--url", redis_url, "--namespace", "shop").end().out)
    assert {queue["name"]: queue["counts"]["ready"] for queue in shown["queues"]} == {
        "emails": 2,
        "[red]odd[red] name": 1,
    }
    assert shown["workers"] == []


def test_another_namespace_is_empty(leasehold, app, redis_url):
    assert "No queues" in leasehold("info", url=redis_url).end().out


def test_workers_are_shown(leasehold, redis_url, tmp_path):
    text = "from leasehold import Leasehold\napp = Leasehold()\n@app.task\ndef f() -> None: ...\n"
    (tmp_path / "jobs.py").write_text(text)
    run = leasehold("worker", "jobs:app", "-c", "3", "-q", "default", "-q", "other", url=redis_url).wait_for("started")
    for _ in range(50):
        workers = json.loads(leasehold("info", "--json", url=redis_url).end().out)["workers"]
        if workers:
            break
    assert [(w["pid"], w["concurrency"], w["queues"]) for w in workers] == [(run.process.pid, 3, ["default", "other"])]
    assert f"{run.process.pid}" in leasehold("info", url=redis_url).end().out


def test_tables_on_a_terminal(app, redis_url):
    outside, inside = pty.openpty()
    command = [sys.executable, "-m", "leasehold", "info", "--namespace", "shop", "--url", redis_url]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "150"}
    subprocess.run(command, stdout=inside, env=environment, check=True, timeout=20)
    os.close(inside)
    shown = os.read(outside, 65536).decode()
    os.close(outside)
    assert "Queues" in shown
    assert "[red]odd[red] name" in shown
    assert "\x1b[" in shown


def test_a_reader_that_goes_away_is_no_error(app, redis_url):
    command = [sys.executable, "-m", "leasehold", "info", "--json", "--url", redis_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
