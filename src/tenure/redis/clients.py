"""Reads from a client of the redis package which server it is connected to, for interfaces that take one."""

from __future__ import annotations

import ssl
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlencode

import redis as sync
import redis.asyncio as aio

from tenure.core.errors import InvalidArgument
from tenure.redis.url import DEFAULT_PORT, Target, Tls, shown

Client: TypeAlias = "sync.Redis | aio.Redis"
_UNIX: Final = (sync.UnixDomainSocketConnection, aio.UnixDomainSocketConnection)
_TLS: Final = (sync.SSLConnection, aio.SSLConnection)
_PLAIN: Final = (sync.Connection, aio.Connection)
_FILES: Final = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
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


def url_of(client: object) -> str:
    """Return the URL of a client's server, with its password. Raises `InvalidArgument` as `target_of` does."""
    target = target_of(client)
    tls, given = target.tls, {"db": str(target.db)}
    if target.scheme == "rediss":
        files = {name: getattr(tls, name.removeprefix("ssl_")) for name in _FILES}
        given |= {name: path for name, path in files.items() if path is not None}
        given |= {"ssl_cert_reqs": "required" if tls.verify else "none", "ssl_check_hostname": str(tls.check_hostname)}
    secret = ""
    if target.username or target.password:
        secret = f"{quote(target.username or '', '')}:{quote(target.password or '', '')}@"
    where = quote(target.path) if target.scheme == "unix" else shown((quote(target.host, ":"), target.port))
    return f"{target.scheme}://{secret}{where}?{urlencode(given, quote_via=quote)}"


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
