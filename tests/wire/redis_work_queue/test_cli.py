"""The command line on queues of redis-work-queue: in this process, on a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tenure.cli import commands
from tenure.cli.errors import run
from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed, Failed
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.redis.sync import SyncDriver
from tests.acceptance.test_cli_json import told
from tests.wire.redis_work_queue.bench import BOOM, Bench, P

Cli = Callable[..., tuple[str, str]]


@pytest.fixture
def cli(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command with these queues as its own; answers what it wrote on stdout and on stderr."""
    monkeypatch.setenv("TENURE_URL", bench.server.url)
    monkeypatch.setenv("TENURE_PROTOCOL", f"redis-work-queue:{P}")
    monkeypatch.setenv("TENURE_PATIENCE", "3")  # which a command with --app would set, for the rest of the process

    def cli(*args: str, expect: int = 0) -> tuple[str, str]:
        status = run(commands, list(args))
        wrote = capsys.readouterr()
        assert status == expect, f"ended with {status}, expected {expect}:\n{wrote.out}\n{wrote.err}"
        return wrote.out, wrote.err

    return cli


def shown(cli: Cli, *args: str, expect: int = 0) -> Any:
    return json.loads(cli(*args, "--json", expect=expect)[0])


def test_the_life_of_a_job(bench: Bench, cli: Cli) -> None:
    out, err = cli("enqueue", "--queue", "default", "--payload", "hello", "--id", "a")
    assert (out, err) == ("Job 'a' is in queue 'default'.\n", "Note: To follow it: tenure job default a\n")
    assert bench.command("GET", "jobs:item:a") == b"hello"
    assert shown(cli, "job", "default", "a", "--payload")["payload"] == "hello"
    assert shown(cli, "cancel", "default", "a")["answer"] == "cancelled"
    assert shown(cli, "retry", "default", "a", "--payload", "again")["payload_changed"]
    assert bench.command("GET", "jobs:item:a") == b"again"
    assert shown(cli, "jobs", "default")["totals"]["ready"] == 1
    assert shown(cli, "discard", "default", "a")["discarded"]
    bench.put("b")
    assert shown(cli, "purge", "default", "--state", "ready", "--yes")["removed"] == 1
    assert bench.items() == 0


def test_what_only_other_clients_use_is_seen(bench: Bench, cli: Cli) -> None:
    assert shown(cli, "info")["queues"] == []
    bench.foreign_add("a")
    bench.foreign_add("b")
    bench.foreign_lease()
    (queue,) = shown(cli, "info")["queues"]
    assert (queue["name"], queue["counts"]["ready"], queue["counts"]["active"]) == ("default", 1, 1)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["enqueue", "--queue", "q", "--payload", "x", "--delay", "5"], "a delay"),
        (["enqueue", "--queue", "q", "--payload", "x", "--lane", "l"], "lanes"),
        (["enqueue", "--queue", "q", "--payload", "x", "--priority", "5"], "priorities"),
        (["enqueue", "--queue", "q", "--payload", "x", "--unique", "k"], "unique jobs"),
        (["info", "q", "--lanes", "parked"], "lanes"),
        (["info", "q", "--lane", "l"], "lanes"),
        (["jobs", "q", "--lane", "l"], "lanes"),
        (["job", "q", "a", "--watch"], "keeps no record of a job that completed"),
        (["cancel", "q", "--lane", "l"], "lanes"),
        (["cancel", "q", "held"], "the cancellation of running jobs"),
        (["cancel", "q", "--all", "--state", "active", "--yes"], "the cancellation of running jobs"),
        (["purge", "--all", "--state", "ready", "--older-than", "0s", "--yes"], "keeps no time of the enqueue"),
        (["retry", "--all", "--state", "failed", "--lane", "l", "--yes"], "lanes"),
        (["pause", "q"], "paused queues"),
        (["pause", "q", "--lane", "l"], "lanes"),
        (["resume", "q"], "paused queues"),
        (["resume", "q", "--all-lanes"], "lanes"),
        (["configure", "q", "--max-length", "5"], "a maximum length"),
        (["configure", "q", "--lane-failure", "park"], "lanes"),
        (["quiet", "w"], "quiet workers"),
        (["info", "--namespace", "shop"], "--namespace needs the native protocol"),
        (["info", "item"], "'item' is the name of a key"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_protocol_has_not_is_said(bench: Bench, cli: Cli, args: list[str], words: str) -> None:
    bench.run(bench.engine.enqueue([NewJob("q", "held", b"x")]))
    assert bench.run(bench.engine.lease("w", ["q"], 1)).leases
    out, err = cli(*args, expect=2)
    assert out == ""
    assert err.startswith("Error: ")
    assert words in err
    assert "redis-work-queue" in err or "prefix" in err


def test_a_retry_beside_a_later_item_says_that_it_has_the_id(bench: Bench, cli: Cli) -> None:
    bench.put("a")
    bench.settle(bench.take_one(), Failed(BOOM))
    bench.foreign_add("a")
    assert "another job has its id now, and waits or is held." in cli("retry", "default", "a", expect=1)[1]


def test_cancelling_all_leaves_what_runs(bench: Bench, cli: Cli) -> None:
    bench.put("held", "a", "b")
    bench.take_one()
    out, err = cli("cancel", "default", "--all", "--yes")
    assert out == "Queue 'default': 2 jobs cancelled.\n"
    assert "Held by workers and not cancelled: 1 job." in err
    out, err = cli("cancel", "default", "--all", "--yes", expect=1)
    assert "There are no jobs of queue 'default' that are ready or scheduled or unroutable;" in err
    assert bench.state("held") is State.ACTIVE


def test_the_protocol_by_an_option_and_by_an_app(
    bench: Bench, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TENURE_PROTOCOL")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "wire_cli_app.py").write_text(
        "from tenure import Tenure, RedisWorkQueue\n"
        "app = Tenure(protocol=RedisWorkQueue('jobs', queues={'images': 'pictures'}))\n"
    )
    by_app, by_option = ("--app", "wire_cli_app:app"), ("--protocol", "redis-work-queue:pictures")
    bench.command("SET", "pictures:item:a", "x")
    bench.command("LPUSH", "pictures:queue", "a")
    assert shown(cli, "jobs", "images", *by_app)["totals"]["ready"] == 1
    assert shown(cli, "jobs", "default", *by_option)["totals"]["ready"] == 1
    assert shown(cli, "jobs", "images")["totals"]["ready"] == 0, "the native protocol, where nothing is said"
    cli("enqueue", "wire_cli_app:app", "--queue", "images", "--payload", "y", "--id", "b")
    assert bench.command("LRANGE", "pictures:queue", 0, -1) == [b"b", b"a"]
    _, err = cli("info", *by_app, *by_option, expect=2)
    assert "wire_cli_app:app sets another value than --protocol" in err
    _, err = cli("info", "--protocol", "redis-work-queue", expect=2)
    assert "redis-work-queue:PREFIX" in err


def test_clean(bench: Bench, cli: Cli) -> None:
    bench.foreign_add("taken")
    bench.foreign_pop()
    bench.foreign_push("ghost")
    bench.foreign_pop()
    bench.foreign_item("unlisted")
    first = shown(cli, "clean", "default", "--deep", "--grace", "0.01")
    assert (first["looked"], first["requeued"], first["dropped"], first["noted"]) == (4, 2, 1, 0)
    assert set(first) == told("`clean`")
    assert sorted(bench.queue()) == [b"taken", b"unlisted"]
    bench.foreign_pop()
    out, err = cli("clean", "default", "--grace", "0")
    assert out == "Queue 'default': 1 checked, 1 returned, 0 dropped.\n"
    assert err == ""
    _, err = cli("clean", "emails", "--protocol", "native", expect=2)
    assert "needs a queue of redis-work-queue" in err


def test_clean_takes_the_grace_of_the_protocol(bench: Bench, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    bench.foreign_add("a")
    bench.foreign_pop()
    found = shown(cli, "clean", "default", "--protocol", f"redis-work-queue:{P}?grace=7")
    assert (found["requeued"], found["noted"]) == (0, 1)
    (waited,) = waits
    assert 7 < waited < 8
    _, err = cli("clean", "default", "--protocol", f"redis-work-queue:{P}?gracious=7", expect=2)
    assert "?queues.NAME=VALUE&grace=NUMBER" in err
    _, err = cli("clean", "default", "--grace", "nan", expect=2)
    assert "'--grace': 'nan' is not a duration" in err


def test_migrate(bench: Bench, cli: Cli) -> None:
    bench.put("held", "a", "b")
    bench.take_one()
    native = PartitionedEngine("shop")
    bench.run(native.enqueue([NewJob("images", "a", b"another", own_id=True)]))
    args = ("migrate", "default", "--to", "images", "--namespace", "shop")
    _, err = cli(*args, expect=2)
    assert "It moves every waiting job of the queue, 2 at present. Without a terminal to ask at, pass --yes" in err
    assert [one.id for one in bench.run(native.page("images", State.READY)).jobs] == ["a"]
    seen = shown(cli, *args, "--yes", expect=1)
    assert set(seen) == told("`migrate`")
    assert (seen["moved"], seen["left"], seen["refused"]) == (1, {"ready": 1, "active": 1}, ["a"])
    assert "waits for a worker already" in cli("retry", "default", "a", expect=1)[1]
    bench.run(native.discard("images", "a"))
    out, err = cli(*args, "--yes")
    assert out == "Queue 'default': 1 job moved to queue 'images' of the native protocol, namespace 'shop'.\n"
    assert err == "Note: Left: 1 held by workers.\n"
    assert [one.id for one in bench.run(native.page("images", State.READY)).jobs] == ["b", "a"]
    assert bench.processing() == [b"held"]


def test_migrate_fills_the_room_that_there_is(bench: Bench, cli: Cli) -> None:
    native = PartitionedEngine("shop")
    bench.run(native.configure("images", max_length=5))
    bench.put(*(f"i{n}" for n in range(7)))
    _, err = cli("migrate", "default", "--to", "images", "--namespace", "shop", "--yes", expect=1)
    assert "5 of at most 5 jobs (max_length)" in err
    assert "5 jobs moved; the others wait where they were." in err
    assert bench.queue() == [b"i5", b"i6"]


def test_migrate_into_a_full_queue_names_what_cannot_move_at_all(bench: Bench, cli: Cli) -> None:
    native = PartitionedEngine("shop")
    bench.run(native.enqueue([NewJob("images", "i0", b"another", own_id=True)]))
    bench.run(native.configure("images", max_length=3))
    bench.put(*(f"i{n}" for n in range(7)))
    _, err = cli("migrate", "default", "--to", "images", "--namespace", "shop", "--yes", expect=1)
    assert "2 jobs moved; the others wait" in err
    assert "the id is taken in queue 'images'" in err
    assert "the first is 'i0'" in err


def test_migrate_names_what_cannot_move(bench: Bench, cli: Cli) -> None:
    bench.foreign_add("@x")
    bench.put("a")
    out, err = cli("migrate", "default", "--to", "images", "--namespace", "shop", "--yes", expect=1)
    assert "1 job moved" in out
    assert "1 job stayed: the id cannot be used in the native protocol" in err
    assert "the first is '@x'" in err
    assert bench.queue() == [b"@x"]


def test_a_user_with_just_the_rights_that_are_needed(bench: Bench, cli: Cli) -> None:
    words = shown(cli, "check", "--acl", "app")["acl"]
    bench.command(*(word.replace(">PASSWORD", ">pw") for word in words))
    url = bench.server.url.replace("unix://", "unix://app:pw@")
    driver = SyncDriver(url)
    try:
        assert not {one["level"] for one in shown(cli, "check", "--url", url)["findings"]} & {"error", "unknown"}
        engine = bench.engine
        driver.run(engine.enqueue([NewJob("default", "a", b"x")]))
        leases = driver.run(bench.wait_and_claim()).leases
        assert [one.record.id for one in leases] == ["a"]
        driver.run(engine.heartbeat("w", ["default"], [one.ref for one in leases]))
        driver.run(engine.maintain(["default"], []))
        assert driver.run(engine.settle([(one, Completed(b"", 0)) for one in leases])) == [True]
        driver.run(engine.enqueue([NewJob("default", "taken", b"x")]))
        bench.foreign_pop()
        bench.foreign_item("unlisted")
        cli("clean", "default", "--deep", "--grace", "0.01", "--url", url)
        assert sorted(bench.queue()) == [b"taken", b"unlisted"]
        bench.command("DEL", "jobs:queue", "jobs:item:taken", "jobs:item:unlisted")
        client = redis.Redis.from_url(url)
        theirs = WorkQueue(KeyPrefix("jobs"))
        theirs.add_item(client, Item(b"y", "b"))
        item = theirs.lease(client, 5, block=False)
        assert item is not None
        assert theirs.complete(client, item)
        client.close()
        out, _ = cli("check", "--url", url, "--protocol", "redis-work-queue:other", expect=1)
        assert "lacks rights: ~other ~other:*." in out
        bench.command("ACL", "SETUSER", "app", "resetkeys", "~jobs:*", "-lset", "-blmove")
        out, _ = cli("check", "--url", url, expect=1)
        # Before Redis 7 nobody can try a command that blocks.
        old = b"redis_version:6." in bench.command("INFO", "server")
        assert ("+lset ~jobs." if old else "+lset +blmove ~jobs.") in out
    finally:
        driver.close()
        bench.command("ACL", "DELUSER", "app")
    assert bench.command("KEYS", "*probe*") == []


def test_a_user_who_may_not_write_the_other_queue_takes_nothing_out(bench: Bench, cli: Cli) -> None:
    bench.command("ACL", "SETUSER", "app", "on", ">pw", "resetchannels", "resetkeys", "+@all", "~jobs*")
    bench.put("a")
    try:
        url = bench.server.url.replace("unix://", "unix://app:pw@")
        _, err = cli("migrate", "default", "--namespace", "shop", "--yes", "--url", url, expect=1)
    finally:
        bench.command("ACL", "DELUSER", "app")
    assert "lacks rights that are needed: ~{shop:*" in err
    assert "Nothing was moved" in err
    assert bench.queue() == [b"a"]
    bench.audit()
