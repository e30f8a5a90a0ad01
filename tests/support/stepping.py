"""Runs an operation call by call: the tests decide what becomes of each call and of its reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from tenure.core.errors import ReplyError, TenureError, Unreachable
from tenure.core.steps import Command, Draw, Invoke, Nonce, Reply, Steps, Work
from tenure.engines.native.engine import MORE, MORE_NOW
from tenure.engines.native.scripts import SCRIPTS
from tenure.redis.sync import SyncDriver

T = TypeVar("T")
Send: TypeAlias = Callable[[Command | Invoke], Reply]
Fate: TypeAlias = Callable[[int, Command | Invoke, Send], Reply]
"""Gets the number of the call (from 1), the call, and a way to send it; answers the reply that the operation sees."""


class Session:
    """Draws nonces as a driver does, and can be made to go on by hand."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0

    def draw(self) -> Nonce:
        self.number += 1
        return Nonce(self.name, self.number)


class Crashed(BaseException):
    """The process that ran the operation is gone."""


def send_with(driver: SyncDriver) -> Send:
    """Sends one call as it is."""

    def one(call: Command | Invoke) -> Steps[Any]:
        return (yield call)

    return lambda call: driver.run(one(call))


def stop_after(calls: int, steps: Steps[Any], driver: SyncDriver, session: str = "stopped") -> bool:
    """Run so many calls of an operation at most: who ran it is gone then. Return whether these were all."""

    def fate(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number > calls:
            raise Crashed
        return send(call)

    try:
        step(steps, Session(f"{session}-{calls}"), send_with(driver), fate)
    except Crashed:
        return False
    return True


def attempt(send: Send, call: Command | Invoke) -> tuple[Reply, ReplyError | None]:
    """The reply to a call, or the error reply."""
    try:
        return send(call), None
    except ReplyError as error:
        return None, error


def repeated(call: Command | Invoke) -> Command | Invoke:
    """The call as a driver repeats it: a claim without the wait before it, which takes a wake-up at most."""
    return replace(call, lead=None) if isinstance(call, Invoke) else call


def sent_again(call: Command | Invoke, reply: Reply, send: Send) -> Reply:
    """The reply of a call that is sent again: that of the full script, where the plain one leaves it to that."""
    again = send(repeated(call))
    if isinstance(call, Invoke) and again in (MORE, MORE_NOW) and reply not in (MORE, MORE_NOW):
        return send(replace(call, script=SCRIPTS[f"{call.script.name}_full"], lead=None))
    return again


def step(steps: Steps[T], session: Session, send: Send, fate: Fate) -> T:
    """Run the steps to their end, each call through `fate`. `Crashed` raised by it ends them as a crash would."""
    number = 0
    try:
        call = next(steps)
        while True:
            if isinstance(call, Draw):
                call = steps.send(session.draw())
                continue
            try:
                if isinstance(call, Work):
                    reply = call.function()
                else:
                    number += 1
                    reply = fate(number, call, send)
            except TenureError as error:
                call = steps.throw(error)
            else:
                call = steps.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    finally:
        steps.close()


def without(lost: Sequence[str], steps: Steps[T]) -> Steps[T]:
    """Run an operation on a cluster that has lost the node of these prefixes."""
    error = Unreachable("The node did not respond.")
    error.node = "127.0.0.1:1"
    try:
        call = next(steps)
        while True:
            key = call.keys[0] if isinstance(call, Invoke) else call.args[1] if isinstance(call, Command) else ""
            try:
                if str(key).startswith(tuple(lost)):
                    raise error
                reply = yield call
            except TenureError as refusal:
                call = steps.throw(refusal)
            else:
                call = steps.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
