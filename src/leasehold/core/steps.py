"""Operations on Redis as values: an operation is a generator that yields calls, gets replies, and returns its answer.

An engine writes `reply = yield Invoke(script, keys, args)`; a driver (sync or asyncio) sends the call and resumes the
generator with the reply. So a wire format is written once, and a test can stop between any two calls.

Contract: every call that an engine yields is safe to send again after its reply was lost. Reads are by nature; a
script that changes something carries a `Nonce` and remembers its answer.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

Arg: TypeAlias = str | bytes | int | float
Reply: TypeAlias = Any
"""None, int, bytes, or a list of replies: the same for RESP2 and RESP3, for any version of the Redis client."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script, known to Redis by the SHA-1 of its text."""

    name: str
    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        # SHA-1 is how EVALSHA names scripts; nothing here relies on it for security.
        object.__setattr__(self, "sha", sha1(self.text.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class Command:
    """One plain command. `block_ms` says how long Redis may hold the reply back (blocking commands).

    One that blocks is a wait, whose answer is a hint. It is sent once: `WaitLost` when it comes to nothing.
    """

    args: tuple[Arg, ...]
    block_ms: int = 0


class WaitLost(Exception):
    """A wait came to nothing: its connection was lost, or Redis cannot let anybody wait just now.

    It is not sent again: Redis may have given what it waited for to the dead connection, and who asks again would wait
    in vain. Whoever waits looks for himself, which also tells whether Redis is there. `silent`: nothing came in time.
    """

    def __init__(self, why: str, silent: bool = False) -> None:
        super().__init__(why)
        self.silent = silent


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run a script: EVALSHA, and EVAL once when Redis does not know the script.

    `replicas`: wait then, for a bounded time, until so many replicas have all that was written up to here (WAIT on the
    same connection). The reply is an `Acknowledged` in that case. Not asked for by engines, but by `durably`.

    `lead`: a blocking command that goes before it, in one write. Its reply is not used. Set by `waiting.led_by`.
    """

    script: Script
    keys: tuple[str, ...]
    args: tuple[Arg, ...]
    replicas: int = 0
    lead: Command | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The reply of a script, and how many replicas had it in time. `trouble`: why WAIT was refused, if it was."""

    reply: Reply
    replicas: int
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Nonce:
    """Names one logical call: the `number`-th of a `session`. A session makes one call at a time."""

    session: str
    number: int


@dataclass(frozen=True, slots=True)
class Draw:
    """Asks the driver for a fresh `Nonce`. No traffic."""


class Watcher(Protocol):
    """Who wants to know when Redis stops answering, and when it is back. Neither method waits or raises."""

    def redis_lost(self, missed_s: float) -> None:
        """It does not answer, and has been missed for `missed_s` seconds."""
        ...

    def redis_back(self) -> None: ...


Call: TypeAlias = Command | Invoke | Draw

T = TypeVar("T")
Steps: TypeAlias = Generator[Call, Any, T]


@dataclass(frozen=True, slots=True)
class Durable(Generic[T]):
    """The answer of an operation, and how many replicas have at least what it wrote."""

    answer: T
    replicas: int
    trouble: str = ""


def durably(steps: Steps[T], replicas: int) -> Steps[Durable[T]]:
    """An operation whose every script waits for so many replicas. Too few of them is no error here: the answer counts
    them, and the caller decides.

        outcome = driver.run(durably(engine.enqueue(jobs), 1))
        outcome.answer, outcome.replicas

    Sent again with the same nonce, a call waits again: a remembered answer is not acknowledged before its write is.
    """
    fewest, trouble = replicas, ""
    try:
        call = next(steps)
        while True:
            try:
                reply = yield replace(call, replicas=replicas) if isinstance(call, Invoke) else call
            except Exception as error:
                call = steps.throw(error)
                continue
            if isinstance(reply, Acknowledged):
                fewest, trouble = min(fewest, reply.replicas), trouble or reply.trouble
                reply = reply.reply
            elif isinstance(call, Invoke):
                fewest, trouble = 0, "what ran it does not wait for replicas"
            call = steps.send(reply)
    except StopIteration as stop:
        return Durable(stop.value, fewest, trouble)
    finally:
        steps.close()
