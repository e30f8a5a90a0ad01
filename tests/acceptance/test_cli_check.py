"""`tenure check` against servers that are not as they should be, and a worker that will not start on them."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tenure import JobFailed, Tenure
from tenure.testing.server import keys_of
from tests.redis.proxy import Proxy

NAMES = [
    "version",
    "role",
    "mode",
    "eviction",
    "memory",
    "connections",
    "persistence",
    "rights",
    "clock",
    "latency",
    "layout",
    "partitions",
]

JOBS = """
import time
from tenure import Tenure, check_cancelled

app = Tenure()

@app.handler("default")
def work(job):
    while job.payload == b"wait":
        print("waiting", flush=True)
        job.progress(1, 2)
        check_cancelled()
        time.sleep(0.05)
    return 1
"""


@pytest.fixture
def run(command):
    """Runs `check --json`; answers the findings by their names."""

    def run(server, *args, expect=0, url=None, **variables):
        ended = command("check", "--json", *args, url=url or server.url, **variables).end(expect)
        shown = json.loads(ended.out)
        assert shown["fit"] == (expect == 0)
        return {one["name"]: one for one in shown["findings"]}

    return run


@pytest.mark.every_server
@pytest.mark.parametrize(
    ("renamed", "level", "says"),
    [
        (("EVAL", "EVALSHA"), "error", r"runs no scripts in Lua: ERR unknown command .?EVALSHA"),
        (("BLPOP", "ZINTER"), "error", r"does not have the commands BLPOP, ZINTER\."),
    ],
)
def test_a_server_without_some_commands(run, make_server, renamed, level, says):
    server = make_server(args=[word for name in renamed for word in ("--rename-command", name, "")])
    one = run(server, expect=1)["commands"]
    assert one["level"] == level
    assert re.search(says, one["found"], re.IGNORECASE), one
    assert "EVALSHA" in one["remedy"]


@pytest.mark.parametrize(
    ("refused", "fit", "level", "says"),
    [
        (b"\r\nEVALSHA\r\n", False, "error", "runs no scripts in Lua: ERR unsupported"),
        (b"\r\nBLPOP\r\n", False, "error", "refuses blocking commands"),
        (b"\r\nSUBSCRIBE\r\n", True, "warning", "SUBSCRIBE was refused"),
        (b"\r\nINFO\r\n", True, "unknown", "INFO is refused"),
        (b"*1\r\n$4\r\nTIME\r\n", True, "unknown", "TIME is refused"),
    ],
)
def test_a_proxy_that_refuses_a_command(run, server, refused, fit, level, says):
    with Proxy(server.socket_path) as proxy:
        proxy.refuse[refused] = b"-ERR unsupported command\r\n"
        found = run(server, url=proxy.url, expect=0 if fit else 1)
    assert [one["level"] for one in found.values() if says in one["found"]] == [level]


def test_a_proxy_that_closes_connections_that_wait(run, server):
    with Proxy(server.socket_path) as proxy:
        proxy.refuse[b"\r\nBLPOP\r\n"] = b""
        assert "refuses blocking commands" in run(server, url=proxy.url, expect=1)["commands"]["found"]


def test_a_worker_starts_without_messages_and_not_without_waits(tenure, server, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    with Proxy(server.socket_path) as proxy:
        proxy.refuse[b"\r\nSUBSCRIBE\r\n"] = b"-ERR unsupported command\r\n"
        tenure("worker", "jobs:app", url=proxy.url).wait_for("about=commands").wait_for("worker_started")
        proxy.refuse[b"\r\nBLPOP\r\n"] = b"-ERR unsupported command\r\n"
        assert "refuses blocking commands" in tenure("worker", "jobs:app", url=proxy.url).end(2).err


def test_one_that_is_fit(run, command, private_server):
    found = run(private_server)
    assert list(found) == NAMES
    assert {one["level"] for one in found.values()} == {"ok"}
    assert not any(one["remedy"] for one in found.values())
    assert found["persistence"]["found"] == "An append-only file, synced: everysec."
    assert keys_of(private_server) == {}
    out = command("check", url=private_server.url).end().out
    assert [line.split()[:2] for line in out.splitlines()] == [["ok", name] for name in NAMES]


def test_a_queue_that_a_newer_release_has_written_to(run, private_server):
    app = Tenure(private_server.url)
    app.queue("images").enqueue(b"x")
    app.close()
    private_server.command("HSET", "{tenure:images}:meta", "layout", 7)
    found = run(private_server, expect=1)["layout"]
    assert found["level"] == "error"
    assert "images (version 7)" in found["found"]
    assert "Update" in found["remedy"]


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
@pytest.mark.parametrize("limited", [True, False])
def test_one_that_evicts(run, make_server, policy, limited):
    server = make_server(args=["--maxmemory-policy", policy, *(["--maxmemory", "50mb"] if limited else [])])
    found = run(server, expect=1)
    assert found["eviction"]["level"] == "error"
    assert f"maxmemory-policy must be noeviction, got {policy}" in found["eviction"]["found"]
    assert "noeviction" in found["eviction"]["remedy"]


def test_a_replica(run, make_server):
    server = make_server()
    server.command("REPLICAOF", "127.0.0.1", "1")
    assert "master" in run(server, expect=1)["role"]["remedy"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"aof": False}, "a crash of Redis loses jobs"),
        ({"args": ["--appendfsync", "no"]}, "a power cut loses jobs"),
    ],
)
def test_little_persistence_is_a_warning(run, make_server, args, words):
    server = make_server(**args)
    found = run(server)
    assert (found["persistence"]["level"], words in found["persistence"]["found"]) == ("warning", True)
    run(server, "--strict", expect=1)


def test_snapshots_alone_are_a_warning(run, make_server):
    server = make_server(aof=False)
    server.command("CONFIG", "SET", "save", "3600 1")
    assert "only snapshots" in run(server)["persistence"]["found"]


def test_one_that_is_almost_full(run, make_server):
    server = make_server(args=["--maxmemory", "20mb"])
    for number in range(37):
        server.command("SET", f"x{number}", b"x" * 500_000)
    assert run(server)["memory"]["level"] == "warning"


USERS = {
    "inner": (["+@all", "-hset", "-zadd", "allkeys", "allchannels"], {"+hset", "+zadd"}),
    "keys": (["+@all", "~other:*", "allchannels"], {"~{tenure:*"}),
    "scripts": (["+@all", "-eval", "-evalsha", "allkeys", "allchannels"], {"+eval", "+evalsha"}),
}


@pytest.mark.parametrize("user", USERS)
def test_rights_that_a_user_lacks(run, make_server, user):
    server = make_server()
    rules, missing = USERS[user]
    server.command("ACL", "SETUSER", "app", "on", ">s3cret", "resetchannels", *rules)
    found = run(server, expect=1, url=server.url.replace("unix://", "unix://app:s3cret@"))["rights"]
    assert found["level"] == "error"
    assert missing <= set(re.findall(r"[+~]\S*[^\s.]", found["found"])), found["found"]
    assert keys_of(server) == {}


def test_rights_to_channels(run, make_server):
    server = make_server()
    server.command("ACL", "SETUSER", "app", "on", ">s3cret", "resetchannels", "+@all", "allkeys")
    found = run(server, expect=1, url=server.url.replace("unix://", "unix://app:s3cret@"))["rights"]
    assert "+publish &{tenure:*" in found["found"]


def test_a_user_with_just_the_rights_that_are_granted(run, make_server, tenure, tmp_path):
    """The line of `check --acl`, as it is printed: for a client, a worker with processes, and the commands."""
    server = make_server()
    line = tenure("check", "--acl", "app").end().out
    assert json.loads(tenure("check", "--acl", "app", "--json").end().out)["acl"] == line.split()
    server.command(*line.replace(">PASSWORD", ">s3cret").split())
    url = server.url.replace("unix://", "unix://app:s3cret@")
    found = run(server, url=url)
    assert {one["level"] for one in found.values()} == {"ok"}
    (tmp_path / "jobs.py").write_text(JOBS)
    worker = tenure("worker", "jobs:app", "--processes", "2", url=url).wait_for("worker_started")
    with Tenure(url, durable=0) as app:
        wait = app.queue("default").enqueue(b"wait", lane="l")
        assert app.queue("default").enqueue(b"x", unique="k", priority=5).result(timeout=120) == 1
        worker.wait_for("waiting", "out")
        assert app.control.cancel("default", wait.id)
        with pytest.raises(JobFailed):
            wait.result(timeout=120)
        assert app.inspect.workers()
    for command in (["info"], ["info", "default"], ["jobs", "default"], ["job", "default", wait.id]):
        tenure(*command, url=url).end()
    worker.signal(signal.SIGTERM).end()
    assert not re.search("NOPERM|refused|lacks|denied|redis_lost", worker.err), worker.err


def test_the_documented_line_is_the_one_that_is_printed(command):
    page = (Path(__file__).parents[2] / "docs" / "howto" / "check.md").read_text()
    assert " ".join(page.partition("ACL SETUSER shop")[2].partition("```")[0].split()) == " ".join(
        command("check", "--acl", "shop").end().out.split()[3:]
    )


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("jobs", "~jobs ~jobs:*"),
        ("q[1]*", r'"~q\x5c[1\x5c]\x5c*" "~q\x5c[1\x5c]\x5c*:*"'),
        ("my jobs", r'"~my\x20jobs"'),
    ],
)
def test_the_line_for_another_protocol(command, prefix, words):
    line = command("check", "--acl", "app", "--protocol", f"redis-work-queue:{prefix}").end().out
    assert f">PASSWORD {words} " in line
    assert "&" not in line


def test_a_user_who_may_not_ask(run, make_server):
    server = make_server()
    server.command("ACL", "SETUSER", "app", "on", ">s3cret", "allkeys", "allchannels", "+@all", "-info", "-config")
    found = run(server, url=server.url.replace("unix://", "unix://app:s3cret@"))
    assert found["server"]["level"] == "unknown"
    assert found["rights"]["level"] == "ok"


def test_no_connection_is_a_finding(run, command):
    url = "redis://me:s3cret@127.0.0.1:1/0"
    found = run(None, expect=1, url=url)
    assert {name: one["level"] for name, one in found.items()} == {"connection": "error"}
    assert "did not respond" in found["connection"]["found"]
    assert found["connection"]["remedy"].startswith("Check the URL, and that Redis runs")
    assert not re.search("nothing was|Check", found["connection"]["found"])
    ended = command("check", url=url).end(expect=1)
    assert ended.out.split()[:2] == ["error", "connection"]
    assert (ended.err, "s3cret" in ended.out) == ("", False)


def test_a_user_who_is_not_let_in_is_a_finding(run, command, make_server):
    server = make_server(args=["--requirepass", "right-s3cret"], password="right-s3cret")
    found = run(server, expect=1, url=server.url.replace("right", "wrong"))
    assert {name: one["level"] for name, one in found.items()} == {"rights": "error"}
    assert "refused access" in found["rights"]["found"]
    assert found["rights"]["remedy"].startswith("Check the user name and the password")
    assert "Check" not in found["rights"]["found"]
    assert "s3cret" not in str(found)
    server.command("ACL", "SETUSER", "nobody", "on", ">s3cret", "resetchannels", "-@all")
    out = command("check", url=server.url.replace(":right-s3cret", "nobody:s3cret")).end(expect=1).out
    assert out.split()[:2] == ["error", "rights"]
    ended = command("check", "--json", url=server.url).end()
    assert "s3cret" not in ended.out + ended.err


def test_at_a_terminal(terminal, make_server):
    server = make_server(args=["--maxmemory-policy", "allkeys-lru"])
    command = [sys.executable, "-m", "tenure", "check", "--url", server.url]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(command, stdout=terminal.inside, env=environment)
    shown = terminal.wait_for("latency") if process.wait(20) else ""
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b[" in shown
    assert re.search(r"error +eviction +Redis may delete jobs", text)
    assert max(map(len, text.splitlines())) <= 80
