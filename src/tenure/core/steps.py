"""Operations on Redis as values: a generator that yields calls, receives replies, and returns the answer.

An engine writes `reply = yield Invoke(script, keys, args)`; a driver (blocking or asyncio) sends the call and resumes
the generator with the reply. So each wire format is written once, and a test can stop between any two calls.

Contract: every call of an engine names keys of one hash slot, so that a driver can route it: the `keys` of a script, or
the first argument of a command. Commands about the server (PING, INFO, SCAN) name none.

Contract: every call that an engine yields can be repeated after its reply was lost. Reads always can; a script that
writes carries a `Nonce` and remembers its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

Arg: TypeAlias = str | bytes | int | float
Reply: TypeAlias = Any
"""None, int, bytes, or a list of replies: the same for every version of the Redis client."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script. Redis knows it by the SHA-1 of its text."""

    name: str
    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        # EVALSHA names scripts by SHA-1; no security depends on it.
        object.__setattr__(self, "sha", sha1(self.text.encode(), usedforsecurity=False).hexdigest())


class Command(Struct, frozen=True):
    """One plain command. `block_ms`: how long a blocking command may hold its reply back.

    A blocking command is a wait. Its answer is a hint. It is sent once; if it fails, it raises `WaitLost`.
    """

    args: tuple[Arg, ...]
    block_ms: int = 0


class WaitLost(Exception):
    """A wait failed: its connection was lost, or Redis refuses blocking commands for now.

    A driver does not repeat a wait: Redis may have sent the wake-up to the dead connection, so a second wait could miss
    it. The caller checks its queue instead, which also shows whether Redis responds. `silent`: no reply came in time.
    """

    def __init__(self, why: str, silent: bool = False) -> None:
        super().__init__(why)
        self.silent = silent


class Invoke(Struct, frozen=True):
    """Run a script: EVALSHA, and then EVAL once if Redis does not know the script.

    `replicas`: then wait, for a bounded time, until this many replicas have every write so far (WAIT on the same
    connection); the reply is a `Durable`. Only `durably` sets it.

    `lead`: a blocking command that goes before it, in one write. Its reply is not used. Only `waiting.led_by` sets it.

    `meanwhile`: what a driver may call when it has sent the script, and before it waits for the reply. It neither waits
    nor raises, and it must not matter whether it is called. Only `working` sets it.
    """

    script: Script
    keys: tuple[str, ...]
    args: tuple[Arg, ...]
    replicas: int = 0
    lead: Command | None = None
    meanwhile: Callable[[], None] | None = None


class Nonce(Struct, frozen=True):
    """Names one logical call: call number `number` of a `session`. A session makes one call at a time."""

    session: str
    number: int


class Draw(Struct, frozen=True):
    """Ask the driver for a new `Nonce`. Sends nothing."""


class Work(Struct, frozen=True):
    """Blocking work of the client between two calls. A driver does it at once; on an event loop in a thread."""

    function: Callable[[], Any]


class Watcher(Protocol):
    """Is notified when Redis stops responding, and when it responds again. Its methods neither wait nor raise."""

    def redis_lost(self, missed_s: float) -> None:
        """Redis has not responded for `missed_s` seconds."""
        ...

    def redis_back(self) -> None: ...


Call: TypeAlias = Command | Invoke | Draw | Work

T = TypeVar("T")
Steps: TypeAlias = Generator[Call, Any, T]


class Durable(Struct, Generic[T], frozen=True):
    """The reply of a script or the answer of an operation, and how many replicas had at least its writes in time.

    `trouble`: why Redis refused WAIT, if it did.
    """

    answer: T
    replicas: int
    trouble: str = ""


def durably(steps: Steps[T], replicas: int) -> Steps[Durable[T]]:
    """Run an operation. Each of its scripts waits for `replicas` replicas. Too few are no error here: the answer has
    their number, and the caller decides.

        outcome = driver.run(durably(engine.enqueue(jobs), 1))
        outcome.answer, outcome.replicas

    A repeated call (same nonce) waits again, so a remembered answer is never returned before its write is acknowledged.
    A part of the operation may run durably itself: it gets the number of replicas, which does not count here.
    """
    fewest, trouble = replicas, ""
    try:
        call = next(steps)
        while True:
            own = call if isinstance(call, Invoke) and not call.replicas else None
            try:
                reply = yield call if own is None else replace(own, replicas=replicas)
            except Exception as error:
                call = steps.throw(error)
                continue
            if own is not None and isinstance(reply, Durable):
                fewest, trouble = min(fewest, reply.replicas), trouble or reply.trouble
                reply = reply.answer
            elif own is not None:
                fewest, trouble = 0, "the driver does not wait for replicas"
            call = steps.send(reply)
    except StopIteration as stop:
        return Durable(stop.value, fewest, trouble)
    finally:
        steps.close()


def working(steps: Steps[T], meanwhile: Callable[[], None]) -> Steps[T]:
    """Run an operation, and do `meanwhile` while Redis works on its scripts."""
    return changing(steps, lambda call: replace(call, meanwhile=meanwhile))


def changing(steps: Steps[T], change: Callable[[Invoke], Invoke]) -> Steps[T]:
    """Run an operation with each of its scripts changed."""
    try:
        call = next(steps)
        while True:
            try:
                reply = yield change(call) if isinstance(call, Invoke) else call
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    finally:
        steps.close()


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its answer."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    raise AssertionError("a coroutine of blocking code has suspended")
