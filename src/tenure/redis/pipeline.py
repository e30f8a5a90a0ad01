"""A connection of asyncio that many calls use at once: they go out together, and replies come in the same order."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from tenure.core.steps import Reply
from tenure.redis import replies
from tenure.redis.credentials import Login, asyncio_login
from tenure.redis.failures import ConnectionLost, ErrorReply, InvalidReply
from tenure.redis.link import CLOSED, Link, failure, keep_alive, reader, tls_of
from tenure.redis.url import Address, Target

T = TypeVar("T")

MAX_PIPELINED: Final = 1_000
"""Calls of one connection that wait for their replies. Further callers wait for room, in their order."""
CALLS_PER_WRITE: Final = 32
"""With that many calls to send, they are sent at once, so that Redis works while the others are packed."""

_REFUSAL: Final = 4 * 1024
"""Bytes that are read of a connection that the server closed before its first call."""
_RARE_S: Final = 1.0
"""The timer stops when the last reply comes at least this long after the one before it: on a connection with rare calls
it would wake the loop after each of them. With many calls it costs less to let the timer run."""
_MORE: Final = False
"""What the reader returns for an incomplete reply."""


class _Waiting:
    """A call that waits for its reply. `reply` None: nothing waits for it, so it is dropped."""

    __slots__ = ("bound_s", "reply", "sent")

    def __init__(self, reply: asyncio.Future[Reply] | None, sent: float, bound_s: float) -> None:
        self.reply, self.sent, self.bound_s = reply, sent, bound_s

    @property
    def is_live(self) -> bool:
        return self.reply is not None and not self.reply.done()


class AsyncLink(Link, asyncio.Protocol):
    """A connection to Redis on an event loop.

    Any number of tasks may `ask` at once. A task that is cancelled leaves its place: its reply is dropped when it
    comes. After a call without a reply in time the link takes no further call (`is_open`), and those that wait keep
    their own time. `receiver` gets what answers no call: the messages of a subscription.
    """

    __slots__ = (
        "_emptied",
        "_flushing",
        "_has_room",
        "_loop",
        "_lost",
        "_over",
        "_paused",
        "_reader",
        "_retired",
        "_silence_s",
        "_timer",
        "_transport",
        "_unsent",
        "_waiting",
        "heard",
        "number",
        "on_lost",
        "receiver",
    )

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._loop = asyncio.get_running_loop()
        self._reader = reader()
        self._waiting: deque[_Waiting] = deque()
        self._unsent: list[bytes] = []
        self._flushing = self._paused = self._retired = False
        self._has_room: asyncio.Event | None = None
        self._lost: Exception | None = None
        self._over = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._silence_s = 0.0
        self.heard = self._emptied = self._loop.time()
        self.number = 0
        """The id that Redis has given it, where it is known."""
        self.receiver: Callable[[Reply], None] | None = None
        self.on_lost: Callable[[], None] | None = None
        self._transport: Any = None
        """None until there is a connection."""

    @classmethod
    async def dial(cls, target: Target, timeout_s: float) -> Self:
        link = cls((target.host, target.port))
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    await link._connect(target)
                except OSError as error:
                    raise failure(target, error) from error
            await link.begin(target, timeout_s)
        except BaseException:
            await link.close()
            raise
        return link

    async def _connect(self, target: Target) -> None:
        if target.scheme == "unix":
            await self._loop.create_unix_connection(lambda: self, target.path)
            return
        await self._loop.create_connection(lambda: self, target.host, target.port)
        keep_alive(self._transport.get_extra_info("socket"))
        if target.scheme == "rediss":
            # TLS begins on the connection: if the handshake of a connection that begins with TLS ends just when it is
            # cancelled, asyncio closes it together with the server, up to 30 s later.
            plain, context = self._transport, tls_of(target)
            self._transport = await self._loop.start_tls(plain, self, context, server_hostname=target.host)

    @property
    def is_open(self) -> bool:
        """Whether it takes further calls."""
        return self._lost is None and not self._retired

    @property
    def is_busy(self) -> bool:
        """Whether any caller waits for a reply."""
        return any(waiting.is_live for waiting in self._waiting)

    async def ask(
        self,
        data: bytes,
        timeout_s: float,
        silence_s: float,
        led: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Reply:
        while self.is_open and (self._paused or len(self._waiting) >= MAX_PIPELINED):
            await self._room()
        self.check()
        now, is_first = self._loop.time(), not self._waiting
        if led:
            self._waiting.append(_Waiting(None, now, timeout_s))
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting.append(_Waiting(reply, now, timeout_s))
        self._silence_s = silence_s
        if self._timer is None or now + timeout_s < self._timer.when():
            self._watch_at(now + timeout_s)
        if is_first:
            self.send(data)
        else:
            self._send_later(data)
        if meanwhile is not None:
            meanwhile()
        try:
            return await reply
        except asyncio.CancelledError:
            if self._retired:
                self.retire()  # this call may have been the last for which it is open
            raise
        finally:
            del reply  # it keeps its error, and the traceback of that has this frame: neither would be freed

    def send(self, data: bytes) -> None:
        """Send these bytes at once. Only for a subscription: the calls that wait have an order."""
        self._transport.write(data)

    def check(self) -> None:
        """Raise why it takes no further call."""
        if not self.is_open:
            raise _another(self._lost or ConnectionLost(CLOSED))

    def retire(self) -> None:
        """Take no further call; close when the last reply is here."""
        self._retired = True
        if self.is_busy:
            self._give_room()
        else:
            self._end(ConnectionLost(CLOSED))

    @staticmethod
    async def login(source: object, timeout_s: float) -> Login:
        return await asyncio_login(source, timeout_s)

    async def close(self) -> None:
        self._end(ConnectionLost(CLOSED))

    async def closed(self) -> None:
        """Wait until the socket is closed."""
        await asyncio.shield(self._over)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @staticmethod
    async def call(function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    # ------------------------------------------------------------------------------------------ calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard = self._loop.time()
        read, waiting = self._reader.gets, self._waiting
        try:
            self._reader.feed(data)
            while (reply := read()) is not _MORE:
                if waiting:
                    _answer(waiting.popleft().reply, reply)
                elif self.receiver is not None:
                    self.receiver(reply)
                elif isinstance(reply, ErrorReply):
                    raise reply  # the server refuses the connection
                else:
                    raise InvalidReply("a reply to no call")
        except (ErrorReply, InvalidReply) as error:
            self._end(error)
        if not waiting:
            if self._timer is not None and self.heard - self._emptied >= _RARE_S:
                self._timer.cancel()
                self._timer = None
            self._emptied = self.heard
        if self._retired:
            self.retire()
        elif self._has_room is not None:
            self._give_room()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost is None and exc is not None and not self.has_replied:
            self._read_refusal()
        self._end(exc or ConnectionLost(CLOSED))
        if not self._over.done():
            self._over.set_result(None)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._give_room()

    # -------------------------------------------------------------------------------------------------------- internal

    def _read_refusal(self) -> None:
        """Read why the server closed the new connection: the transport has failed at the write, and reads no more."""
        if self._transport.get_extra_info("ssl_object") is None:
            with suppress(OSError):
                self.data_received(os.read(self._transport.get_extra_info("socket").fileno(), _REFUSAL))

    def _send_later(self, data: bytes) -> None:
        """Send these bytes with the other calls of this turn of the loop."""
        self._unsent.append(data)
        if len(self._unsent) >= CALLS_PER_WRITE:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._end_of_turn)

    def _end_of_turn(self) -> None:
        self._flushing = False
        self._flush()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._lost is None:
            self._transport.write(b"".join(unsent))

    async def _room(self) -> None:
        if self._has_room is None:
            self._has_room = asyncio.Event()
        await self._has_room.wait()

    def _give_room(self) -> None:
        """Wake the callers that wait for room, if there is some, or if they must take another connection."""
        room, is_full = self._has_room, self._paused or len(self._waiting) >= MAX_PIPELINED
        if room is not None and not (self.is_open and is_full):
            self._has_room = None
            room.set()

    def _end(self, error: Exception) -> None:
        """Close the connection and pass the error to the calls that wait."""
        if self._lost is not None:
            return
        self._lost = error
        if self._transport is not None:
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            _answer(one.reply, _another(error))
        self._give_room()
        if self.on_lost is not None:
            self.on_lost()

    def _watch_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._watch)

    def _watch(self) -> None:
        """Give up the calls whose time is over. Every piece of a reply that arrives extends the time of all."""
        self._timer = None
        now, nearest = self._loop.time(), None
        for one in self._waiting:
            until = self.heard + self._silence_s if self.heard > one.sent else one.sent + one.bound_s
            if until <= now:
                self._retired = True
                _answer(one.reply, TimeoutError("no reply in time"))
            elif nearest is None or until < nearest:
                nearest = until
        if self._retired:
            self.retire()
        if nearest is not None and self._lost is None:
            self._watch_at(nearest)


def _answer(waiting: asyncio.Future[Reply] | None, reply: Reply) -> None:
    if waiting is None or waiting.done():
        return
    if isinstance(reply, Exception):
        waiting.set_exception(reply)
    else:
        waiting.set_result(reply)


def _another(error: Exception) -> Exception:
    """The error for one of several calls: each is raised, and has its own traceback."""
    kind = TimeoutError if replies.timed_out(error) else ConnectionLost
    another = kind(str(error) or type(error).__name__)
    another.__cause__ = error
    return another
