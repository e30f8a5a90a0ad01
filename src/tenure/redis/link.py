"""Connections to Redis, behind the same coroutines for blocking code and asyncio.

Tenure makes them itself: the redis package takes as long to import as all of Tenure. The coroutines of `BlockingLink`
block instead of suspending, so that `steps.finish` runs them without an event loop. `pipeline` has the link of asyncio.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self, TypeVar, cast

import hiredis

from tenure.core.errors import AccessDenied, NotConfigured
from tenure.core.steps import Arg, Reply
from tenure.redis import replies
from tenure.redis.credentials import Login, blocking_login, login
from tenure.redis.failures import ConnectionLost, ErrorReply, InvalidReply
from tenure.redis.replies import Reaction
from tenure.redis.url import Address, Target

T = TypeVar("T")

CLOSED: Final = "the other end closed the connection"
_PIECE: Final = 64 * 1024
"""The most bytes that are read from the socket at once."""
_TEXTS: Final = frozenset({str, bytes})


def pack(args: tuple[Arg, ...]) -> bytes:
    """Encode a command for the wire.

    Numbers become text here and not in hiredis: the conversion may run a signal handler, and if that raises (Ctrl-C),
    hiredis continues with a null pointer and the process dies.
    """
    plain = tuple([arg if (kind := type(arg)) in _TEXTS else str(arg) if kind is int else _text(arg) for arg in args])
    return cast(bytes, hiredis.pack_command(plain))  # type: ignore[arg-type]


def _text(arg: Arg) -> str | bytes:
    return arg if isinstance(arg, (str, bytes)) else str(arg)


_SET_NAME: Final = pack(("CLIENT", "SETNAME", "tenure"))


def reader() -> Any:
    """Make a parser of replies. It returns False for an incomplete one."""
    return hiredis.Reader(protocolError=InvalidReply, replyError=ErrorReply)


class Link(ABC):
    """A connection to Redis, its address, and whether it has replied to a call before. `is_shared`: several calls use
    it at once. `idle_since`: when its last call ended, in monotonic time."""

    __slots__ = ("address", "has_replied", "idle_since", "is_shared")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.has_replied = self.is_shared = False
        self.idle_since = 0.0

    @classmethod
    @abstractmethod
    async def dial(cls, target: Target, timeout_s: float) -> Self:
        """Connect. The timeout limits each step: to connect, to get the credentials, and each reply."""

    async def begin(self, target: Target, timeout_s: float) -> None:
        """Authenticate, name the connection, and choose the database."""
        if target.credentials is not None:
            try:
                await self._log_in(await self.login(target.credentials, timeout_s), timeout_s)
            except Exception as error:
                if not replies.is_reply(error) or replies.action_of(error) is not Reaction.DENIED:
                    raise
                # The password may have changed a moment ago.
                await self._log_in(await self.login(target.credentials, timeout_s), timeout_s)
        else:
            await self._log_in(login(target.username, target.password), timeout_s)
        # For `CLIENT LIST`. A user or a proxy that may not do this works all the same.
        with replies.ignoring_refusal():
            await self.ask(_SET_NAME, timeout_s, timeout_s)
        if target.db:
            await self.ask(pack(("SELECT", target.db)), timeout_s, timeout_s)

    @abstractmethod
    async def ask(
        self,
        data: bytes,
        timeout_s: float,
        silence_s: float,
        led: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Reply:
        """Return the reply to the command in `data`; `led`: to the second of two commands, after a wait.

        `meanwhile` is called when the command is sent, before the reply is read.

        Raises `TimeoutError` if nothing arrives within `timeout_s`, or if the reply then pauses for `silence_s`.
        """

    async def _log_in(self, credentials: Login, timeout_s: float) -> None:
        if credentials:
            await self.ask(pack(("AUTH", *credentials)), timeout_s, timeout_s)

    @staticmethod
    @abstractmethod
    async def login(source: object, timeout_s: float) -> Login:
        """Get the user and the password from a function. Raises `NoCredentials`."""

    @abstractmethod
    async def close(self) -> None: ...

    @staticmethod
    @abstractmethod
    async def sleep(seconds: float) -> None: ...

    @staticmethod
    @abstractmethod
    async def call(function: Callable[[], T]) -> T:
        """Call a function that may block."""


class BlockingLink(Link):
    __slots__ = ("_pid", "_reader", "_socket", "_timeout")

    def __init__(self, address: Address, connected: socket.socket) -> None:
        super().__init__(address)
        self._socket = connected
        self._pid = os.getpid()
        self._reader = reader()
        self._timeout = -1.0

    def __del__(self) -> None:
        self._socket.close()  # a child process drops the sockets of its parent

    @classmethod
    async def dial(cls, target: Target, timeout_s: float) -> Self:
        try:
            link = cls((target.host, target.port), _connect(target, timeout_s))
        except OSError as error:
            raise failure(target, error) from error
        try:
            await link.begin(target, timeout_s)
        except BaseException:
            await link.close()
            raise
        return link

    async def ask(
        self,
        data: bytes,
        timeout_s: float,
        silence_s: float,
        led: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Reply:
        self.set_timeout(timeout_s)
        self.send(data)
        if meanwhile is not None:
            meanwhile()
        if led:
            with replies.ignoring_refusal():
                self.receive()
        return self.receive()

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            if not self.has_replied:
                self._read_refusal()
            raise

    def _read_refusal(self) -> None:
        """Raise the error reply that the server sent before it closed the new connection, if there is one."""
        with suppress(OSError):
            self.receive()

    def receive(self) -> Reply:
        """Return the next reply. After a `TimeoutError` the part of it that is here is kept for the next call."""
        reply = self._reader.gets()
        while reply is False:
            piece = self._socket.recv(_PIECE)
            if not piece:
                raise ConnectionLost(CLOSED)
            self._reader.feed(piece)
            reply = self._reader.gets()
        try:
            if isinstance(reply, Exception):
                raise reply
            return reply
        finally:
            del reply  # an error's traceback has this frame: neither would be freed, nor what the call has sent

    def set_timeout(self, timeout_s: float) -> None:
        """Set the timeout of the socket: for sending as a whole, and for each piece of a reply that arrives."""
        if timeout_s != self._timeout:
            self._socket.settimeout(timeout_s)
            self._timeout = timeout_s

    @staticmethod
    async def login(source: object, timeout_s: float) -> Login:
        return blocking_login(source, timeout_s)

    async def close(self) -> None:
        if self._pid == os.getpid():
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # a child process may have the socket, too
        self._socket.close()

    @staticmethod
    async def sleep(seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251

    @staticmethod
    async def call(function: Callable[[], T]) -> T:
        return function()


def _connect(target: Target, timeout_s: float) -> socket.socket:
    if target.scheme == "unix":
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(timeout_s)
    else:
        made = socket.create_connection((target.host, target.port), timeout_s)
    try:
        if target.scheme == "unix":
            made.connect(target.path)
            return made
        keep_alive(made)
        return tls_of(target).wrap_socket(made, server_hostname=target.host) if target.scheme == "rediss" else made
    except BaseException:
        made.close()
        raise


def keep_alive(made: socket.socket) -> None:
    """Let the system notice that the other end of a TCP connection is gone, and send what is short at once."""
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def tls_of(target: Target) -> ssl.SSLContext:
    """Return how the server's certificate is verified, and the client's own. Raises `NotConfigured`."""
    tls = target.tls
    for name in ("ca_certs", "ca_path", "certfile", "keyfile"):
        path = getattr(tls, name)
        if path is not None and not os.path.exists(path):  # the error of `ssl` does not name the file
            raise NotConfigured(f"ssl_{name} in the Redis URL is {path!r}, which does not exist on this machine.")
    context = ssl.create_default_context()
    context.check_hostname = tls.verify and tls.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certfile := tls.certfile or tls.keyfile:
        context.load_cert_chain(certfile, tls.keyfile)
    if tls.ca_certs or tls.ca_path:
        context.load_verify_locations(tls.ca_certs, tls.ca_path)
    return context


def failure(target: Target, error: OSError) -> Exception:
    """Return the error to raise where no connection could be made: `AccessDenied` if its certificate is not trusted."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AccessDenied(
            f"The certificate of {target} is not trusted: {error.verify_message.rstrip('.')}. It must be for this "
            "host. For another authority, set ssl_ca_certs=/path/to/ca.crt in the URL."
        )
    if isinstance(error, TimeoutError):
        return TimeoutError("no connection in time")
    where = target.path if target.scheme == "unix" else f"{target.host}:{target.port}"
    return ConnectionLost(f"Error {error.errno} connecting to {where}. {error.strerror or error}.")
