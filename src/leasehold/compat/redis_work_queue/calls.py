"""Runs the engine's steps on the caller's own client of the redis package.

Errors of the client reach the caller unchanged. If a reply is lost, the call may have been executed: when the caller
repeats it soon, it is sent with the same nonce and gets the first answer.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from leasehold.compat.redis_work_queue.cluster import client_for
from leasehold.core.errors import LeaseholdError
from leasehold.core.steps import Call, Command, Draw, Invoke, Nonce, Reply, Steps
from leasehold.redis import replies
from leasehold.redis.replies import Action
from leasehold.redis.sessions import Session, Sessions

T = TypeVar("T")
Key = tuple[str, ...]
"""Identifies a call: an operation, an id, and the data if it matters. An equal key may be a repeated call."""

Execute = Callable[[tuple[Any, ...]], Coroutine[Any, Any, Any]]
"""Sends a command on the caller's client."""

LEASE: Final[Key] = ("lease", "")
RAW: Final = {"NEVER_DECODE": True}
"""Data and ids are bytes, even on a client that decodes replies."""
_WAITS: Final = ("BLMOVE", "BLPOP")
"""Commands that block until there is work. They remove nothing."""
_DOUBTS_MAX: Final = 1_000
_DOUBT_S: Final = 30.0
"""How long a doubt lasts. A later call with an equal key is a new call."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call whose reply was lost."""

    key: Key
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
        self._lock = threading.Lock()
        self._doubts: list[Doubt] = []
        self.sessions = Sessions()

    def repeated(self, key: Key | None) -> Doubt | None:
        """Return the call in doubt that this call repeats, if there is one."""
        if os.getpid() != self._pid:
            # After a fork: two processes must not draw the same numbers.
            self._begin()
        if key is None or not self._doubts:  # the usual case
            return None
        with self._lock:
            now = self._clock()
            self._doubts = [doubt for doubt in self._doubts if now - doubt.since < _DOUBT_S]
            found = next((doubt for doubt in self._doubts if doubt.key == key), None)
            if found is not None:
                self._doubts.remove(found)
            return found

    def doubt(self, key: Key, session: Session, nonce: Nonce) -> None:
        with self._lock:
            # Each lease in doubt may have its own item. For another key, earlier calls were the same call.
            known = [doubt for doubt in self._doubts if doubt.key != key or key == LEASE]
            self._doubts = [*known, Doubt(key, session, nonce, self._clock())][-_DOUBTS_MAX:]


async def exchange(nonces: Nonces, execute: Execute, steps: Steps[T], key: Key | None) -> T:
    """Run an operation. Without a reply it is in doubt, and the next operation with its key repeats its nonce."""
    doubt = nonces.repeated(key)
    session, again = (doubt.session, doubt.nonce) if doubt else (None, None)
    last: Nonce | None = None
    is_known = True
    try:
        call: Call = next(steps)
        while True:
            if isinstance(call, Draw):
                session = session or nonces.sessions.take()
                last, again = again or session.draw(), None
                call = steps.send(last)
                continue
            try:
                reply = await _send(execute, call)
            except Exception as error:
                if not replies.is_reply(error):
                    raise
                call = _refused(steps, error)
            else:
                call = steps.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    except BaseException as error:
        is_known = isinstance(error, LeaseholdError) or (isinstance(error, Exception) and replies.is_reply(error))
        raise
    finally:
        steps.close()
        if session is not None and is_known:
            nonces.sessions.give(session)
        elif session is not None and last is not None and key is not None:
            nonces.doubt(key, session, last)


async def _send(execute: Execute, call: Command | Invoke) -> Reply:
    if isinstance(call, Command):
        return await execute(call.args)
    rest = (len(call.keys), *call.keys, *call.args)
    try:
        return await execute(("EVALSHA", call.script.sha, *rest))
    except Exception as error:
        if replies.action_of(error) is not Action.NOSCRIPT:
            raise
    return await execute(("EVAL", call.script.text, *rest))


def _refused(steps: Steps[Any], error: Exception) -> Call:
    """Pass an error reply to the engine. If it has no answer, the caller gets the client's own error."""
    converted = replies.error_of(error, "this client")
    try:
        return steps.throw(converted)
    except LeaseholdError as raised:
        if raised is converted:
            raise error from None
        raise


async def execute(db: Any, prefix: str, args: tuple[Any, ...]) -> Any:
    """Send a command on a blocking client: a coroutine that never suspends."""
    return client_for(db, prefix, args[0]).execute_command(*args, **RAW)


async def aexecute(db: Any, prefix: str, args: tuple[Any, ...]) -> Any:
    """Send a command on a client of asyncio. A cancellation ends it even if the client swallows it, as a client with
    timeouts can on Python 3.11. The operation is then in doubt, as after a lost reply."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        if args[0] not in _WAITS:
            return await client_for(db, prefix, args[0]).execute_command(*args, **RAW)
        # In a task of its own: a cancellation then need not wait for a client that ignores it.
        waiting = asyncio.ensure_future(db.execute_command(*args, **RAW))
        try:
            await asyncio.wait({waiting})
        finally:
            if not waiting.done():
                waiting.cancel()
                waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return waiting.result()
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError
