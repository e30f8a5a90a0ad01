"""Reads from a client of the redis package which server it is connected to, for interfaces that take one."""

from __future__ import annotations

import ssl
from typing import Any, Final, TypeAlias

import redis as sync
import redis.asyncio as aio

from tenure.core.errors import InvalidArgument
from tenure.redis.url import DEFAULT_PORT, Target, Tls

Client: TypeAlias = "sync.Redis | aio.Redis"
_UNIX: Final = (sync.UnixDomainSocketConnection, aio.UnixDomainSocketConnection)
_TLS: Final = (sync.SSLConnection, aio.SSLConnection)
_PLAIN: Final = (sync.Connection, aio.Connection)
_UNKNOWN: Final = ("credential_provider", "ssl_ca_data", "ssl_password")
"""Options of a client that a target cannot hold."""


def target_of(client: object) -> Target:
    """Return the server of a client, blocking or for asyncio. Connections are never shared with it.

    Raises `InvalidArgument` for other objects, and for clients of a cluster, of sentinels, or with credentials that
    change.
    """
    pool = getattr(client, "connection_pool", None)
    kind, options = getattr(pool, "connection_class", None), getattr(pool, "connection_kwargs", {})
    if kind not in (*_UNIX, *_TLS, *_PLAIN) or any(options.get(name) is not None for name in _UNKNOWN):
        raise InvalidArgument(
            "url must be the URL of Redis, or a client of the redis package for one server with a fixed password, got "
            f"a value of type {type(client).__name__}. A URL can also name a cluster or sentinels."
        )
    return Target(
        "unix" if kind in _UNIX else "rediss" if kind in _TLS else "redis",
        host="" if kind in _UNIX else options.get("host") or "localhost",
        port=int(options.get("port") or DEFAULT_PORT),
        path=options["path"] if kind in _UNIX else "",
        db=int(options.get("db") or 0),
        username=options.get("username"),
        password=options.get("password"),
        tls=_tls(options) if kind in _TLS else Tls(),
    )


def _tls(options: dict[str, Any]) -> Tls:
    verify = options.get("ssl_cert_reqs", "required") not in (None, "none", ssl.CERT_NONE)
    return Tls(
        ca_certs=options.get("ssl_ca_certs"),
        ca_path=options.get("ssl_ca_path"),
        certfile=options.get("ssl_certfile"),
        keyfile=options.get("ssl_keyfile"),
        verify=verify,
        check_hostname=verify and bool(options.get("ssl_check_hostname", True)),
    )
