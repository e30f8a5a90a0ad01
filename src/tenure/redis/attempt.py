"""The retry loop of both drivers: runs steps, sends each call until it has a reply or its time is over.

It is written once, as coroutines. The links of the blocking driver block instead of suspending: see `link`.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tenure.core import limits
from tenure.core.backoff import RetryBudget
from tenure.core.errors import InvalidArgument, NotConfigured, ReplyError, TenureError, Unreachable, WrongState
from tenure.core.steps import Command, Draw, Durable, Invoke, Reply, Steps, WaitLost, Work, finish
from tenure.redis import replies
from tenure.redis.availability import Availability
from tenure.redis.connector import Connector
from tenure.redis.link import Link
from tenure.redis.replies import Reaction
from tenure.redis.sessions import Session, Sessions
from tenure.redis.url import Target
from tenure.redis.wire import (
    KEY_FOUND,
    NO_SCRIPT,
    acknowledged,
    first_key,
    naming_keys,
    needs_own_connection,
    only_key,
    packed,
    packed_text,
    packed_wait,
    time_for,
    wait_in,
)

T = TypeVar("T")


L = TypeVar("L", bound=Link)


MAX_IDLE_CONNECTIONS: Final = 64
"""How many idle connections a driver keeps open for its next calls."""
IDLE_MS: Final = 30 * limits.SECOND
"""How long it keeps them."""
IDLE_CHECK_MS: Final = 10 * limits.SECOND
"""How often it closes the others."""


class FirstContact(Struct, frozen=True):
    """What a driver does that has never reached Redis and is refused: no server was started yet.

    patience_s: for how long a call is retried then. hint: what the caller can do.
    """

    patience_s: float
    hint: str


class Retrying(Generic[L]):
    """What both drivers share. `SyncDriver` describes the options."""

    _kind: type[L]
    _min_idle_connections: ClassVar[int] = 0
    """How many connections stay open however long they are idle, so that the next call need not connect."""
    _takes_clusters: ClassVar[bool] = False

    def __init__(
        self,
        target: Target | str,
        *,
        patience_ms: int = limits.PATIENCE_MS,
        first_contact: FirstContact | None = None,
        connect_timeout_ms: int = limits.CONNECT_TIMEOUT_MS,
        reply_timeout_ms: int = limits.REPLY_TIMEOUT_MS,
        max_idle: int = MAX_IDLE_CONNECTIONS,
        max_connections: int | None = None,
        idle_ms: int = IDLE_MS,
        idle_check_ms: int = IDLE_CHECK_MS,
        draw_random: Callable[[], float] = random.random,
    ) -> None:
        self._target = Target.parse(target) if isinstance(target, str) else target
        if self._target.seeds and not self._takes_clusters:
            raise NotConfigured("The Redis URL names a cluster, and this client works with one server only.")
        self._connector = Connector(self._target, connect_timeout_ms)
        self._availability = Availability(str(self._target), lambda: self.liveness)
        self._patience = patience_ms / limits.SECOND
        self._first_contact = first_contact
        self._reply_timeout = reply_timeout_ms / limits.SECOND
        self._max_idle = max_idle
        self._max_connections = self._target.max_connections or max_connections
        self._connection_limit: Any = None
        """A semaphore for the connections that calls use; None: there is no maximum."""
        self._idle_s, self._idle_check_s = idle_ms / limits.SECOND, idle_check_ms / limits.SECOND
        self._is_aging = False
        self._random = draw_random
        # Pop and append of a list are atomic, so threads share these without a lock.
        self._idle: list[L] = []
        self._sessions = Sessions()
        self._pid = os.getpid()
        self._closed = False
        self._make_connection_limit()
        self.liveness = 0.0
        """The monotonic time of the last good reply; 0.0 before the first."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._target)!r})"

    async def _run(self, steps: Steps[T]) -> T:
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
                    reply = await (
                        self._call(call) if self._connection_limit is None else self._call_within_limit(call)
                    )
                except Unreachable as error:
                    call = steps.throw(error)
                except TenureError as error:
                    session = held
                    if not isinstance(error, WrongState):
                        call = steps.throw(error)
                        continue
                    try:
                        reply = await self._find_key(call, error)
                    except WrongState as named:
                        call = steps.throw(named)
                    else:
                        call = steps.send(reply)
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

    async def _find_key(self, call: Command | Invoke | Work, error: WrongState) -> Reply:
        """Run a script that met a key of the wrong type once more, by a copy that names the key: Redis does not.

        Return the reply if the key is in order by now. Raises `WrongState`.
        """
        key = only_key(call)
        if isinstance(call, Invoke):
            try:
                return await self._call(replace(call, script=naming_keys(call.script), lead=None))
            except ReplyError as named:
                key = str(named).removeprefix(KEY_FOUND).strip() if named.prefix == KEY_FOUND else ""
            except TenureError:
                key = ""
        raise replies.wrong_type(str(self._target), key) if key else error

    async def _run_on_each(self, make: Callable[[], Steps[T]]) -> list[tuple[str, T | Unreachable]]:
        """Run an operation on each server that has keys: one, if it is no cluster."""
        return [("", await self._run(make()))]

    async def _work(self, work: Work) -> Any:
        """Do blocking work of the client."""
        return work.function()

    async def _call(self, call: Command | Invoke | Work) -> Reply:
        self._check_open()
        if isinstance(call, Work):
            return await self._work(call)
        data = packed(call)
        wait = wait_in(call)
        timeout = bound = time_for(call, data, self._reply_timeout)
        invoke: Invoke = call if isinstance(call, Invoke) else NO_SCRIPT
        led, alone = invoke.lead is not None, wait is not None or needs_own_connection(invoke, data)
        patience: RetryBudget | None = None
        fresh, left = False, math.inf
        while True:
            link: L | None = None
            if patience is not None:
                left = patience.left(time.monotonic())
                bound = min(timeout, left + timeout - self._reply_timeout)
            try:
                link = await self._take(alone, fresh, left)
                reply = await link.ask(data, bound, self._reply_timeout, led, invoke.meanwhile)
                if invoke.replicas:
                    reply = await self._wait(link, invoke.replicas, reply)
            except Exception as error:
                was_closed = link is not None and link.has_replied and replies.was_closed(error)
                action = replies.action_of(error)
                await self._put(link, replies.keeps_connection(error) and action is not Reaction.RECONNECT)
                if action is Reaction.NOSCRIPT and invoke is not NO_SCRIPT:
                    data, led = packed_text(invoke), False
                elif was_closed and wait is None:
                    # The server closed it while it was idle, and probably the others too: no reason to wait.
                    await self._drop_idle(link)
                    fresh = True
                elif action in (Reaction.RESEND, Reaction.RECONNECT):
                    if action is Reaction.RECONNECT:
                        await self._drop_idle(link)
                    if wait is not None:
                        invoke, led, wait = _script_of_lost_wait(invoke, error), False, None
                        data = packed(invoke)
                        timeout = bound = self._reply_timeout
                        continue
                    patience = patience or RetryBudget(self._patience_of(error), self._random)
                    await self._kind.sleep(self._pause(patience, error, bound))
                elif replies.is_reply(error):
                    raise replies.error_of(error, str(self._target), first_key(call)) from None
                else:
                    raise
            except BaseException:
                # Cancelled or interrupted: the reply may still arrive, and no other call may read it.
                if link is not None and not link.is_shared:
                    await link.close()
                raise
            else:
                if patience is not None:
                    patience.forget()
                self.liveness = link.idle_since = time.monotonic()
                link.has_replied = True
                if not self._keep(link):
                    await link.close()
                if self._availability.failed_at is not None:
                    self._availability.back()
                return reply

    async def _wait(self, link: L, replicas: int, reply: Reply) -> Durable[Reply]:
        """Wait for the replicas. The link can be used after an error reply too, unless this raises."""
        try:
            bound = limits.WAIT_MS / limits.SECOND + self._reply_timeout
            waited = await link.ask(packed_wait(replicas), bound, self._reply_timeout)
        except Exception as error:
            return acknowledged(reply, error)
        return acknowledged(reply, waited)

    def _pause(self, patience: RetryBudget, error: Exception, silent_s: float) -> float:
        """How long to wait before the next attempt. Raises `Unreachable` when the call's time is over."""
        self._availability.lost(error, silent_s)
        last = patience.telling(error, replies.says_why(error))
        pause_s = patience.failed(time.monotonic())
        if pause_s is None:
            patience.forget()
            raise self._unreachable(last) from (None if replies.never_connected(last) else last)
        return pause_s

    def _patience_of(self, error: Exception) -> float:
        """For how long a call is retried after this failure, its first one, in seconds."""
        first = self._first_contact
        return self._patience if first is None or self.liveness or not replies.refused(error) else first.patience_s

    def _unreachable(self, last: Exception) -> Unreachable:
        if self._first_contact is not None and not self.liveness and replies.refused(last):
            return replies.nothing_there(str(self._target), self._first_contact.hint)
        return replies.unreachable(str(self._target), self._patience, last)

    # --------------------------------------------------------------------------------------------------- connections

    async def _take(self, alone: bool, fresh: bool, left_s: float) -> L:
        """Return a connection for one call. `alone`: no other call may use it then. `fresh`: not an idle one."""
        while not fresh:
            try:
                link = self._idle.pop()
            except IndexError:
                break
            if not self._connector.outdated(link):
                return link
            await link.close()
        return await self._connector.open(self._kind, timeout_s=left_s)

    async def _put(self, link: L | None, usable: bool) -> None:
        if link is not None and not (usable and self._keep(link)):
            await link.close()

    def _keep(self, link: L) -> bool:
        """Keep a connection for the next call, unless enough are idle."""
        if self._closed or len(self._idle) >= self._max_idle:
            return False
        self._idle.append(link)
        if len(self._idle) > self._min_idle_connections and not self._is_aging:
            self._age_later()
        return True

    def _pools(self) -> tuple[tuple[list[L], int], ...]:
        """Return the lists of idle connections, each with the number that stays open however long they are idle."""
        return ((self._idle, self._min_idle_connections),)

    def _age_later(self) -> None:
        """Call `_age` after `IDLE_CHECK_MS`."""
        raise NotImplementedError

    def _age(self) -> None:
        """Close the connections that were idle for too long. The first of a list is idle longest."""
        self._is_aging, idle_since = False, time.monotonic() - self._idle_s
        for pool, min_idle in self._pools():
            with suppress(IndexError):  # another thread took the last
                # If a call took the first since, a newer one is closed: to insert it again would race with `close`.
                while len(pool) > min_idle and pool[0].idle_since <= idle_since:
                    finish(pool.pop(0).close())
        if not self._closed and not self._is_aging and any(len(pool) > min_idle for pool, min_idle in self._pools()):
            self._age_later()

    def _make_connection_limit(self) -> None:
        """Make the semaphore, if there is a maximum of connections."""

    async def _call_within_limit(self, call: Command | Invoke | Work) -> Reply:
        """Wait until a connection may be used, then send the call."""
        if not self._counts_for_limit(call):
            return await self._call(call)
        if not await self._acquire_connection():
            raise replies.all_in_use(str(self._target), self._max_connections)
        try:
            return await self._call(call)
        finally:
            self._connection_limit.release()

    def _counts_for_limit(self, call: Command | Invoke | Work) -> bool:
        return not isinstance(call, Work)

    async def _acquire_connection(self) -> bool:
        """Wait for the semaphore. False: the time is over."""
        raise NotImplementedError

    async def _drop_idle(self, like: L | None = None) -> None:
        """Close the idle connections, because `like` was lost: probably they were too."""
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:  # another thread took it
                return
            await link.close()

    def _start_afresh(self) -> None:
        """Leave connections and sessions to the parent process, or to the event loop that they belong to.

        To close a connection in a child closes the child's copy only. Sessions must not be shared: parent and child
        would draw the same numbers and get each other's replies.
        """
        if os.getpid() != self._pid:
            self._pid = os.getpid()
            self._connector.forked()
            self._availability.forked()
        self._idle = []
        self._is_aging = False
        self._make_connection_limit()
        self._sessions = Sessions()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgument("This driver was closed. Make a new one.")


def _script_of_lost_wait(invoke: Invoke, error: Exception) -> Invoke:
    """The script that follows a wait, to be sent alone: it may have run. Raises `WaitLost` if no script follows."""
    if invoke.lead is None:
        raise WaitLost(replies.cause_of(error), replies.timed_out(error)) from error
    return replace(invoke, lead=None)
