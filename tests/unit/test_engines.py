"""What engines share, without a Redis: calls cut to size, queues that are refused, scripts that are put together."""

from typing import Any

import pytest
from msgspec.structs import replace

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import AccessDenied, QueueFull, ReplyError, Unreachable, UnsupportedFeature
from tenure.core.job import JobRecord, Lease, NewJob
from tenure.core.outcome import Completed
from tenure.core.ports import needed
from tenure.core.shape import Shape, UniqueRule
from tenure.core.steps import Arg, Draw, Invoke, Nonce
from tenure.core.unsupported import check_job
from tenure.engines.kit.chunks import JOB_BYTES, Failures, Part, chunks, sooner, weight_of
from tenure.engines.native import NativeEngine
from tenure.engines.native import scripts as native
from tenure.engines.native.engine import FULL_CALLS, MORE, MORE_NOW
from tenure.engines.redis_work_queue import RedisWorkQueueEngine
from tenure.engines.redis_work_queue import scripts as redis_work_queue
from tests.support.engines import ENTRIES, Entry, Options


def run(steps, answer):
    """Run an operation; `answer(call)` is the reply to a script, or raises what Redis answered."""
    call = next(steps)
    try:
        while True:
            try:
                reply = Nonce("s", 1) if isinstance(call, Draw) else answer(call)
            except Exception as error:
                call = steps.throw(error)
                continue
            call = steps.send(reply)
    except StopIteration as stop:
        return stop.value


def lengths(*parts):
    """How many of these parts, (size, weight), are in each call."""
    return [len(chunk) for chunk in chunks([Part(n, (), *part) for n, part in enumerate(parts)])]


def test_calls_are_cut_by_what_they_cost():
    most = limits.MAX_BATCH
    assert lengths() == []
    assert lengths(*[(0, 1)] * (most + 1)) == [most, 1]
    assert lengths(*[(JOB_BYTES - 1, 1)] * (most + 1)) == [most, 1]
    assert lengths(*[(JOB_BYTES, 1)] * (most + 1)) == [most // 2, most // 2, 1]
    assert lengths(*[(0, 5)] * (most + 1)) == [most // 5] * 5 + [1]


def test_one_job_that_is_more_than_a_call_is_alone():
    large = limits.MAX_BATCH * JOB_BYTES
    assert lengths((0, 1), (large, 1), (0, 1), (0, 1)) == [1, 1, 2]
    assert lengths((large, 1)) == lengths((0, 2 * limits.MAX_BATCH)) == [1]


@pytest.mark.parametrize(
    "shape",
    [Shape(lane="l"), Shape(priority=-1), Shape(unique=UniqueRule("k")), Shape(lane="l", unique=UniqueRule("k"))],
)
def test_a_job_with_a_shape_counts_as_several(shape):
    assert weight_of(Shape()) == 0 < weight_of(shape)
    engine, made = NativeEngine("n"), []

    def answer(call):
        made.append(call.script.name)
        return b"" if call.script.name == "partitions" else b"1" * limits.MAX_BATCH

    run(engine.enqueue([NewJob("q", f"{n}", b"", shape=shape) for n in range(limits.MAX_BATCH)]), answer)
    assert len(made) > 2, "the queue is registered, and a plain job would need one call"


def test_the_full_script_is_called_for_what_the_plain_one_refuses_and_then_for_a_while():
    engine, made, answers = NativeEngine("n"), [], [MORE_NOW, MORE]

    def answer(call):
        if call.script.name == "partitions":
            return b""
        made.append((call.script.name, call.args))
        return answers.pop(0) if call.script.name == "claim" and answers else [-1, [], [], 0, 0]

    def claim(times=1):
        made.clear()
        for _ in range(times):
            run(engine.lease("w", ["q"], 1), answer)
        return [name for name, _ in made]

    assert claim() == ["claim", "claim_full"]
    assert made[0][1] == made[1][1], "the same call, under the same nonce"
    assert claim() == ["claim", "claim_full"], "only that call was more than plain"
    assert claim(FULL_CALLS) == ["claim_full"] * FULL_CALLS
    assert claim() == ["claim"]


def test_the_sooner_of_two_times():
    assert [sooner(1, 2), sooner(2, 1), sooner(None, 2), sooner(0, None), sooner(None, None)] == [1, 1, 2, 0, None]


def asking(reply):
    answered = yield Invoke(native.SCRIPTS["show"], ("{n:q}",), ())
    return answered if reply is None else reply


def test_the_first_refusal_is_raised_at_the_end():
    failures = Failures()

    def refuse(call):
        raise AccessDenied("first" if not failures._first else "second")

    assert run(failures.guard(asking(None)), refuse) is None
    assert run(failures.guard(asking(None)), refuse) is None
    assert run(failures.guard(asking(7)), lambda call: None) == 7
    with pytest.raises(AccessDenied, match="first"):
        failures.end()


def test_a_redis_that_is_away_is_away_for_all_queues():
    def away(call):
        raise Unreachable("gone")

    with pytest.raises(Unreachable):
        run(Failures().guard(asking(None)), away)


@pytest.mark.parametrize("sent", [0, 1])
def test_a_queue_that_is_full_says_what_the_others_have_got(sent):
    def answer(call):
        if call.script.name == "enqueue" and call.keys == ("{tenure:full}",):
            raise ReplyError("TNFULL", "TNFULL 5 5 1")
        return b"" if call.script.name == "partitions" else b"1"

    jobs = [NewJob("free", "a", b"")] * sent + [NewJob("full", "b", b"")]
    with pytest.raises(QueueFull) as caught:
        run(NativeEngine().enqueue(jobs), answer)
    assert "Nothing was added to it." in str(caught.value)
    assert ("Of 2 jobs, 1 had been enqueued before that." in str(caught.value)) == bool(sent)


def test_what_a_protocol_lacks_is_refused_by_name():
    check_job("old", set(Feature), NewJob("q", "a", b"1"))
    for feature, job in (
        (Feature.DELAY, NewJob("q", "a", b"1", delay_ms=1)),
        (Feature.DELAY, NewJob("q", "a", b"1", run_at_ms=1)),
        (Feature.OWN_ID, NewJob("q", "a", b"1", own_id=True)),
        (Feature.TASKS, NewJob("q", "a", b"1", task="t")),
        (Feature.TIMEOUT, NewJob("q", "a", b"1", timeout_ms=0)),
        (Feature.RETRIES, NewJob("q", "a", b"1", retries=0)),
        (Feature.HEADERS, NewJob("q", "a", b"1", headers={"a": ""})),
        (Feature.LANES, NewJob("q", "a", b"1", shape=Shape("L"))),
        (Feature.LANE_POLICIES, NewJob("q", "a", b"1", shape=Shape(lane_limit=2))),
        (Feature.PRIORITIES, NewJob("q", "a", b"1", shape=Shape(priority=1))),
        (Feature.UNIQUE, NewJob("q", "a", b"1", shape=Shape(unique=UniqueRule("a:0")))),
        (Feature.PERSISTENT, NewJob("q", "a", b"1", shape=Shape(persistent=True))),
    ):
        check_job("old", set(Feature) - {feature}, job)
        with pytest.raises(UnsupportedFeature, match=f"'old' does not support {feature.label} .feature '{feature}'"):
            check_job("old", {feature}, job)
    check_job("old", {Feature.TEXT}, NewJob("q", "a", b' {"a": [1, null]} '))
    check_job("old", {Feature.TEXT}, NewJob("q", "a", b"no JSON", task="t"))
    for payload in (b"no JSON", b"", b"\xff", b'{"a":1} 2', b"[" * 100_000):
        with pytest.raises(UnsupportedFeature, match="raw payloads that are not JSON"):
            check_job("old", {Feature.TEXT}, NewJob("q", "a", payload))
    check_job("old", {Feature.BYTES}, NewJob("q", "a", "é".encode()))
    check_job("old", {Feature.BYTES}, NewJob("q", "a", b"\xff", task="t"))
    with pytest.raises(UnsupportedFeature, match="feature 'bytes'"):
        check_job("old", {Feature.BYTES}, NewJob("q", "a", b"\xff"))
    keyed = NewJob("q", "a", b"1", shape=Shape(unique=UniqueRule("k:mine")))
    with pytest.raises(UnsupportedFeature, match="feature 'unique_keys'"):
        check_job("old", {Feature.UNIQUE_KEYS}, keyed)
    with pytest.raises(UnsupportedFeature, match="'redis-work-queue' does not support quiet workers"):
        needed("redis-work-queue", RedisWorkQueueEngine("p").presence, Feature.QUIET)


def test_engines_share_the_operations_that_they_do_not_have_themselves():
    assert native.SCRIPTS["announce"] == redis_work_queue.SCRIPTS["announce"]
    assert native.SCRIPTS["settle"] != redis_work_queue.SCRIPTS["settle"]


def test_a_library_stands_once_in_a_script_and_speaks_the_words_of_the_engine():
    ours, theirs = native.SCRIPTS["settle_full"].text, redis_work_queue.SCRIPTS["settle"].text
    assert ours.count("local function clock()") == ours.count("local lazy =") == 1
    assert "key('call:' .. session)" in ours
    assert "key('done:' .. session)" in theirs


PORTS = {
    "results": (Feature.RESULTS, Feature.PROGRESS),
    "schedules": (Feature.SCHEDULES,),
    "limits": (Feature.LIMITS, Feature.SHARES),
    "lanes": (Feature.LANES,),
    "delays": (Feature.DELAY,),
    "settings": (Feature.PAUSE,),
    "partitions": (Feature.PARTITIONS,),
    "history": (Feature.HISTORY,),
    "presence": (Feature.QUIET, Feature.STACKS),
}
"""The features that a port stands for. An engine has all of them or none."""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_engine_has_just_the_ports_of_the_features_that_it_declares(entry: Entry) -> None:
    engine = entry.make("test", Options())
    for port, features in PORTS.items():
        for feature in features:
            assert (getattr(engine, port) is not None) == (feature in entry.features), (port, feature)


def test_an_engine_gives_its_own_keys_to_every_call_about_a_queue() -> None:
    class Odd(NativeEngine):
        def _call(self, script: str, queue: str, args: tuple[Arg, ...]) -> Invoke:
            return replace(super()._call(script, queue, args), keys=(f"jobs-{queue}", "shared"))

    keys: list[tuple[str, ...]] = []

    def answer(call: Any) -> Any:
        keys.append(call.keys)
        if call.script.name == "partitions":
            return b""
        return [-1, [], [], 0] if call.script.name == "claim" else [[], [], -1] if "beat" in call.script.name else b"1"

    engine = Odd()
    job = NewJob("q", "a", b"")
    lease = Lease("w", 1, JobRecord("a", "q", b"", 0), 0, 0)
    for steps in (
        engine.enqueue([job]),
        engine.lease("w", ["q"], 1),
        engine.heartbeat("w", ["q"], []),
        engine.settle([(lease, Completed(b"", 0))]),
        engine.discard("q", "a"),
    ):
        run(steps, answer)
    assert keys[0] == (engine.shared(),), "it lists the queue"
    assert set(keys[1:]) == {("jobs-q", "shared")}
