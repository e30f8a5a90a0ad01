"""Every operation is cut at every call that it makes, in every way; then only `maintain` may help.

Each operation names how many calls it makes: a second round trip, between which a crash might leave work nowhere,
cannot come in unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.job import NewJob
from tenure.core.steps import Command, Invoke, Reply
from tenure.redis.wire import SLOW_BYTES_PER_S
from tenure.settings import MAX_PATIENCE_MS, MAX_REPLY_TIMEOUT_MS
from tests.faults.limit_operations import LIMIT_READING, LIMIT_WRITING, limit_scene
from tests.faults.matrix import (
    QUEUES,
    Operation,
    Scene,
    check_nothing_is_lost,
    comparable,
    recover,
    run,
    through,
)
from tests.faults.plain_operations import PLAIN_READING, PLAIN_WRITING, plain_scene
from tests.faults.saved_scenes import SavedScenes
from tests.faults.schedule_operations import SCHEDULE_READING, SCHEDULE_WRITING, schedule_scene
from tests.faults.shape_operations import SHAPE_READING, SHAPE_WRITING
from tests.faults.shape_scene import shape_scene
from tests.support.stepping import Crashed, Send, Session, attempt, repeated, send_with, sent_again, step
from tests.support.world import World

# The answers that Redis remembers for the session of ARGV[1] become older by ARGV[2] ms.
AGE = """
redis.call('DEL', 'nothing') -- so that it runs at the memory limit as well
for _, name in ipairs(redis.call('KEYS', ARGV[1])) do
  redis.call('PEXPIRE', name, redis.call('PTTL', name) - ARGV[2])
end
"""
LARGEST_MS = limits.MAX_PAYLOAD_CEILING * limits.SECOND // SLOW_BYTES_PER_S
"""A large call is given so much more time for its reply."""
LONGEST_MS = MAX_PATIENCE_MS + 2 * (MAX_REPLY_TIMEOUT_MS + LARGEST_MS)
"""The first attempt waits for its reply, then attempts are made while the patience lasts; the last waits, too."""

SCENES = (
    (plain_scene, PLAIN_WRITING, PLAIN_READING),
    (limit_scene, LIMIT_WRITING, LIMIT_READING),
    (shape_scene, SHAPE_WRITING, SHAPE_READING),
    (schedule_scene, SCHEDULE_WRITING, SCHEDULE_READING),
)


def cases(operations: Mapping[str, Operation], setting: Callable[[World], Scene]) -> list[Any]:
    return [
        pytest.param(setting, operation, k, id=f"{name}, call {k}")
        for name, operation in operations.items()
        for k in range(1, operation.calls + 1)
    ]


READING = [
    pytest.param(setting, operation, id=name) for setting, _, reading in SCENES for name, operation in reading.items()
]
WRITING_CALLS = [case for setting, writing, _ in SCENES for case in cases(writing, setting)]
CALLS = WRITING_CALLS + [case for setting, _, reading in SCENES for case in cases(reading, setting)]


@pytest.fixture(scope="module")
def scenes() -> SavedScenes:
    return SavedScenes()


@pytest.fixture
def scene(world: World, scenes: SavedScenes, setting: Callable[[World], Scene]) -> Scene:
    return scenes.scene(world, setting)


@pytest.mark.parametrize(("setting", "operation"), READING)
def test_an_operation_makes_no_more_calls_than_it_says(scene: Scene, operation: Operation) -> None:
    """Those that write are counted where each of their calls is sent twice."""
    made = []

    def count(number: int, call: Command | Invoke, send: Send) -> Reply:
        made.append(number)
        return send(call)

    run(scene, operation, count)
    assert len(made) == operation.calls
    scene.world.audit()


@pytest.mark.parametrize(("setting", "operation", "k"), CALLS)
def test_a_crash_leaves_every_job_where_maintain_finds_it(scene: Scene, operation: Operation, k: int) -> None:
    """The process dies after a call and before its reply: for Redis the same as before the next call."""
    world = scene.world

    def crash(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number < k:
            return send(call)
        attempt(send, call)
        raise Crashed

    with pytest.raises(Crashed):
        run(scene, operation, crash)
    world.audit()
    recover(scene)
    world.audit()
    check_nothing_is_lost(scene, operation)


@pytest.mark.parametrize(("setting", "operation", "k"), WRITING_CALLS)
def test_a_call_that_is_sent_again_does_and_answers_the_same(scene: Scene, operation: Operation, k: int) -> None:
    """Also when it is sent again as late as a client's settings allow."""
    world, nonces, made = scene.world, Session("the-session"), []

    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        made.append(number)
        reply = send(call)
        if number != k:
            return reply
        before = world.entry.timeless(world.dump())
        world.command("EVAL", AGE, 0, f"*:{nonces.name}", LONGEST_MS)
        again = sent_again(call, reply, send)
        if isinstance(call, Invoke) and call.script.name == "maintain":
            assert again[:4] == [0, 0, 0, 0]
        else:
            assert comparable(call, again) == comparable(call, reply)
        assert world.entry.timeless(world.dump()) == before
        return again

    run(scene, operation, twice, nonces)
    assert len(made) == operation.calls
    world.audit()
    recover(scene)
    check_nothing_is_lost(scene, operation)


@pytest.mark.parametrize(("setting", "operation", "k"), WRITING_CALLS)
def test_a_copy_that_arrives_late_changes_nothing(scene: Scene, operation: Operation, k: int) -> None:
    """The call was sent again, the session has made its next call, and now the first copy comes in.

    A second copy comes in when others have gone on as well.
    """
    world, late = scene.world, []
    nonces = Session("s")

    def keep(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number == k:
            late.append(repeated(call))
        return send(call)

    run(scene, operation, keep, nonces)
    # Whatever room the operation has left: the next call of its session must be made.
    world.run(world.engine.settings.configure("q", max_length=0))
    following = world.engine.enqueue([NewJob("q", "next", b""), NewJob("p", "next", b"")])
    step(following, nonces, send_with(world.driver), through)
    (call,) = late
    _check_it_comes_late(world, call)
    world.run(world.engine.leave("w", QUEUES))
    world.take(5, "else", QUEUES)
    _check_it_comes_late(world, call)
    recover(scene)
    world.audit()


def _check_it_comes_late(world: World, call: Command | Invoke) -> None:
    assert isinstance(call, Invoke)
    harmless = call.script.name in {"heartbeat", "maintain", "extend", "announce", "register", "progress"}
    harmless = harmless or call.script.name in {"schedule_announce", "partitions"}
    before = world.dump()
    _, error = attempt(send_with(world.driver), call)
    assert error is None or error.prefix == "TNSTALE"
    if not harmless:
        assert world.dump() == before
    world.audit()
