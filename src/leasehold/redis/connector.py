"""Makes raw connections of the redis client to a target, with all their options.

The client library only connects, performs the handshake and parses. Leasehold has its own pools, retries and timeouts.

    >>> dialler = Connector(Target.parse("redis://localhost:6379/0"))
    >>> connection = dialler.connect()               # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import hiredis
import redis.asyncio.connection as aio
import redis.connection as sync
import redis.exceptions as client
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from leasehold.core import limits
from leasehold.core.errors import AccessDenied, NotConfigured
from leasehold.core.steps import Arg
from leasehold.redis import replies
from leasehold.redis.sentinels import Question, Sentinels
from leasehold.redis.url import Target, Tls

if TYPE_CHECKING:
    from leasehold.redis.embedded.instance import Embedded

MAX_IDLE_CONNECTIONS: Final = 64
"""How many idle connections a driver keeps open for its next calls."""

__all__ = ["AsyncConnection", "Connection", "Connector", "Target", "ask_within", "pack", "socket_of"]

CLIENT_NAME: Final = "leasehold"
_MAX_LINKS: Final = 5


class Connection(Protocol):
    """The part of the client's blocking connections that Leasehold uses."""

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...
    def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...


class AsyncConnection(Protocol):
    """The part of the client's asyncio connections that Leasehold uses."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    async def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...
    async def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...


_TEXTS: Final = (str, bytes)


def pack(args: tuple[Arg, ...]) -> bytes:
    """Encode a command for the wire.

    Numbers become text here and not in hiredis: the conversion may run a signal handler, and if that raises (Ctrl-C),
    hiredis continues with a null pointer and the process dies.
    """
    plain = tuple([arg if isinstance(arg, _TEXTS) else str(arg) for arg in args])
    return cast(bytes, hiredis.pack_command(plain))  # type: ignore[arg-type]


def socket_of(connection: Connection) -> socket.socket:
    """Return the socket of a connected connection. The client has no public name for it in all its versions."""
    return cast(socket.socket, connection._sock)  # type: ignore[attr-defined]


class _WholeErrors:
    """Keeps the text of an error reply as Redis sent it: the client removes the prefixes that it knows."""

    @classmethod
    def parse_error(cls, response: str) -> Exception:
        error: Exception = super().parse_error(response)  # type: ignore[misc]
        error.reply = response  # type: ignore[attr-defined]
        return error


class _Parser(_WholeErrors, sync.DefaultParser):  # type: ignore[valid-type,misc]
    pass


class _AsyncParser(_WholeErrors, aio.DefaultParser):  # type: ignore[valid-type,misc]
    """Extends a deadline with every piece of a reply: a large reply may take long, silence may not."""

    deadline: asyncio.Timeout | None = None
    silence_s = 0.0

    async def read_from_socket(self) -> Any:
        more = await super().read_from_socket()
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + self.silence_s)
        return more


async def ask_within(
    connection: AsyncConnection, data: bytes, first_s: float, silence_s: float, led: bool = False
) -> Any:
    """Return the reply to the command in `data`; `led`: to the second of two commands, after a wait.

    Raises `TimeoutError` if nothing arrives within `first_s`, or if the reply then pauses for `silence_s`.
    """
    # The only deadline. The client's own timeouts are off: on Python 3.11 they can swallow a cancellation.
    parser: _AsyncParser = connection._parser  # type: ignore[attr-defined]
    async with asyncio.timeout(first_s) as deadline:
        await connection.send_packed_command([data], False)
        parser.deadline, parser.silence_s = deadline, silence_s
        try:
            if led:
                with replies.ignoring_refusal():
                    await connection.read_response()
            return await connection.read_response()
        finally:
            parser.deadline = None


class Connector:
    """Makes connections to a target. For `embedded:` it first starts or joins the server, and holds it until `close`.
    With sentinels every connection is to the current master.

    Safe for threads. Raises `NotConfigured` if there is no server program for `embedded:`.
    """

    def __init__(self, target: Target, connect_timeout_ms: int = limits.CONNECT_TIMEOUT_MS) -> None:
        self._target = target
        self._connect_timeout = connect_timeout_ms / 1000
        self._lock = threading.Lock()
        self._embedded: Embedded | None = None
        self._sentinels = Sentinels(target) if target.sentinels else None

    def __str__(self) -> str:
        return str(self._target)

    def connect(self, protocol: int | None = None, timeout_s: float = math.inf) -> Connection:
        """Connect. The connect timeout, or `timeout_s` if shorter, limits each step."""
        bound = min(timeout_s, self._connect_timeout)
        if self._sentinels is None:
            return _connect(self._ready(), protocol, bound)
        search = self._sentinels.search(bound)
        kept: Connection | None = None
        try:
            question = next(search)
            while True:
                _drop(kept)
                kept = None
                try:
                    kept, reply = _ask(question, protocol)
                except Exception as error:
                    question = search.throw(error)
                else:
                    question = search.send(reply)
        except StopIteration:
            assert kept is not None, "a search ends with the master's connection"
            return kept
        except BaseException:
            _drop(kept)
            raise

    async def aconnect(self, protocol: int | None = None, timeout_s: float = math.inf) -> AsyncConnection:
        """Connect for asyncio. The connect timeout, or `timeout_s` if shorter, limits the whole; with sentinels, it
        limits the question to each sentinel, and the connection to the master.

        The connection has no timeout of its own: the caller must limit every await.
        """
        bound = min(timeout_s, self._connect_timeout)
        if self._sentinels is None:
            # Starting or joining an embedded server may take time.
            embedded = self._target.scheme == "embedded"
            return await _aconnect(await asyncio.to_thread(self._ready) if embedded else self._target, protocol, bound)
        search = self._sentinels.search(bound)
        kept: AsyncConnection | None = None
        try:
            question = next(search)
            while True:
                await _adrop(kept)
                kept = None
                try:
                    kept, reply = await _aask(question, protocol)
                except Exception as error:
                    question = search.throw(error)
                else:
                    question = search.send(reply)
        except StopIteration:
            assert kept is not None, "a search ends with the master's connection"
            return kept
        except BaseException:
            await _adrop(kept)
            raise

    def outdated(self, connection: Connection | AsyncConnection) -> bool:
        """Return whether the sentinels have named another master since this connection was made."""
        if self._sentinels is None or self._sentinels.master is None:
            return False
        return (connection.host, connection.port) != self._sentinels.master  # type: ignore[union-attr]

    def close(self) -> None:
        """Release the embedded server, if there is one."""
        with self._lock:
            embedded, self._embedded = self._embedded, None
        if embedded is not None:
            embedded.close()

    def forked(self) -> None:
        """Reset the lock in a child process, without touching what the parent holds."""
        # Another thread of the parent may have held the lock.
        self._lock = threading.Lock()

    def _ready(self) -> Target:
        if self._target.scheme != "embedded":
            return self._target
        # Imported here: most programs embed no server, and the module needs Unix.
        from leasehold.redis.embedded.instance import open_embedded

        with self._lock:
            held = self._embedded
            if held is None:
                held = self._embedded = open_embedded(self._target.path or None)
            elif not held.alive():
                # Its starter was killed, or stopped the server. After a kill, a temporary directory still exists.
                held.close()
                held = self._embedded = open_embedded(held.path, remove=not self._target.path)
            return Target.parse(held.url)


def _connect(target: Target, protocol: int | None, bound_s: float) -> Connection:
    kinds = {"redis": sync.Connection, "rediss": sync.SSLConnection, "unix": sync.UnixDomainSocketConnection}
    options = _options(target, protocol, bound_s)
    connection = cast(Connection, kinds[target.scheme](parser_class=_Parser, retry=Retry(NoBackoff(), 0), **options))
    try:
        connection.connect()
    except BaseException as error:
        connection.disconnect()
        _check_trust(target, error)
        raise
    return connection


async def _aconnect(target: Target, protocol: int | None, bound_s: float) -> AsyncConnection:
    kinds = {"redis": aio.Connection, "rediss": aio.SSLConnection, "unix": aio.UnixDomainSocketConnection}
    # On Python 3.11 the client's own socket timeout can swallow a cancellation, so it gets none.
    options = _options(target, protocol, None)
    kind = kinds[target.scheme]
    connection = cast(AsyncConnection, kind(parser_class=_AsyncParser, retry=AsyncRetry(NoBackoff(), 0), **options))
    try:
        async with asyncio.timeout(bound_s):
            await connection.connect()
    except BaseException as error:
        await connection.disconnect(nowait=True)
        _check_trust(target, error)
        # Some versions of the client wrap an error reply, such as a wrong password, in a connection error.
        if isinstance(error, client.ConnectionError) and isinstance(error.__cause__, client.RedisError):
            raise error.__cause__ from None
        raise
    return connection


def _check_trust(target: Target, error: BaseException) -> None:
    """Raise `AccessDenied` if the certificate is not trusted. An immediate retry does not help; waiting may."""
    link: BaseException | None = error
    for _ in range(_MAX_LINKS):
        if isinstance(link, ssl.SSLCertVerificationError):
            raise AccessDenied(
                f"The certificate of {target} is not trusted: {link.verify_message.rstrip('.')}. It must be for this "
                "host. For another authority, set ssl_ca_certs=/path/to/ca.crt in the URL."
            ) from None
        link = None if link is None else link.__cause__ or link.__context__


def _ask(question: Question, protocol: int | None) -> tuple[Connection | None, Any]:
    """Return the reply to one question, and the connection if it is wanted."""
    connection = _connect(question.target, protocol if question.wanted else None, question.timeout_s)
    kept = False
    try:
        connection.send_packed_command([pack(question.args)], False)
        reply = connection.read_response()
        kept = question.wanted
    finally:
        if not kept:
            connection.disconnect()
    return (connection if kept else None), reply


async def _aask(question: Question, protocol: int | None) -> tuple[AsyncConnection | None, Any]:
    connection = await _aconnect(question.target, protocol if question.wanted else None, question.timeout_s)
    kept = False
    try:
        async with asyncio.timeout(question.timeout_s):
            await connection.send_packed_command([pack(question.args)], False)
            reply = await connection.read_response()
        kept = question.wanted
    finally:
        if not kept:
            await connection.disconnect(nowait=True)
    return (connection if kept else None), reply


def _drop(connection: Connection | None) -> None:
    if connection is not None:
        connection.disconnect()


async def _adrop(connection: AsyncConnection | None) -> None:
    if connection is not None:
        await connection.disconnect(nowait=True)


def _options(target: Target, protocol: int | None, timeout_s: float | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "db": target.db,
        "username": target.username,
        "password": target.password,
        "protocol": protocol or target.protocol,
        "client_name": CLIENT_NAME,
        "decode_responses": False,
        "health_check_interval": 0,
        "retry_on_timeout": False,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
    }
    # Without CLIENT SETINFO, which costs two round trips. Newer clients warn about the older option for it.
    if "driver_info" in inspect.signature(sync.AbstractConnection.__init__).parameters:
        options["driver_info"] = None
    else:
        options |= {"lib_name": None, "lib_version": None}
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


def _check_files(tls: Tls) -> None:
    """Check the TLS files: the client's own error would not name the missing file."""
    for name in ("ca_certs", "ca_path", "certfile", "keyfile"):
        path = getattr(tls, name)
        if path is not None and not os.path.exists(path):
            raise NotConfigured(f"ssl_{name} in the Redis URL is {path!r}, which does not exist on this machine.")


def _keepalive() -> dict[int, int]:
    wanted = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
    return {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}
