"""What a server tells of itself, and what is made of it. Real ones are asked in tests/acceptance/test_cli_check.py."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import pytest

from tenure.core.errors import AccessDenied, QueueFull
from tenure.core.steps import Command
from tenure.engines.kit.scripts import lua_files
from tenure.engines.native import rights as native
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.engines.redis_work_queue import rights as redis_work_queue
from tenure.manage.preflight import Finding, Inspection, Level, combined, fields_of, judge, log
from tenure.protocols.registry import rights_of
from tests.support.checking import inspection

FIT = {
    "redis_version": "7.0.15",
    "redis_mode": "standalone",
    "role": "master",
    "maxmemory_policy": "noeviction",
    "aof_enabled": "1",
}


def test_findings_of_several_servers_name_those_that_differ() -> None:
    fit, worse = judge(FIT), judge({**FIT, "maxmemory_policy": "allkeys-lru"})
    one = combined([("a:1", fit), ("b:1", fit)])
    assert one.findings == fit.findings
    found = combined([("a:1", fit), ("b:1", worse), ("c:1", fit)])
    assert [str(error) for error in found.errors] == [
        str(error).replace("Redis may", "At b:1: Redis may") for error in worse.errors
    ]
    assert [one.name for one in found.findings].count("version") == 1


def found(name: str, **changes: str) -> Finding:
    return next(one for one in judge({**FIT, **changes}).findings if one.name == name)


@pytest.mark.parametrize(
    ("name", "changes", "level", "words"),
    [
        ("version", {"redis_version": "6.0.16"}, Level.ERROR, "must be 6.2 or newer"),
        ("version", {"redis_version": "6.2.0"}, Level.OK, "6.2.0"),
        ("version", {"redis_version": "99.1.0"}, Level.WARNING, "knows versions up to"),
        ("version", {"redis_version": "unstable"}, Level.OK, "unstable"),
        (
            "version",
            {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1"},
            Level.OK,
            "Valkey 8.1",
        ),
        ("role", {"role": "slave"}, Level.ERROR, "replica"),
        ("role", {"connected_slaves": "1"}, Level.OK, "1 replica."),
        ("mode", {"cluster_enabled": "1"}, Level.ERROR, "cluster"),
        ("mode", {"redis_mode": "sentinel"}, Level.ERROR, "redis+sentinel://"),
        ("eviction", {"maxmemory_policy": "allkeys-lru"}, Level.ERROR, "as soon as its memory has a limit"),
        ("eviction", {"maxmemory_policy": "volatile-ttl", "maxmemory": "100"}, Level.ERROR, "when its memory is full"),
        ("memory", {"used_memory": "89", "maxmemory": "100"}, Level.OK, ""),
        ("memory", {"used_memory": "900", "maxmemory": "1024"}, Level.OK, "900 B of 1.0 KB"),
        ("memory", {"used_memory": "1", "maxmemory": "104857"}, Level.OK, "1 B of 102.4 KB"),
        ("memory", {"used_memory": "5242880", "maxmemory": "3221225472"}, Level.OK, "5.0 MB of 3.0 GB"),
        ("memory", {"used_memory": "90", "maxmemory": "100"}, Level.WARNING, "raise `maxmemory`"),
        ("connections", {"connected_clients": "90", "maxclients": "100"}, Level.WARNING, "maxclients"),
        ("connections", {"connected_clients": "odd", "maxclients": "100"}, Level.OK, "0 of 100"),
    ],
)
def test_what_is_made_of_it(name, changes, level, words):
    one = found(name, **changes)
    assert (one.level, words in str(one)) == (level, True), one
    assert bool(one.remedy) == (level is not Level.OK)


def test_a_server_that_tells_nothing_is_not_refused():
    assert judge({}).errors == ()


def test_who_knows_that_jobs_may_be_thrown_away_may_say_so():
    evicts = judge({**FIT, "maxmemory_policy": "allkeys-lru"})
    assert len(evicts.refusals()) == 1
    assert evicts.refusals(allow_eviction=True) == ()
    replica = judge({**FIT, "maxmemory_policy": "allkeys-lru", "role": "slave"})
    assert [text for text in replica.refusals(allow_eviction=True) if "replica" not in text] == []
    assert len(replica.refusals(allow_eviction=True)) == 1
    assert evicts.errors == tuple(map(str, (one for one in evicts.findings if one.level is Level.ERROR)))


def test_what_is_not_as_it_should_be_is_an_event_of_the_log(caplog):
    log(judge({**FIT, "redis_version": "99.1.0"}))
    assert [record.tenure_parts[0] for record in caplog.records] == ["check_failed"]
    _, fields = caplog.records[0].tenure_parts
    assert (fields["about"], fields["remedy"]) == ("version", "Check for a newer Tenure.")
    assert "99.1.0" in fields["found"]


class Server:
    """Answers commands as a server would. Each TIME takes `took` seconds, and its clock is `ahead` of ours."""

    def __init__(self, info: dict[str, str], *, took: Iterable[float] = (), ahead: float = 0.0) -> None:
        self.info, self.ahead = info, ahead
        self.took = iter(took)
        self.now = 1_000_000.0
        self.denied: set[str] = set()
        self.refused: QueueFull | None = None

    def run(self) -> Inspection:
        steps = inspection(rights_of(PartitionedEngine("shop")), wall=lambda: self.now, clock=lambda: self.now)
        call: Any = next(steps)
        while True:
            try:
                words = call.args if isinstance(call, Command) else ("EVAL",)
                if words[0] in self.denied:
                    text = f"NOPERM this user has no permissions to run the '{words[0].lower()}' command"
                    call = steps.throw(AccessDenied(text))
                elif words[0] == "PING" and self.refused is not None:
                    call = steps.throw(self.refused)
                else:
                    call = steps.send(self.reply(words))
            except StopIteration as stop:
                return stop.value

    def reply(self, words: tuple[Any, ...]) -> Any:
        match words[0]:
            case "INFO":
                return "\r\n".join(["# Server", *(f"{name}:{value}" for name, value in self.info.items())]).encode()
            case "CONFIG":
                return [words[2].strip("*").encode(), b""]
            case "TIME":
                took = next(self.took, 0.001)
                self.now += took / 2
                at = self.now + self.ahead
                self.now += took / 2
                return [str(int(at)).encode(), str(int(at % 1 * 1_000_000)).encode()]
            case "EVAL":
                return [[], []]
            case "BLPOP":
                return None
        return b"PONG"


def named(seen: Inspection, name: str) -> Finding:
    return next(one for one in seen.findings if one.name == name)


@pytest.mark.parametrize(
    ("ahead", "level", "words"),
    [
        (0.0, Level.OK, "0.0 ms"),
        (1.9, Level.OK, "1.9 s ahead of"),
        (-1.9, Level.OK, "1.9 s behind"),
        (3600.0, Level.WARNING, "3,600.0 s ahead of"),
        (-7200.0, Level.WARNING, "7,200.0 s behind"),
    ],
)
def test_clocks_that_are_apart(ahead, level, words):
    one = named(Server(FIT, ahead=ahead).run(), "clock")
    assert (one.level, words in one.found) == (level, True), one


def test_a_slow_answer_does_not_put_the_clocks_apart():
    one = named(Server(FIT, took=[9.0] * 9).run(), "clock")
    assert one.level is Level.OK


def test_latency():
    assert named(Server(FIT, took=[0.001] * 9 + [5.0]).run(), "latency").level is Level.OK
    slow = named(Server(FIT, took=[0.05] * 10).run(), "latency")
    assert slow.level is Level.WARNING
    assert "takes 50.0 ms, the longest of 10 took 50.0 ms" in slow.found


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"aof_enabled": "0"}, "a crash of Redis loses jobs"),
        ({"aof_last_write_status": "err"}, "could not write the append-only file"),
        ({"rdb_last_bgsave_status": "err"}, "could not write a snapshot"),
    ],
)
def test_persistence(info, words):
    one = named(Server({**FIT, **info}).run(), "persistence")
    assert (one.level, words in one.found) == (Level.WARNING, True)


def test_a_replica_is_not_asked_for_more():
    assert "rights" not in {one.name for one in Server({**FIT, "role": "slave"}).run().findings}


def test_who_may_not_ask():
    server = Server(FIT)
    server.denied = {"INFO", "CONFIG"}
    seen = server.run()
    assert named(seen, "server").level is Level.UNKNOWN
    assert seen.errors == ()
    server.denied = {"EVAL"}
    assert "+eval +evalsha" in named(server.run(), "rights").found
    server.denied = {"TIME"}
    assert named(server.run(), "clock").level is Level.UNKNOWN
    server.denied = {"PING"}
    with pytest.raises(AccessDenied):
        server.run()


def test_a_server_that_refuses_writes_is_no_reason_not_to_start():
    server = Server(FIT)
    server.refused = QueueFull("Redis refused to write: MISCONF. Look at its log.")
    server.refused.found, server.refused.remedy = "Redis refused to write: MISCONF.", "Look at its log."
    seen = server.run()
    one = named(seen, "writes")
    assert (one.level, one.found, one.remedy) == (Level.ERROR, server.refused.found, server.refused.remedy)
    assert seen.errors == (str(one),)
    assert seen.refusals() == ()
    assert named(seen, "rights").level is Level.OK, "what only looks is answered"


def test_a_server_that_tells_no_settings_is_no_error():
    server = Server(FIT)
    server.denied = {"CONFIG"}
    assert named(server.run(), "persistence").level is Level.OK


@pytest.mark.parametrize("engine", [native, redis_work_queue])
def test_all_commands_of_the_scripts_are_asked_for(engine):
    folders = (files(engine.__package__) / "lua", files("tenure.engines.kit") / "lua")
    texts = [part.read_text() for folder in folders for part in lua_files(folder).values()]
    used = {name for text in texts for name in re.findall(r"call\(\s*'([A-Z]+)'", text)}
    words = (*engine.NEEDED, *engine.NO_KEY, *getattr(engine, "ONE_WORD", ()))
    asked = {example.split()[0] for example in words} | {"PUBLISH"}
    assert len(used) > 35
    assert used - asked == set()


def test_fields():
    assert fields_of(b"# Server\r\nredis_version:7.0.15\r\nexecutable:/a:b\r\n\r\nodd\r\n") == {
        "redis_version": "7.0.15",
        "executable": "/a:b",
    }
