"""From a target to raw connections of the redis client, with every option of them set here.

The client library only connects, shakes hands and parses: pools, retries and timeouts are ours.

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
"""Connections that a driver keeps open for its next calls."""

__all__ = ["AsyncConnection", "Connection", "Connector", "Target", "ask_within", "pack", "socket_of"]

CLIENT_NAME: Final = "leasehold"
_MAX_LINKS: Final = 5


class Connection(Protocol):
    """What we use of the client's blocking connections."""

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...
    def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...


class AsyncConnection(Protocol):
    """What we use of the client's asyncio connections."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    async def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...
    async def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...


_TEXTS: Final = (str, bytes)


def pack(args: tuple[Arg, ...]) -> bytes:
    """A command as bytes for the wire.

    Numbers are written here: making text of one can run a signal handler, and when that raises (Ctrl-C), hiredis goes
    on with a null pointer and the process dies.
    """
    plain = tuple([arg if isinstance(arg, _TEXTS) else str(arg) for arg in args])
    return cast(bytes, hiredis.pack_command(plain))  # type: ignore[arg-type]


def socket_of(connection: Connection) -> socket.socket:
    """The socket of a connected connection. The client has no public name for it in all its versions."""
    return cast(socket.socket, connection._sock)  # type: ignore[attr-defined]


class _WholeErrors:
    """Keeps the text of an error reply as Redis sent it: the client takes known prefixes off."""

    @classmethod
    def parse_error(cls, response: str) -> Exception:
        error: Exception = super().parse_error(response)  # type: ignore[misc]
        error.reply = response  # type: ignore[attr-defined]
        return error


class _Parser(_WholeErrors, sync.DefaultParser):  # type: ignore[valid-type,misc]
    pass


class _AsyncParser(_WholeErrors, aio.DefaultParser):  # type: ignore[valid-type,misc]
    """Puts a deadline off with every piece of a reply: a large one may take long, silence may not."""

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
    """The reply to the command in `data`; `led`: to the second of two commands, after a wait.

    Raises `TimeoutError` when nothing of it has come after `first_s`, or when it falls silent for `silence_s`.
    """
    # The only deadline: the client's own timeouts are off, they can swallow a cancellation on Python 3.11.
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
    """Makes connections to a target. For `embedded:` it starts or joins the server first, and holds it until `close`.
    With sentinels each connection is to the master that they name, and only when it is one.

    Safe to use from several threads. Raises `NotConfigured` when there is no server to embed.
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
        """A new connection. Each step of connecting is bounded by the connect timeout, or by `timeout_s` if shorter."""
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
        """A new connection for asyncio. All of connecting is bounded by the connect timeout, or by `timeout_s`; with
        sentinels, all of asking one of them, and of connecting to the master.

        The connection has no timeout of its own: the caller must bound every await.
        """
        bound = min(timeout_s, self._connect_timeout)
        if self._sentinels is None:
            # Starting or joining an embedded server may take a while.
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
        """Whether the sentinels have named another master since this connection was made."""
        if self._sentinels is None or self._sentinels.master is None:
            return False
        return (connection.host, connection.port) != self._sentinels.master  # type: ignore[union-attr]

    def close(self) -> None:
        """Let go of the embedded server, if there is one."""
        with self._lock:
            embedded, self._embedded = self._embedded, None
        if embedded is not None:
            embedded.close()

    def forked(self) -> None:
        """Start afresh in a child process, leaving alone what the parent holds."""
        # The lock may have been held by another thread of the parent.
        self._lock = threading.Lock()

    def _ready(self) -> Target:
        if self._target.scheme != "embedded":
            return self._target
        # Only here, because most programs never embed a server, and the module needs a Unix.
        from leasehold.redis.embedded.instance import open_embedded

        with self._lock:
            held = self._embedded
            if held is None:
                held = self._embedded = open_embedded(self._target.path or None)
            elif not held.alive():
                # Its warden was killed, or gave the server up. A temporary directory is still there in the first case.
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
    # On Python 3.11 the client can swallow a cancellation when it has a socket timeout of its own: give it none.
    options = _options(target, protocol, None)
    kind = kinds[target.scheme]
    connection = cast(AsyncConnection, kind(parser_class=_AsyncParser, retry=AsyncRetry(NoBackoff(), 0), **options))
    try:
        async with asyncio.timeout(bound_s):
            await connection.connect()
    except BaseException as error:
        await connection.disconnect(nowait=True)
        _check_trust(target, error)
        # Here some versions of the client wrap an error reply, a wrong password for one, as a connection error.
        if isinstance(error, client.ConnectionError) and isinstance(error.__cause__, client.RedisError):
            raise error.__cause__ from None
        raise
    return connection


def _check_trust(target: Target, error: BaseException) -> None:
    """Raise `AccessDenied` when it was the certificate: to try again at once does not help, to wait may."""
    link: BaseException | None = error
    for _ in range(_MAX_LINKS):
        if isinstance(link, ssl.SSLCertVerificationError):
            raise AccessDenied(
                f"The certificate of {target} is not trusted: {link.verify_message.rstrip('.')}. Expected one for this "
                "host, signed by an authority that is known here: give that as ssl_ca_certs=/path/to/ca.crt in the URL."
            ) from None
        link = None if link is None else link.__cause__ or link.__context__


def _ask(question: Question, protocol: int | None) -> tuple[Connection | None, Any]:
    """The reply to one question, and the connection when it is wanted."""
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
    # No CLIENT SETINFO: it costs two round trips a connection. The newer clients warn about the older way to say so.
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
    """The client would say that a file is missing, but not which."""
    for name in ("ca_certs", "ca_path", "certfile", "keyfile"):
        path = getattr(tls, name)
        if path is not None and not os.path.exists(path):
            raise NotConfigured(f"ssl_{name} in the Redis URL names {path!r}, and there is no such file here.")


def _keepalive() -> dict[int, int]:
    wanted = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
    return {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}
