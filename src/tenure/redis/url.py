"""The URL of Redis, parsed and checked. Messages never show its password.

>>> str(Target.parse("redis://:s%40crit@example.org/2"))
'redis://***@example.org:6379/2'
>>> Target.parse("embedded:./data").path.endswith("/data")
True
>>> Target.parse("redis+sentinel://a,b:26380/shop/1").sentinels
(('a', 26379), ('b', 26380))
>>> Target.parse("redis+cluster://a,b:7000").seeds
(('a', 6379), ('b', 7000))
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct

from tenure.core import limits
from tenure.core.errors import NotConfigured
from tenure.core.values import replace

MAX_SENTINELS: Final = 32
"""The most sentinels in a URL."""
MAX_SEEDS: Final = 32
"""The most nodes of a cluster in a URL. They name the others."""

DEFAULT_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
_EXPECTED: Final = (
    "Write redis://[user:password@]host:6379/0, rediss://... for TLS, unix:///path/to/redis.sock?db=0, "
    "redis+sentinel://host1:26379,host2:26379/service/0, redis+cluster://host1:6379,host2:6379/, or embedded:PATH."
)
_ENCODE: Final = "Special characters in a user name or a password must be percent-encoded (@ is %40, / is %2F)."
_COMMON: Final = frozenset({"db", "protocol", "username", "password", "max_connections"})
_SENTINEL: Final = frozenset({"sentinel_username", "sentinel_password"})
_TLS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}
)
_CERT_REQS: Final = {"required": True, "none": False, "cert_required": True, "cert_none": False}
_BOOLS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

Scheme = Literal[
    "redis", "rediss", "unix", "embedded", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"
]
Address: TypeAlias = tuple[str, int]
"""A host and a port."""


class Tls(Struct, frozen=True):
    """How to verify a `rediss://` server. Both checks are on by default."""

    ca_certs: str | None = None
    ca_path: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: bool = True
    check_hostname: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """A Redis server. `path`: the socket (unix) or the data directory (embedded; "" for a temporary one).

    With `sentinels`, the target is the master of `service`, and has neither host nor port. With `seeds` it is the
    cluster of these nodes.
    """

    scheme: Scheme
    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: Tls = field(default_factory=Tls)
    sentinels: tuple[Address, ...] = ()
    service: str = ""
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    seeds: tuple[Address, ...] = ()
    max_connections: int | None = None
    credentials: object = None
    """A function that gives the user and the password of each new connection. It replaces what the URL contains."""

    def __str__(self) -> str:
        secret = "***@" if self.username or self.password or self.sentinel_password or self.credentials else ""
        if self.scheme == "embedded":
            return f"embedded:{self.path}"
        if self.scheme == "unix":
            return f"unix://{secret}{self.path}" + (f"?db={self.db}" if self.db else "")
        if self.sentinels:
            return f"{self.scheme}://{secret}{','.join(map(shown, self.sentinels))}/{self.service}/{self.db}"
        if self.seeds:
            return f"{self.scheme}://{secret}{','.join(map(shown, self.seeds))}/"
        return f"{self.scheme}://{secret}{shown((self.host, self.port))}/{self.db}"

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    @classmethod
    def parse(cls, url: str) -> Target:
        """Parse a URL.

            Target.parse("unix:///run/redis.sock?db=1")

        Options: `db`, `username`, `password`; for `rediss://` also `ssl_ca_certs`, `ssl_ca_path`, `ssl_certfile`,
        `ssl_keyfile`, `ssl_cert_reqs` (required or none) and `ssl_check_hostname`; for `redis+sentinel://` and
        `rediss+sentinel://` also `sentinel_username` and `sentinel_password`. A cluster has only the database 0.
        `max_connections` counts before the setting of this name. `protocol` (2 or 3) is for other programs that share
        the URL: Tenure uses RESP2.
        Raises `NotConfigured`. Its text repeats no part of the URL that may be a password.
        """
        if url.startswith("embedded:"):
            return _embedded(url)
        scheme = url.partition("://")[0]
        if scheme in ("redis+sentinel", "rediss+sentinel"):
            return _sentinels(url)
        if scheme in ("redis+cluster", "rediss+cluster"):
            return _cluster(url)
        if scheme not in ("redis", "rediss", "unix") or "://" not in url:
            known = "://" in url and scheme.isalnum()
            named = f"Redis has no scheme {scheme}://." if known else "It has no scheme."
            raise NotConfigured(f"The Redis URL cannot be read: {named} {_EXPECTED}")
        parts = _split(url)
        options = _options(parts)
        username = unquote(parts.username or "") or options.get("username") or None
        password = unquote(parts.password or "") or options.get("password") or None
        if scheme == "unix":
            # Only a secret may stand before the path. Anything else may be a password with a slash.
            if parts.netloc.rpartition("@")[2] or not parts.path.startswith("/"):
                raise NotConfigured(f"A unix:// URL needs an absolute path, as in unix:///run/redis.sock. {_EXPECTED}")
            db = _db(options.get("db", "0"))
            most = _most(options)
            return cls(
                "unix", path=unquote(parts.path), db=db, username=username, password=password, max_connections=most
            )
        return cls(
            "rediss" if scheme == "rediss" else "redis",
            host=unquote(parts.hostname or "localhost"),
            port=_port(parts),
            db=_db(options.get("db") or unquote(parts.path).strip("/") or "0"),
            username=username,
            password=password,
            tls=_tls(options),
            max_connections=_most(options),
        )


def is_cluster(url: str) -> bool:
    """Return whether a URL names a cluster."""
    return url.startswith(("redis+cluster://", "rediss+cluster://"))


def shown(address: Address) -> str:
    """Format a host and a port as in a URL."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def master_of(target: Target, address: Address) -> Target:
    """Return the target of one server: the master that sentinels have named, or a node of a cluster."""
    return Target(
        "rediss" if target.scheme.startswith("rediss") else "redis",
        host=address[0],
        port=address[1],
        db=target.db,
        username=target.username,
        password=target.password,
        tls=target.tls,
        max_connections=target.max_connections,
        credentials=target.credentials,
    )


def sentinel_of(target: Target, address: Address) -> Target:
    """Return the target of one sentinel, with the sentinels' own user and password, if any."""
    user, password = target.sentinel_username, target.sentinel_password
    return replace(master_of(target, address), db=0, username=user, password=password, credentials=None)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:  # its text contains the URL
        raise NotConfigured(f"The Redis URL cannot be read. {_EXPECTED} {_ENCODE}") from None
    if parts.fragment:
        raise NotConfigured(f"The Redis URL has a part after #. {_EXPECTED} {_ENCODE}")
    return parts


def _sentinels(url: str) -> Target:
    """Parse [user:password@]host[:port],host[:port],.../service[/db] behind the scheme. The user is for Redis only."""
    username, password, hosts, parts = _many(url)
    options = _options(parts)
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise NotConfigured(
            "The Redis URL does not name the service that the sentinels watch. Write it as the first part of the path, "
            "as in redis+sentinel://host1:26379,host2:26379/mymaster/0."
        )
    found = _addresses(hosts, "sentinel", SENTINEL_PORT, MAX_SENTINELS)
    return Target(
        "rediss+sentinel" if parts.scheme == "rediss+sentinel" else "redis+sentinel",
        db=_db(options.get("db") or unquote(db) or "0"),
        username=username or options.get("username") or None,
        password=password or options.get("password") or None,
        tls=_tls(options),
        sentinels=found,
        service=unquote(service),
        sentinel_username=options.get("sentinel_username") or None,
        sentinel_password=options.get("sentinel_password") or None,
        max_connections=_most(options),
    )


def _cluster(url: str) -> Target:
    """Parse [user:password@]host[:port],host[:port],... behind the scheme."""
    username, password, hosts, parts = _many(url)
    options = _options(parts)
    found = _addresses(hosts, "node", DEFAULT_PORT, MAX_SEEDS)
    path = parts.path.strip("/")
    if path not in ("", "0") or options.get("db", "0") != "0":
        raise NotConfigured(
            "The Redis URL names a database, and a cluster has only 0: write redis+cluster://host1:6379,host2:6379/. "
            "Namespaces keep apps apart."
        )
    return Target(
        "rediss+cluster" if parts.scheme == "rediss+cluster" else "redis+cluster",
        username=username or options.get("username") or None,
        password=password or options.get("password") or None,
        tls=_tls(options),
        seeds=found,
        max_connections=_most(options),
    )


def _many(url: str) -> tuple[str, str, str, SplitResult]:
    """Split a URL with several hosts: the user, the password, the hosts, and the URL without these."""
    scheme, _, rest = url.partition("://")
    end = min((position for mark in "/?#" if (position := rest.find(mark)) >= 0), default=len(rest))
    secret, _, hosts = rest[:end].rpartition("@")
    username, _, password = secret.partition(":")
    return unquote(username), unquote(password), hosts, _split(f"{scheme}://{rest[end:]}")


def _addresses(hosts: str, what: str, port: int, most: int) -> tuple[Address, ...]:
    found = tuple(dict.fromkeys(_address(host, what, port) for host in hosts.split(",")))
    if len(found) > most:
        raise NotConfigured(f"The Redis URL must name at most {most} {what}s, got {len(found)}.")
    return found


def _address(text: str, what: str, port: int) -> Address:
    parts = _split(f"redis://{text}")
    if not parts.hostname:
        raise NotConfigured(f"The Redis URL has a {what} without a host. {_EXPECTED} {_ENCODE}")
    return unquote(parts.hostname), _port(parts, port)


def _embedded(url: str) -> Target:
    path = url.removeprefix("embedded:").removeprefix("//")
    return Target("embedded", path=os.path.abspath(os.path.expanduser(path)) if path else "")


def _options(parts: SplitResult) -> dict[str, str]:
    allowed = _COMMON
    if parts.scheme.startswith("rediss"):
        allowed |= _TLS
    if parts.scheme.endswith("+sentinel"):
        allowed |= _SENTINEL
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name in allowed:
            continue
        shown = f"`{name}`" if name.isidentifier() and len(name) < 40 else "in it"
        raise NotConfigured(
            f"The Redis URL has an unknown option {shown}. It must be one of: {', '.join(sorted(allowed))}. Timeouts, "
            "retries and pools belong to Tenure."
        )
    if options.get("protocol", "2") not in ("2", "3"):
        raise NotConfigured("The option `protocol` of the Redis URL must be 2 or 3.")
    return options


def _port(parts: SplitResult, default: int = DEFAULT_PORT) -> int:
    try:
        return parts.port if parts.port is not None else default
    except ValueError:
        raise NotConfigured(
            f"The port in the Redis URL must be a number from 0 to 65535. {_EXPECTED} {_ENCODE}"
        ) from None


def _db(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise NotConfigured(
            f"The database in the Redis URL must be a number, as in redis://localhost:6379/0. {_ENCODE}"
        )
    return int(text)


def _most(options: dict[str, str]) -> int | None:
    """Return the maximum of connections; None: the URL has none."""
    text = options.get("max_connections")
    if text is None:
        return None
    least, most = limits.MIN_CONNECTIONS, limits.MAX_CONNECTIONS
    if not (text.isascii() and text.isdigit() and len(text) < 8 and least <= int(text) <= most):
        raise NotConfigured(f"Option `max_connections` of the Redis URL must be a number from {least} to {most:,}.")
    return int(text)


def _tls(options: dict[str, str]) -> Tls:
    verify = _choice(options, "ssl_cert_reqs", _CERT_REQS)
    return Tls(
        ca_certs=options.get("ssl_ca_certs"),
        ca_path=options.get("ssl_ca_path"),
        certfile=options.get("ssl_certfile"),
        keyfile=options.get("ssl_keyfile"),
        verify=verify,
        check_hostname=verify and _choice(options, "ssl_check_hostname", _BOOLS),
    )


def _choice(options: dict[str, str], name: str, choices: dict[str, bool]) -> bool:
    if name not in options:
        return True
    try:
        return choices[options[name].lower()]
    except KeyError:
        raise NotConfigured(f"Option `{name}` of the Redis URL must be one of: {', '.join(sorted(choices))}.") from None
