"""Every error reply of the table on every kind of operation: one meaning, nothing done twice, the next call works.

The proxy answers in the server's place, once; the server never sees that call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tenure.core.errors import AccessDenied, QueueFull, ReplyError, TenureError, WrongState
from tenure.core.job import ErrorInfo, Lease, NewJob, State
from tenure.core.outcome import Completed, Retried
from tenure.core.steps import Steps, WaitLost
from tenure.core.waiting import calls_of
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.redis.replies import ACTIONS, Reaction, Redirected
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.conftest import Drive
from tests.redis.operations import command
from tests.redis.proxy import Answer, Proxy
from tests.support.replies import ERROR_REPLIES

pytestmark = pytest.mark.every_server

MakeDrive = Callable[..., Drive]

KINDS = {
    Reaction.FULL: QueueFull,
    Reaction.DENIED: AccessDenied,
    Reaction.WRONG_TYPE: WrongState,
    Reaction.CLUSTER: Redirected,
    Reaction.RAISE: ReplyError,
}


def test_every_prefix_of_the_table_is_tried() -> None:
    assert ACTIONS.keys() <= ERROR_REPLIES.keys()


def action_of(name: str) -> Reaction:
    return Reaction.RECONNECT if name == "max clients" else ACTIONS.get(name, Reaction.RAISE)


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[Proxy]:
    with Proxy(server.socket_path) as proxy:
        yield proxy


def waited(engine: PartitionedEngine) -> Steps[str | None]:
    calls = calls_of(engine.wait("w", ("orders",), 20))
    assert calls is not None
    return calls


class Scene:
    """A queue with a job that is held and one that is ready. `check` counts what an operation has done."""

    def __init__(self, server: RedisServer) -> None:
        self.engine = PartitionedEngine("shop")
        self.direct = SyncDriver(server.url)
        self.direct.run(self.engine.enqueue([NewJob("orders", "first", b"1"), NewJob("orders", "second", b"2")]))
        self.lease: Lease = self.direct.run(self.engine.lease("w", ("orders",), 1)).leases[0]

    def operation(self, name: str) -> Steps[object]:
        engine, refs = self.engine, [self.lease.ref]
        failed = Retried(ErrorInfo("E", "x"), 0)
        return {
            "enqueue": lambda: engine.enqueue([NewJob("orders", "third", b"3", own_id=True)]),
            "claim": lambda: engine.lease("w", ("orders",), 5),
            "complete": lambda: engine.settle([(self.lease, Completed(b"1"))]),
            "retry": lambda: engine.settle([(self.lease, failed)]),
            "extend": lambda: engine.extend(self.lease, 5_000),
            "heartbeat": lambda: engine.heartbeat("w", ("orders",), refs),
            "leave": lambda: engine.leave("w", ("orders",)),
            "maintain": lambda: engine.maintain(("orders",), ()),
            "wait": lambda: waited(engine),
            "look": lambda: engine.queue("orders"),
        }[name]()

    def state(self) -> dict[State, int]:
        counts = self.direct.run(self.engine.queue("orders")).counts
        return {state: count for state, count in counts.items() if count}


OPERATIONS = {
    "enqueue": {State.READY: 2, State.ACTIVE: 1},
    "claim": {State.ACTIVE: 2},
    "complete": {State.READY: 1, State.COMPLETED: 1},
    "retry": {State.READY: 2},
    "extend": {State.READY: 1, State.ACTIVE: 1},
    "heartbeat": {State.READY: 1, State.ACTIVE: 1},
    "leave": {State.READY: 2},
    "maintain": {State.READY: 1, State.ACTIVE: 1},
    "wait": {State.READY: 1, State.ACTIVE: 1},
    "look": {State.READY: 1, State.ACTIVE: 1},
}
BEFORE = {State.READY: 1, State.ACTIVE: 1}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_refusal_has_one_meaning(server: RedisServer, proxy: Proxy, drive: MakeDrive, operation: str) -> None:
    one = drive(proxy.url, draw_random=lambda: 0.0)
    for name, text in ERROR_REPLIES.items():
        server.flush()
        scene = Scene(server)
        one.run(command("PING"))
        marker = b"BLPOP" if operation == "wait" else b"EVALSHA"
        action = action_of(name)
        again = action is Reaction.WRONG_TYPE and operation != "wait"  # by a copy of the script that names the key
        proxy.answers += [Answer(marker, f"-{text}\r\n".encode())] * (1 + again)
        if action is Reaction.NOSCRIPT and operation == "wait":
            action = Reaction.RAISE  # a plain command has no text to send
        try:
            one.run(scene.operation(operation))
            failure: Exception | None = None
        except (TenureError, WaitLost) as error:
            failure = error
        assert not proxy.answers, f"{name} did not hit"
        if operation == "wait" and action in (Reaction.RESEND, Reaction.RECONNECT):
            assert type(failure) is WaitLost, (name, failure)
        elif action in KINDS:
            assert type(failure) is KINDS[action], (name, failure)
            assert text.split()[1] in str(failure)
            assert scene.state() == BEFORE, name
        else:
            assert failure is None, (name, failure)
            assert scene.state() == OPERATIONS[operation], name
        assert one.run(command("ECHO", name)) == name.encode()
        scene.direct.close()


@pytest.mark.parametrize("name", ERROR_REPLIES)
def test_a_subscription_gets_over_it_or_says_so(server: RedisServer, proxy: Proxy, name: str) -> None:
    driver = SyncDriver(proxy.url, draw_random=lambda: 0.0)
    proxy.answers.append(Answer(b"SUBSCRIBE", f"-{ERROR_REPLIES[name]}\r\n".encode()))
    if action_of(name) in (Reaction.RESEND, Reaction.RECONNECT):
        with driver.subscribe("news") as messages:
            server.command("PUBLISH", "news", "hello")
            assert messages.get(10) == b"hello"
    else:
        with pytest.raises(TenureError), driver.subscribe("news"):
            pass
    assert not proxy.answers
    driver.close()
