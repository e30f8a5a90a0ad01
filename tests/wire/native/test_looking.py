"""What those who look get: the audit of the last 1,000 actions, and lists without payloads."""

from __future__ import annotations

import pytest

from tenure.core import limits
from tenure.core.engine import AUDIT_MAX
from tenure.core.job import State
from tenure.core.outcome import Broken, Completed
from tenure.core.steps import Command, Invoke, Reply
from tests.support.stepping import Send, Session, send_with, sent_again, step
from tests.support.world import BOOM, World


def test_the_audit_keeps_the_last_entries_newest_first(world: World) -> None:
    for number in range(AUDIT_MAX + 3):
        world.run(world.engine.history.note_audit(f"{number}".encode()))
    entries = world.run(world.engine.history.audit())
    assert entries[0] == f"{AUDIT_MAX + 2}".encode()
    assert (len(entries), entries[-1], world.command("LLEN", "{test}:audit")) == (AUDIT_MAX, b"3", AUDIT_MAX)
    assert 89 * limits.DAY < world.command("PTTL", "{test}:audit") <= 90 * limits.DAY


def test_an_entry_whose_answer_was_lost_is_noted_once(world: World) -> None:
    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        assert sent_again(call, reply, send) == reply
        return reply

    step(world.engine.history.note_audit(b"once"), Session("s"), send_with(world.driver), twice)
    assert world.run(world.engine.history.audit()) == [b"once"]


@pytest.mark.parametrize("state", [State.READY, State.BROKEN, State.COMPLETED])
def test_a_list_without_payloads_transports_none(world: World, state: State) -> None:
    world.put("a", task="shop.send", payload=b"x" * 1_000)
    if state is State.BROKEN:
        world.settle(world.take_one(), Broken(BOOM))
    elif state is State.COMPLETED:
        world.settle(world.take_one(), Completed(b"y" * 1_000, 60_000))
    whole = world.run(world.engine.page("q", state)).jobs[0]
    (head,) = world.run(world.engine.page("q", state, heads=True)).jobs
    assert (whole.payload or whole.result or b"")[100:101] in (b"x", b"y")
    assert not head.payload
    assert not head.result
    assert (head.id, head.task, head.state, head.error) == (whole.id, whole.task, whole.state, whole.error)
    assert (head.enqueued_ms, head.ended_ms, head.expires_ms) == (whole.enqueued_ms, whole.ended_ms, whole.expires_ms)
