"""Connections to Redis: those of the client library, behind the same coroutines for blocking code and asyncio.

The client library only connects and performs the handshake. Tenure has its own pools, retries and timeouts.
The coroutines of `BlockingLink` block instead of suspending, so that `steps.finish` runs them without an event loop.
`pipeline` has the link of asyncio.
"""

from __future__ import annotations

import inspect
import os
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar, cast

import hiredis
import redis.asyncio.connection as aio
import redis.connection as sync
import redis.exceptions as client
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenure.core.errors import AccessDenied, NotConfigured
from tenure.core.steps import Arg, Reply
from tenure.redis import replies
from tenure.redis.credentials import Login, blocking_login, login
from tenure.redis.replies import Reaction
from tenure.redis.url import Target, Tls

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


class WholeErrors:
    """Keeps the text of an error reply as Redis sent it: the client removes the prefixes that it knows."""

    @classmethod
    def parse_error(cls, response: str) -> Exception:
        error: Exception = super().parse_error(response)  # type: ignore[misc]
        error.reply = response  # type: ignore[attr-defined]
        return error


class _SyncParser(WholeErrors, sync.DefaultParser):  # type: ignore[valid-type,misc]
    pass


def reader() -> Any:
    """Make a parser of replies. It returns False for an incomplete one."""
    return hiredis.Reader(protocolError=client.InvalidResponse, replyError=_SyncParser.parse_error)


class Link(ABC):
    """A connection to Redis, and whether it has replied to a call before. `is_shared`: several calls use it at once.
    `idle_since`: when its last call ended, in monotonic time."""

    __slots__ = ("connection", "has_replied", "idle_since", "is_shared")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.has_replied = self.is_shared = False
        self.idle_since = 0.0

    @classmethod
    @abstractmethod
    async def dial(cls, target: Target, timeout_s: float) -> Self:
        """Connect. The timeout limits each step: to connect, to get the credentials, and each reply."""

    async def begin(self, target: Target, timeout_s: float) -> None:
        """Authenticate, name the connection, and choose the database.

        This is not left to the client library: it closes the connection at the first error, before it has read why the
        server refuses it.
        """
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
    __slots__ = ("_reader", "_socket", "_timeout")

    def __init__(self, connection: sync.AbstractConnection) -> None:
        super().__init__(connection)
        # The client has no public name for it in all its versions.
        self._socket = cast(socket.socket, connection._sock)
        self._reader = reader()
        self._timeout = -1.0

    @classmethod
    async def dial(cls, target: Target, timeout_s: float) -> Self:
        kinds = {"redis": sync.Connection, "rediss": sync.SSLConnection, "unix": sync.UnixDomainSocketConnection}
        options = options_of(target, timeout_s)
        connection = kinds[target.scheme](parser_class=_SyncParser, retry=Retry(NoBackoff(), 0), **options)
        try:
            connection.connect()
            link = cls(connection)
            await link.begin(target, timeout_s)
        except BaseException as error:
            connection.disconnect()
            check_refusal(target, error)
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
        try:
            self.receive()
        except OSError:
            return
        except client.ConnectionError as error:
            if str(error) != CLOSED:
                raise

    def receive(self) -> Reply:
        """Return the next reply. After a `TimeoutError` the part of it that is here is kept for the next call."""
        reply = self._reader.gets()
        while reply is False:
            piece = self._socket.recv(_PIECE)
            if not piece:
                raise client.ConnectionError(CLOSED)
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
        self.connection.disconnect()

    @staticmethod
    async def sleep(seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251

    @staticmethod
    async def call(function: Callable[[], T]) -> T:
        return function()


def check_refusal(target: Target, error: BaseException) -> None:
    """Raise `AccessDenied` for a certificate that is not trusted, and an error reply that the client has wrapped."""
    for link in replies.chain(error):
        if isinstance(link, ssl.SSLCertVerificationError):
            raise AccessDenied(
                f"The certificate of {target} is not trusted: {link.verify_message.rstrip('.')}. It must be for this "
                "host. For another authority, set ssl_ca_certs=/path/to/ca.crt in the URL."
            ) from None
    if isinstance(error, client.ConnectionError) and isinstance(error.__cause__, client.RedisError):
        raise error.__cause__ from None


def options_of(target: Target, timeout_s: float | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "protocol": 2,
        "redis_connect_func": _leave_to_link,
        "decode_responses": False,
        "health_check_interval": 0,
        "retry_on_timeout": False,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
    }
    if target.scheme == "unix":
        return options | {"path": target.path}
    options |= {"host": target.host, "port": target.port, "socket_keepalive": True}
    options["socket_keepalive_options"] = _keepalive()
    if target.scheme == "rediss":
        tls = target.tls
        _check_files(tls)
        options |= {
            "ssl_ca_certs": tls.ca_certs,
            "ssl_ca_path": tls.ca_path,
            "ssl_certfile": tls.certfile,
            "ssl_keyfile": tls.keyfile,
            "ssl_cert_reqs": "required" if tls.verify else "none",
            "ssl_check_hostname": tls.check_hostname,
            "ssl_min_version": ssl.TLSVersion.TLSv1_2,
        }
        if "ssl_ca_path" not in inspect.signature(aio.SSLConnection.__init__).parameters and tls.ca_path is None:
            del options["ssl_ca_path"]
    return options


def _leave_to_link(connection: object) -> None:
    """Do nothing after the socket is connected: `Link.begin` does the rest."""


def _check_files(tls: Tls) -> None:
    """Check the TLS files: the client's own error would not name the missing file."""
    for name in ("ca_certs", "ca_path", "certfile", "keyfile"):
        path = getattr(tls, name)
        if path is not None and not os.path.exists(path):
            raise NotConfigured(f"ssl_{name} in the Redis URL is {path!r}, which does not exist on this machine.")


def _keepalive() -> dict[int, int]:
    wanted = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
    return {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}
