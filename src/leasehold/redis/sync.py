"""The blocking driver: runs steps on pooled connections, from any number of threads.

>>> driver = SyncDriver("redis://localhost:6379/0")
>>> def size(key):
...     return (yield Command(("LLEN", key)))
>>> driver.run(size("some list"))                # doctest: +SKIP
0
>>> driver.close()
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable
from typing import TypeVar

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument, LeaseholdError, Unreachable
from leasehold.core.patience import RetryBudget
from leasehold.core.steps import Acknowledged, Command, Draw, Invoke, Reply, Steps, WaitLost
from leasehold.redis import replies
from leasehold.redis.availability import Availability
from leasehold.redis.connector import MAX_IDLE_CONNECTIONS, Connection, Connector, socket_of
from leasehold.redis.replies import Action
from leasehold.redis.sessions import Session, Sessions
from leasehold.redis.subscription import Subscription
from leasehold.redis.url import Target
from leasehold.redis.wire import acknowledged, first_key, flat, packed, packed_text, packed_wait, time_for, wait_in

T = TypeVar("T")


class _Link:
    """A connection with a timeout for each reply."""

    __slots__ = ("_send", "_socket", "_timeout", "connection", "used")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._send = connection.send_packed_command
        self._socket = socket_of(connection)
        self._timeout = -1.0
        self.used = False

    def ask(self, data: bytes, timeout_s: float, led: bool = False) -> Reply:
        """The reply to the one command in `data`, or to the second of two. That to a wait before it does not matter."""
        # The timeout is that of the socket: for sending as a whole, and for each piece of the reply that arrives.
        if timeout_s != self._timeout:
            self._socket.settimeout(timeout_s)
            self._timeout = timeout_s
        self._send([data], False)
        if led:
            with replies.ignoring_refusal():
                self.connection.read_response()
        return self.connection.read_response()

    def close(self) -> None:
        self.connection.disconnect()


class SyncDriver:
    """Runs steps against one Redis, for programs without an event loop. Times in milliseconds.

        driver = SyncDriver("redis://localhost:6379/0", patience_ms=2_000)
        driver.run(engine.enqueue([job]))

    A call that fails is sent again, the same bytes, until `patience_ms` after its first failure; then `Unreachable` is
    raised into the steps. Every call that an engine yields may be sent twice, but for a wait: `WaitLost` is raised
    instead. `reply_timeout_ms` bounds the silence before and within a reply (blocking commands get their own time on
    top), `connect_timeout_ms` each step of connecting.

    Nothing is sent before the first `run`. Safe to use from several threads and after a fork. `liveness` is the
    monotonic time of the last good reply, 0.0 before the first. Tests that want a call to fail wrap the steps.
    Raises `NotConfigured` when the URL cannot be used.
    """

    def __init__(
        self,
        target: Target | str,
        *,
        patience_ms: int = limits.PATIENCE_MS,
        connect_timeout_ms: int = limits.CONNECT_TIMEOUT_MS,
        reply_timeout_ms: int = limits.REPLY_TIMEOUT_MS,
        max_idle: int = MAX_IDLE_CONNECTIONS,
        draw_random: Callable[[], float] = random.random,
    ) -> None:
        self._target = Target.parse(target) if isinstance(target, str) else target
        self._dialler = Connector(self._target, connect_timeout_ms)
        self._condition = Availability(str(self._target), lambda: self.liveness)
        self._patience = patience_ms / 1000
        self._reply_timeout = reply_timeout_ms / 1000
        self._max_idle = max_idle
        self._random = draw_random
        self._resp3 = self._target.protocol == 3
        # Lists whose pop and append are atomic, so threads share them without a lock.
        self._idle: list[_Link] = []
        self._sessions = Sessions()
        self._pid = os.getpid()
        self._closed = False
        self.liveness = 0.0

    def __repr__(self) -> str:
        return f"SyncDriver({str(self._target)!r})"

    def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end and return its answer.

        Raises what the operation raises; of Redis `Unreachable`, `AccessDenied`, `WrongState`, `QueueFull` and
        `ReplyError`; of a wait that came to nothing `WaitLost`.
        """
        if os.getpid() != self._pid:
            self._forked()
        session: Session | None = None
        try:
            call = next(steps)
            while True:
                if isinstance(call, Draw):
                    session = session or self._sessions.take()
                    call = steps.send(session.draw())
                    continue
                held, session = session, None  # in doubt until the final reply is here
                try:
                    reply = self._call(call)
                except Unreachable as error:
                    call = steps.throw(error)
                except LeaseholdError as error:
                    session = held
                    call = steps.throw(error)
                else:
                    session = held
                    call = steps.send(reply)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        finally:
            steps.close()
            if session is not None:
                self._sessions.give(session)

    def subscribe(self, channel: str | bytes) -> Subscription:
        """Listen on a channel, on a connection of its own.

            with driver.subscribe("channel") as messages:
                message = messages.get(timeout_s=5)   # bytes, or None

        Messages sent while the connection was down are lost. Raises `Unreachable` and `AccessDenied`.
        """
        if os.getpid() != self._pid:
            self._forked()
        self._check_open()
        return Subscription(self._dialler, channel, self._patience, self._reply_timeout, self._random, self._condition)

    def close(self) -> None:
        """Close the idle connections; those in use close as their calls end. The driver cannot be used again."""
        self._closed = True
        if os.getpid() != self._pid:
            self._forked()
        self._drop_idle()
        self._dialler.close()

    def _call(self, call: Command | Invoke) -> Reply:
        self._check_open()
        data = packed(call)
        timeout = time_for(call, data, self._reply_timeout)
        led = isinstance(call, Invoke) and call.lead is not None
        patience: RetryBudget | None = None
        fresh = False
        while True:
            link: _Link | None = None
            left = math.inf if patience is None else patience.left(time.monotonic())
            bound = min(timeout, left + timeout - self._reply_timeout)
            try:
                link = self._take(fresh, left)
                reply = link.ask(data, bound, led)
                reply = flat(call, reply) if self._resp3 else reply
                if isinstance(call, Invoke) and call.replicas:
                    reply = self._wait(link, call.replicas, reply)
            except Exception as error:
                closed = link is not None and link.used and replies.was_closed(error)
                action = replies.action_of(error)
                self._put(link, replies.keeps_connection(error) and action is not Action.RECONNECT)
                if action is Action.NOSCRIPT and isinstance(call, Invoke):
                    data, led = packed_text(call), False
                elif closed and wait_in(call) is None:
                    # The server closed it while it was idle, and probably the others too: no reason to wait.
                    self._drop_idle()
                    fresh = True
                elif action in (Action.RESEND, Action.RECONNECT):
                    if action is Action.RECONNECT:
                        self._drop_idle()
                    if wait_in(call) is not None:
                        raise WaitLost(replies.cause_of(error), replies.timed_out(error)) from error
                    patience = patience or RetryBudget(self._patience, self._random)
                    time.sleep(self._delay(patience, error, bound))
                elif replies.is_reply(error):
                    raise replies.error_of(error, str(self._target), first_key(call)) from None
                else:
                    raise
            except BaseException:
                # The reply may still be on its way: nobody else may read it.
                self._put(link, False)
                raise
            else:
                self.liveness = time.monotonic()
                link.used = True
                self._put(link, True)
                if self._condition.failed_at is not None:
                    self._condition.back()
                return reply

    def _wait(self, link: _Link, replicas: int, reply: Reply) -> Acknowledged:
        """Wait for the replicas. The link is in order after an error reply too, unless this raises."""
        try:
            waited = link.ask(packed_wait(replicas), limits.WAIT_MS / limits.SECOND + self._reply_timeout)
        except Exception as error:
            return acknowledged(reply, error)
        return acknowledged(reply, waited)

    def _delay(self, patience: RetryBudget, error: Exception, silent_s: float) -> float:
        self._condition.lost(error, silent_s)
        last = patience.telling(error, replies.says_why(error))
        delay = patience.failed(time.monotonic())
        if delay is None:
            raise replies.unreachable(str(self._target), self._patience, last) from last
        return delay

    def _take(self, fresh: bool, left_s: float) -> _Link:
        while not fresh:
            try:
                link = self._idle.pop()
            except IndexError:
                break
            if not self._dialler.outdated(link.connection):
                return link
            link.close()
        return _Link(self._dialler.connect(timeout_s=left_s))

    def _put(self, link: _Link | None, usable: bool) -> None:
        if link is None:
            return
        if usable and not self._closed and len(self._idle) < self._max_idle:
            self._idle.append(link)
        else:
            link.close()

    def _drop_idle(self) -> None:
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _forked(self) -> None:
        # Closing a connection object in a child closes the child's copy only; the parent's socket lives on. A session
        # must not be shared: parent and child would draw the same numbers and be given each other's answers.
        self._pid = os.getpid()
        self._idle = []
        self._sessions = Sessions()
        self._dialler.forked()
        self._condition.forked()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgument("This driver was closed. Make a new one.")
