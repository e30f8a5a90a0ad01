"""Operations on Redis as values: an operation is a generator that yields calls, gets replies, and returns its answer.

An engine writes `reply = yield Invoke(script, keys, args)`; a driver (sync or asyncio) sends the call and resumes the
generator with the reply. So a wire format is written once, and a test can stop between any two calls.

Contract: every call that an engine yields is safe to send again after its reply was lost. Reads are by nature; a
script that changes something carries a `Nonce` and remembers its answer.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, TypeAlias, TypeVar

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
    """One plain command. `block_ms` says how long Redis may hold the reply back (blocking commands)."""

    args: tuple[Arg, ...]
    block_ms: int = 0


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run a script: EVALSHA, and EVAL once when Redis does not know the script."""

    script: Script
    keys: tuple[str, ...]
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Nonce:
    """Names one logical call: the `number`-th of a `session`. A session makes one call at a time."""

    session: str
    number: int


@dataclass(frozen=True, slots=True)
class Draw:
    """Asks the driver for a fresh `Nonce`. No traffic."""


Call: TypeAlias = Command | Invoke | Draw

T = TypeVar("T")
Steps: TypeAlias = Generator[Call, Any, T]
