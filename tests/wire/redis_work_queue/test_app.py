"""An app on queues of redis-work-queue: what it writes, what it refuses, and what its worker leaves to others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tenure import RedisWorkQueue, Tenure
from tenure.cli import commands
from tenure.cli.errors import run
from tenure.core import limits
from tenure.core.errors import InvalidArgument
from tenure.core.job import ErrorInfo, Lease
from tenure.core.outcome import Broken, Unroutable
from tests.wire.redis_work_queue.bench import Bench


@pytest.fixture
def app(bench: Bench) -> Tenure:
    return Tenure(bench.server.url, protocol=RedisWorkQueue("jobs", queues={"held": "stalled"}))


def test_the_timeout_of_a_handler_does_not_change_what_others_read(bench: Bench, app: Tenure) -> None:
    app.handler("default", timeout=5, retries=7)(lambda job: None)
    with app:
        app.queue("default").enqueue(b"raw", id="a")
        app.queue("default").enqueue_many([b"many"])
        app.queue("default").enqueue(b"own", id="b", timeout=9)
    assert bench.command("GET", "jobs:item:a") == b"raw"
    assert bench.command("GET", b"jobs:item:" + bench.queue()[1]) == b"many"
    assert bench.command("GET", "jobs:item:b") == b'{"tenure":1,"timeout_ms":9000,"text":"own"}'


@pytest.mark.parametrize(
    "say",
    [
        lambda app, queue: app.handler(queue)(lambda job: None),
        lambda app, queue: app.task(queue=queue)(lambda: None),
        lambda app, queue: app.queue(queue),
        lambda app, queue: app.queue_defaults(queue, timeout=5),
    ],
    ids=["handler", "task", "queue", "queue_defaults"],
)
def test_a_queue_that_cannot_lie_there_is_refused_where_it_is_named(
    app: Tenure, say: Callable[[Tenure, str], object]
) -> None:
    for name in ("done", "item", "processing", "queue", "failed", "a:lease"):
        with pytest.raises(InvalidArgument, match="cannot lie under this prefix"):
            say(app, name)
    app.queue("held")  # has a prefix of its own


def test_a_worker_is_refused_a_queue_that_cannot_lie_there_before_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENURE_URL", "unix:///nowhere/redis.sock")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "wire_worker_app.py").write_text(
        "from tenure import Tenure, RedisWorkQueue\n"
        "app = Tenure(protocol=RedisWorkQueue('jobs'))\n"
        "app.handler('default')(lambda job: None)\n"
    )
    assert run(commands, ["worker", "wire_worker_app:app", "-q", "processing"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("Error: The queue 'processing' cannot lie under this prefix")


def test_what_a_worker_has_no_handler_for_is_left_to_others(bench: Bench) -> None:
    bench.foreign_add("raw")
    bench.put("task", task="t")
    for lease in bench.take(1):
        assert bench.settle(lease, Unroutable())
    assert (bench.queue(), bench.lengths()) == ([b"task", b"raw"], (2, 0))
    assert [lease.record.id for lease in bench.take(5)] == ["task"]
    answer = bench.run(bench.engine.lease("w", ["default"], 5))
    assert (answer.leases, answer.next_ms != 0) == ((), True), "it does not ask again at once"
    assert bench.queue() == [b"raw"]
    (other,) = bench.take(5, "has-a-handler")
    assert bench.settle(other)
    bench.audit()


def test_what_a_worker_has_no_handler_for_keeps_its_order_for_others(bench: Bench) -> None:
    ids = [f"r{n}" for n in range(120)]
    for id in ids:
        bench.foreign_add(id)
    for lease in bench.take(1):
        bench.settle(lease, Unroutable())
    before = bench.queue()
    bench.take(5)
    after = bench.queue()
    first = after.index(before[0])
    assert first > 0
    assert after[first:] + after[:first] == before


def test_what_must_be_read_to_be_known_as_raw_is_passed_by_as_well(bench: Bench) -> None:
    data = b'{"tenure":true}'
    bench.foreign_add("a", data)
    assert bench.settle(bench.take_one(), Unroutable())
    bench.foreign_add("b")
    assert bench.take(5) == bench.take(5) == []
    assert (bench.foreign_pop(), bench.foreign_pop()) == (b"a", b"b"), "others get it in its turn"
    bench.foreign_complete("a")
    bench.foreign_reset("b")
    bench.put("a", task="t")
    assert [lease.record.task for lease in bench.take(5)] == ["t"], "another item of the id"
    bench.audit()


def test_another_item_of_the_id_is_not_taken_for_the_raw_one(bench: Bench) -> None:
    bench.foreign_add("a", b'{"tenure":true}')
    assert bench.settle(bench.take_one(), Unroutable())
    bench.command("SET", "jobs:item:a", b'{"tenure":1,"task":"t"}')
    (lease,) = bench.take(5)
    assert lease.record.task == "t"
    assert bench.settle(lease)
    bench.audit()


def test_a_worker_that_can_run_it_takes_what_another_has_passed_by(bench: Bench) -> None:
    bench.foreign_add("a", b'{"tenure":true}')
    assert bench.settle(bench.take_one(), Unroutable())
    lease = bench.take_one("has-a-handler")
    assert (lease.record.payload, lease.attempt) == (b'{"tenure":true}', 1)
    assert bench.settle(lease)
    assert bench.command("EXISTS", "jobs:passing") == 0
    bench.audit()


def pass_by(bench: Bench) -> None:
    """From now on the worker leaves raw payloads to others."""
    bench.foreign_add("first")
    assert bench.settle(bench.take_one(), Unroutable())
    assert bench.foreign_complete(bench.foreign_lease())


def test_an_envelope_that_is_cut_short_is_not_left_to_others(bench: Bench) -> None:
    """A claim that passes raw payloads by takes it, and the worker breaks it with all its data."""
    pass_by(bench)
    data = b'{"tenure":1,"task":"t","args":["cat'
    bench.foreign_add("raw", b'{"x":1}')
    bench.foreign_add("cut", data)
    [lease] = bench.take(5)
    assert (lease.record.id, lease.record.payload) == ("cut", data)
    assert lease.record.malformed
    assert bench.settle(lease, Broken(ErrorInfo("Malformed", lease.record.malformed)))
    assert bench.queue() == [b"raw"]
    bench.audit()


def test_large_payloads_are_passed_by_a_few_at_a_time(bench: Bench) -> None:
    """Redis serves nobody else while they are read. Those that are known as raw are not read again."""
    pass_by(bench)
    ids = [b"%d" % n for n in range(6)]
    for id in ids:
        bench.foreign_add(id, b'{"x":"%s"}' % (b"y" * 600_000))
    assert bench.take(5) == []
    assert bench.queue() == [*ids[2:], *ids[:2]], "two, of 600 kB each, and then no more"
    for _ in range(2):
        assert bench.take(5) == []
    assert bench.queue() == ids
    assert bench.take(5) == []
    assert bench.queue() == ids, "all six, since they are known"


def test_payloads_that_no_envelope_begins_like_are_not_read_at_all(bench: Bench) -> None:
    pass_by(bench)
    bench.foreign_add("task", b'{"tenure":1,"task":"t"}')
    for n in range(10):
        bench.foreign_add(f"r{n}", b"\xff" * 600_000)
    bench.command("LMOVE", "jobs:queue", "jobs:queue", "RIGHT", "LEFT")
    assert [lease.record.id for lease in bench.take(5)] == ["task"]


def test_a_claim_takes_no_more_than_one_call_may_carry(bench: Bench) -> None:
    ids = [f"i{n}" for n in range(6)]
    for id in ids:
        bench.foreign_add(id, b"y" * (limits.MAX_CALL_BYTES // 2))
    assert [lease.record.id for lease in bench.take(5)] == ids[:2]
    assert bench.queue() == [id.encode() for id in ids[2:]]
    assert bench.drain() == ids[2:]


def test_what_waits_behind_many_raw_payloads_is_found_at_once(bench: Bench) -> None:
    """A burst asks again while the answer says 0, so it does not end before it has seen all of the queue."""
    pass_by(bench)
    for n in range(400):
        bench.foreign_add(f"r{n}")
    bench.put("task", task="t")
    bench.foreign_add("behind")

    def look() -> tuple[list[Lease], int]:
        for calls in range(1, 20):
            answer = bench.run(bench.engine.lease("w", ["default"], 5))
            if answer.leases or answer.next_ms != 0:
                return list(answer.leases), calls
        raise AssertionError("it asks again and again")

    (lease,), calls = look()
    assert calls > 1
    bench.put("next", task="t")  # by the job itself
    bench.settle(lease)
    (lease,), _ = look()
    assert lease.record.id == "next"
    bench.settle(lease)
    assert look()[0] == []
    assert look() == ([], 1), "then it takes its time"
