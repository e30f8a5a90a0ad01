"""Runs the engine's steps on the caller's own client of the redis package.

Errors of the client reach the caller unchanged. If a reply is lost, the call may have been executed: when the caller
repeats it soon, it is sent with the same nonce and gets the first answer.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from leasehold.core.errors import LeaseholdError
from leasehold.core.steps import Call, Command, Draw, Invoke, Nonce, Reply, Steps
from leasehold.redis import replies
from leasehold.redis.replies import Action
from leasehold.redis.sessions import Session, Sessions

T = TypeVar("T")
Key = tuple[str, ...]
"""Identifies a call: an operation, an id, and the data if it matters. An equal key may be a repeated call."""

LEASE: Final[Key] = ("lease", "")
RAW: Final = {"NEVER_DECODE": True}
"""Data and ids are bytes, even on a client that decodes replies."""
_WAITS: Final = ("BLMOVE", "BLPOP")
"""Commands that block until there is work. They remove nothing."""
_DOUBTS_MAX: Final = 1_000
_LEASES_MAX: Final = 100
"""Any number of leases may be in doubt at once, each with its own item. For another key only the last call is kept:
earlier ones were the same call."""
_DOUBT_S: Final = 30.0
"""How long a doubt lasts. A later call with an equal key is a new call."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call whose reply was lost."""

    session: Session
    nonce: Nonce
    since: float


class Nonces:
    """Sessions for nonces, and the calls in doubt. Safe for threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._sessions = Sessions()
        self._lock = threading.Lock()
        self._doubts: dict[Key, list[Doubt]] = {}

    def turn(self, key: Key | None = None) -> Turn:
        """Return the nonces for one call. Without a key, the call never repeats an earlier one."""
        if os.getpid() != self._pid:
            # After a fork: two processes must not draw the same numbers.
            self._begin()
        if key is None or key not in self._doubts:  # the usual case
            return Turn(self, key, None)
        with self._lock:
            doubts = self._fresh(key)
            self._keep(key, doubts[1:])
        return Turn(self, key, doubts[0] if doubts else None)

    def _fresh(self, key: Key) -> list[Doubt]:
        now = self._clock()
        return [doubt for doubt in self._doubts.get(key, ()) if now - doubt.since < _DOUBT_S]

    def _keep(self, key: Key, doubts: list[Doubt]) -> None:
        if doubts:
            self._doubts[key] = doubts
        else:
            self._doubts.pop(key, None)

    def take(self) -> Session:
        return self._sessions.take()

    def give(self, session: Session) -> None:
        self._sessions.give(session)

    def doubt(self, key: Key, session: Session, nonce: Nonce) -> None:
        most = _LEASES_MAX if key == LEASE else 1
        with self._lock:
            if len(self._doubts) >= _DOUBTS_MAX:
                for known in list(self._doubts):
                    self._keep(known, self._fresh(known))
            if len(self._doubts) < _DOUBTS_MAX or key in self._doubts:
                self._keep(key, [*self._fresh(key), Doubt(session, nonce, self._clock())][-most:])


class Turn:
    """The nonces of one operation, which may repeat one in doubt."""

    def __init__(self, nonces: Nonces, key: Key | None, doubt: Doubt | None) -> None:
        self._nonces = nonces
        self._key = key
        self._session = doubt.session if doubt else None
        self._again = doubt.nonce if doubt else None
        self._last: Nonce | None = None

    def draw(self) -> Nonce:
        self._session = self._session or self._nonces.take()
        self._last, self._again = self._again or self._session.draw(), None
        return self._last

    def end(self) -> None:
        if self._session is not None:
            self._nonces.give(self._session)

    def in_doubt(self) -> None:
        if self._session is not None and self._last is not None and self._key is not None:
            self._nonces.doubt(self._key, self._session, self._last)


def exchange(steps: Steps[T], turn: Turn) -> Generator[tuple[Any, ...], Any, T]:
    """Yield the commands of an operation one by one: the part that blocking and async clients share."""
    try:
        call: Call = next(steps)
        while True:
            if isinstance(call, Draw):
                call = steps.send(turn.draw())
                continue
            try:
                reply = yield from _send(call)
            except Exception as error:
                if not replies.is_reply(error):
                    raise
                call = _refused(steps, error)
            else:
                call = steps.send(reply)
    except StopIteration as stop:
        turn.end()
        answer: T = stop.value
        return answer
    except LeaseholdError:
        turn.end()
        raise
    except BaseException as error:
        if isinstance(error, Exception) and replies.is_reply(error):
            turn.end()
        else:
            turn.in_doubt()
        raise
    finally:
        steps.close()


def _send(call: Command | Invoke) -> Generator[tuple[Any, ...], Any, Reply]:
    if isinstance(call, Command):
        return (yield call.args)
    rest = (len(call.keys), *call.keys, *call.args)
    try:
        return (yield ("EVALSHA", call.script.sha, *rest))
    except Exception as error:
        if replies.action_of(error) is not Action.NOSCRIPT:
            raise
    return (yield ("EVAL", call.script.text, *rest))


def _refused(steps: Steps[Any], error: Exception) -> Call:
    """Pass an error reply to the engine. If it has no answer, the caller gets the client's own error."""
    converted = replies.error_of(error, "this client")
    try:
        return steps.throw(converted)
    except LeaseholdError as raised:
        if raised is converted:
            raise error from None
        raise


def run(db: Any, steps: Steps[T], turn: Turn) -> T:
    commands = exchange(steps, turn)
    try:
        args = next(commands)
        while True:
            try:
                reply = db.execute_command(*args, **RAW)
            except BaseException as error:
                args = commands.throw(error)
            else:
                args = commands.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


async def arun(db: Any, steps: Steps[T], turn: Turn) -> T:
    """Run an operation. A cancellation ends it even if the client swallows it, as a client with timeouts can on
    Python 3.11. The operation is then in doubt, as after a lost reply."""
    commands, task = exchange(steps, turn), asyncio.current_task()
    asked = task.cancelling() if task else 0
    try:
        args = next(commands)
        while True:
            try:
                try:
                    reply = await _areply(db, args)
                finally:
                    if task and task.cancelling() > asked:
                        raise asyncio.CancelledError
            except BaseException as error:
                args = commands.throw(error)
            else:
                args = commands.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


async def _areply(db: Any, args: tuple[Any, ...]) -> Any:
    if args[0] not in _WAITS:
        return await db.execute_command(*args, **RAW)
    # In a task of its own: a cancellation then need not wait for a client that ignores it.
    waiting = asyncio.ensure_future(db.execute_command(*args, **RAW))
    try:
        await asyncio.wait({waiting})
    finally:
        if not waiting.done():
            waiting.cancel()
            waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return waiting.result()
