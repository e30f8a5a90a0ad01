"""Runs the engine's steps on the caller's own client of the redis package.

Errors of the client reach the caller unchanged. If a reply is lost, the call may have been executed: when the caller
repeats it soon, it is sent with the same nonce and gets the first answer. Redis remembers that answer until the next
call, which removes it: see docs/decisions/0022-answers-that-leave-no-key.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

from tenure.compat.redis_work_queue.cluster import client_for, is_cluster
from tenure.compat.redis_work_queue.forks import FORKS
from tenure.compat.redis_work_queue.groups import Groups
from tenure.compat.redis_work_queue.kept import RAW
from tenure.core.errors import TenureError
from tenure.core.steps import Call, Command, Draw, Nonce, Steps, Work
from tenure.redis import replies
from tenure.redis.replies import Reaction
from tenure.redis.sessions import MAX_FREE, Session

T = TypeVar("T")
Key = tuple[str | bytes, ...]
"""Identifies a call: an operation, an id, and the data if it matters. An equal key may be a repeated call."""

Execute = Callable[..., Coroutine[Any, Any, Any]]
"""Sends a command on the caller's client, `lead` before it if there is one. Returns the reply to the command."""

LEASE: Final[Key] = ("lease", "")
_CANCELS_MOST: Final = 20
_CANCEL_S: Final = 0.05
"""How often a call that was cancelled is cancelled again, and how long after the time before."""
_FIRST: Final = 1_000_000_000
"""The number of a session's first call. All have ten digits: scripts compare their texts, which is faster."""
_DOUBTS_MAX: Final = 1_000
_DOUBT_S: Final = 30.0
"""How long a doubt lasts. A later call with an equal key is a new call."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call that lost its reply."""

    key: Key
    session: Session
    nonce: Nonce
    since: float


class Nonces:
    """Sessions for nonces, the calls in doubt, and the answers that Redis still has. Safe for threads."""

    def __init__(self, prefix: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._clock = clock
        self.begin()
        FORKS.known.add(self)

    def begin(self) -> None:
        """Forget all, at the start and after a fork: two processes must not draw the same numbers."""
        self._lock = threading.Lock()
        self._doubts: list[Doubt] = []
        # Idle sessions, without and with an answer in Redis. pop and append are atomic, so threads need no lock here.
        self._fresh: list[Session] = []
        self._answered: list[Session] = []
        self.groups = Groups()

    def take(self) -> Session:
        """Return an idle session for one call. Its call replaces the answer that Redis still has."""
        try:
            return (self._answered or self._fresh).pop()
        except IndexError:
            return Session(_FIRST)

    def give(self, session: Session, is_answered: bool) -> None:
        """Take a session back after its call, unless the call is in doubt. `is_answered`: Redis has an answer of it."""
        idle = self._answered if is_answered else self._fresh
        if len(idle) < MAX_FREE:
            idle.append(session)

    def has_answers(self, sessions: bool) -> bool:
        """Return whether Redis may have answers that `clear` removes."""
        return bool(self.groups.known or (sessions and self._answered))

    async def clear(self, execute: Execute, sessions: bool) -> None:
        """Remove the answers to the pipelines that were executed, and with `sessions` the answers of idle sessions."""
        names = self.groups.ended()
        cleared: list[Session] = []
        with contextlib.suppress(IndexError):
            while sessions:
                cleared.append(self._answered.pop())
        names += [session.name for session in cleared]
        if not names:
            return
        try:
            await execute(("DEL", *(f"{self._prefix}:done:{name}" for name in names)))
        except Exception as error:
            if not replies.is_reply(error):
                raise  # a DEL that is still on its way must meet no later answer: these sessions are used no more
        for session in cleared:
            self.give(session, False)

    def repeated(self, key: Key | None) -> Doubt | None:
        """Return the call in doubt that this call repeats, if there is one."""
        if key is None or not self._doubts:  # the usual case
            return None
        key = _digested(key)
        with self._lock:
            now = self._clock()
            self._doubts = [doubt for doubt in self._doubts if now - doubt.since < _DOUBT_S]
            found = next((doubt for doubt in self._doubts if doubt.key == key), None)
            if found is not None:
                self._doubts.remove(found)
            return found

    @property
    def has_doubts(self) -> bool:
        return bool(self._doubts)

    def doubt(self, key: Key, session: Session, nonce: Nonce, since: float | None = None) -> None:
        key = _digested(key)
        with self._lock:
            # Each lease in doubt may have its own item. For another key, earlier calls were the same call.
            known = [doubt for doubt in self._doubts if doubt.key != key or key == LEASE]
            self._doubts = [*known, Doubt(key, session, nonce, self._clock() if since is None else since)]
            del self._doubts[:-_DOUBTS_MAX]


def _digested(key: Key) -> Key:
    """Return a key without data, which may be large: it has a digest instead."""
    return tuple(sha256(part).hexdigest() if isinstance(part, bytes) else part for part in key)


async def exchange(nonces: Nonces, execute: Execute, steps: Steps[T], key: Key | None) -> T:
    """Run an operation. Without a reply it is in doubt, and the next operation with its key repeats its nonce."""
    doubt = nonces.repeated(key)
    session, again = (doubt.session, doubt.nonce) if doubt else (None, None)
    last = again
    is_known, is_answered, is_refused = True, True, False
    try:
        call: Call = next(steps)
        is_remembered = isinstance(call, Draw)
        if nonces.has_answers(sessions=not is_remembered):
            await nonces.clear(execute, sessions=not is_remembered)
        while True:
            if isinstance(call, Draw):
                session = session or nonces.take()
                last, again = again or session.draw(), None
                call = steps.send(last)
                continue
            assert not isinstance(call, Work), "clients yield it, engines do not"
            try:
                try:
                    if isinstance(call, Command):
                        reply = await execute(call.args)
                    else:
                        command = ("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)
                        reply = await execute(command, lead=call.lead.args if call.lead else ())
                except Exception as error:
                    if isinstance(call, Command) or replies.action_of(error) is not Reaction.NOSCRIPT:
                        raise
                    reply = await execute(("EVAL", call.script.text, len(call.keys), *call.keys, *call.args))
            except Exception as error:
                if not replies.is_reply(error):
                    raise
                is_refused = True
                call = _refused(steps, error)
            else:
                is_answered = reply != []  # a lease that found nothing
                call = steps.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    except BaseException as error:
        is_known = isinstance(error, TenureError) or (isinstance(error, Exception) and replies.is_reply(error))
        # A refusal of a call that is sent again leaves the first one open. And while Redis is loading, after a
        # restart, the client may have sent the call before that.
        if is_refused and (doubt is not None or replies.is_loading(error)):
            is_known = False
        raise
    finally:
        steps.close()
        if session is not None and last is not None and key is not None and not is_known:
            nonces.doubt(key, session, last)
        elif doubt is not None and not is_answered:
            # What was cancelled may still be on its way, and take an item under this nonce.
            nonces.doubt(doubt.key, doubt.session, doubt.nonce, doubt.since)
        elif session is not None:
            nonces.give(session, is_answered)


def _refused(steps: Steps[Any], error: Exception) -> Call:
    """Pass an error reply to the engine. If it has no answer, the caller gets the client's own error."""
    converted = replies.error_of(error, "this client")
    try:
        return steps.throw(converted)
    except TenureError as raised:
        if raised is converted:
            raise error from None
        raise


async def execute(db: Any, prefix: str, args: tuple[Any, ...], lead: tuple[Any, ...] = ()) -> Any:
    """Send a command on a blocking client: a coroutine that never suspends."""
    client = client_for(db, prefix, args[0])
    if not lead:
        return client.execute_command(*args, **RAW)
    if not is_cluster(client):  # a pipeline of a cluster has no commands that block
        return _last(_both(client, lead, args).execute(raise_on_error=False))
    try:
        client.execute_command(*lead, **RAW)
    except Exception as error:
        if not replies.is_reply(error):
            raise
    return client.execute_command(*args, **RAW)


async def aexecute(db: Any, prefix: str, args: tuple[Any, ...], lead: tuple[Any, ...] = ()) -> Any:
    """Send a command on a client of asyncio. A cancellation ends it even if the client swallows it, as a client with
    timeouts can on Python 3.11. The operation is then in doubt, as after a lost reply."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        if not lead:
            return await client_for(db, prefix, args[0]).execute_command(*args, **RAW)
        # In a task of its own: a cancellation then need not wait for a client that ignores it.
        waiting = asyncio.ensure_future(_aled(db, prefix, args, lead))
        try:
            await asyncio.wait({waiting})
        finally:
            if not waiting.done():
                waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
                _cancel(waiting)
        return waiting.result()
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


def _cancel(waiting: asyncio.Future[Any], times: int = _CANCELS_MOST) -> None:
    """Cancel a call, again and again: a client that swallows a cancellation would keep its connection for the wait."""
    if not waiting.done() and times > 0:
        waiting.cancel()
        asyncio.get_running_loop().call_later(_CANCEL_S, _cancel, waiting, times - 1)


async def _aled(db: Any, prefix: str, args: tuple[Any, ...], lead: tuple[Any, ...]) -> Any:
    client = client_for(db, prefix, args[0])
    if not is_cluster(client):  # a pipeline of a cluster has no commands that block
        return _last(await _both(client, lead, args).execute(raise_on_error=False))
    try:
        await client.execute_command(*lead, **RAW)
    except Exception as error:
        if not replies.is_reply(error):
            raise
    return await client.execute_command(*args, **RAW)


def _both(db: Any, lead: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    pipeline = db.pipeline(transaction=False)
    pipeline.execute_command(*lead, **RAW)
    pipeline.execute_command(*args, **RAW)
    return pipeline


def _last(answers: list[Any]) -> Any:
    """The reply to the second command. Whether the wait before it was refused does not matter."""
    reply = answers[-1]
    if isinstance(reply, Exception):
        raise reply
    return reply


async def sleep(seconds: float) -> None:
    """Pause in blocking code: a coroutine that never suspends."""
    time.sleep(seconds)  # noqa: ASYNC251
