"""All settings: their environment variables, defaults and meanings."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from tenure.core import limits, names
from tenure.core.errors import InvalidArgument, NotConfigured, invalid
from tenure.protocols.registry import DEFAULT as DEFAULT_PROTOCOL
from tenure.protocols.registry import choices, parse_protocol

MAX_PAYLOAD_BYTES: Final = 1024 * 1024
"""The default of `max_payload`."""

DEFAULT_URL = "redis://localhost:6379/0"
DEFAULT_NAMESPACE = "tenure"
MAX_PATIENCE_MS: Final = 3 * limits.MINUTE
MAX_REPLY_TIMEOUT_MS: Final = 2 * limits.MINUTE
"""A call is retried for at most these times, while Redis still remembers its answer (`ANSWER_TTL_MS`)."""


class CredentialProvider(Protocol):
    """As in the redis package."""

    def get_credentials(self) -> tuple[str, ...]: ...


Credentials: TypeAlias = Callable[[], tuple[str, ...] | Awaitable[tuple[str, ...]]] | CredentialProvider
"""Returns the user and the password, or (password,), for a new connection. It may be async, and may block."""


class Variable(Struct, frozen=True):
    """The environment variables of a setting (the first that is not empty counts), its parser and its meaning."""

    names: tuple[str, ...]
    read: Callable[[str], Any]
    meaning: str


def _setting(default: Any, meaning: str, *variables: str, read: Callable[[str], Any] = str, shown: bool = True) -> Any:
    return field(default=default, repr=shown, metadata={"variable": Variable(variables, read, meaning)})


def _read_switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise invalid("log_jobs", "1 or 0", names.shown(text))
    return text == "1"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a client. Times are seconds, sizes are bytes.

        Settings.load(namespace="shop")      # the arguments first, then the environment, then the defaults

    Raises `InvalidArgument` for a wrong value, `NotConfigured` if it came from the environment.
    """

    # The URL may contain a password, so the repr leaves it out.
    url: str = _setting(
        DEFAULT_URL,
        "Where Redis is: redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, "
        "redis+cluster://, rediss+cluster:// or embedded:PATH.",
        "TENURE_URL",
        "REDIS_URL",
        shown=False,
    )
    namespace: str = _setting(
        DEFAULT_NAMESPACE,
        "The prefix of all keys in Redis. Apps with different namespaces do not see each other.",
        "TENURE_NAMESPACE",
    )
    protocol: str = _setting(
        DEFAULT_PROTOCOL,
        f"The wire format: {choices(quote='`')}. Options of a format follow a question mark.",
        "TENURE_PROTOCOL",
    )
    max_payload: int | None = _setting(
        None,
        "The largest encoded payload, for clients and workers. A worker ends larger jobs in `broken`. Not set: "
        f"{MAX_PAYLOAD_BYTES:,}; workers on other wire formats then take payloads of any size.",
        "TENURE_MAX_PAYLOAD",
        read=int,
    )
    patience: float = _setting(
        limits.PATIENCE_MS / limits.SECOND,
        "For how many seconds after its first failure a call is retried before it raises `Unreachable`.",
        "TENURE_PATIENCE",
        read=float,
    )
    connect_timeout: float = _setting(
        limits.CONNECT_TIMEOUT_MS / limits.SECOND,
        "How many seconds each step of connecting may take.",
        "TENURE_CONNECT_TIMEOUT",
        read=float,
    )
    reply_timeout: float = _setting(
        limits.REPLY_TIMEOUT_MS / limits.SECOND,
        "How many seconds one attempt waits for its reply before it is repeated on a new connection.",
        "TENURE_REPLY_TIMEOUT",
        read=float,
    )
    max_connections: int | None = _setting(
        None,
        "How many connections the calls of a process use at the same time: for all its threads together, for "
        f"each event loop, and for each node of a cluster; at least {limits.MIN_CONNECTIONS}. Further calls wait for "
        "one. Not set: no maximum.",
        "TENURE_MAX_CONNECTIONS",
        read=int,
    )
    durable: int = _setting(
        0,
        "How many replicas must have each enqueued job and each outcome. A call waits at most a second; 0: no wait.",
        "TENURE_DURABLE",
        read=int,
    )
    sync_on_loop: str = _setting(
        "warn",
        "What a blocking call on a running event loop does: `warn` (once for each place in the code), `error`, or "
        "`allow`. `result()` and `watch()` raise unless it is `allow`.",
        "TENURE_SYNC_ON_LOOP",
    )
    log_format: str = _setting(
        "human",
        "The log format of `tenure worker`: `human` or `json`. Only for this command, as `--log-format` is.",
        "TENURE_LOG_FORMAT",
    )
    log_errors: str = _setting(
        "traceback",
        "How much of a job's error a worker logs: the `traceback`, only the `message`, or only the `type`, where they "
        "hold data. Only for workers.",
        "TENURE_LOG_ERRORS",
    )

    log_jobs: bool | None = _setting(
        None,
        "Whether `tenure worker` logs the start and the end of each job: `1`, also above 50 a second, or `0`. Not set: "
        "above 50 a second it logs their number each second. Only for this command, as `--log-jobs` is.",
        "TENURE_LOG_JOBS",
        read=_read_switch,
    )

    credentials: Credentials | None = field(default=None, repr=False, compare=False)
    """A function that gives the user and the password of each new connection. It has no environment variable."""

    def __post_init__(self) -> None:
        given: object = self.credentials
        if given is not None and not callable(getattr(given, "get_credentials", given)):
            raise invalid("credentials", "a function, or a CredentialProvider", type(given).__name__)
        url: object = self.url
        if not isinstance(url, str) or not url:
            raise invalid("url", f"text such as {DEFAULT_URL}", "an empty one" if url == "" else type(url).__name__)
        names.namespace(self.namespace)
        parse_protocol(self.protocol)
        if self.max_payload is not None:
            names.count(self.max_payload, "max_payload", least=1, most=limits.MAX_PAYLOAD_CEILING)
        names.duration_ms(self.patience, "patience", least_ms=0, most_ms=MAX_PATIENCE_MS)
        names.duration_ms(self.connect_timeout, "connect_timeout", most_ms=limits.HOUR)
        names.duration_ms(self.reply_timeout, "reply_timeout", most_ms=MAX_REPLY_TIMEOUT_MS)
        if self.max_connections is not None:
            least, most = limits.MIN_CONNECTIONS, limits.MAX_CONNECTIONS
            names.count(self.max_connections, "max_connections", least=least, most=most)
        names.count(self.durable, "durable", most=limits.MAX_DURABLE)
        names.sync_on_loop(self.sync_on_loop)
        names.log_format(self.log_format)
        names.log_errors(self.log_errors)

    @property
    def payload_limit(self) -> int:
        """The largest encoded payload that a client may enqueue, in bytes."""
        return MAX_PAYLOAD_BYTES if self.max_payload is None else self.max_payload

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, **given: Any) -> Settings:
        """Load settings from the arguments that are not None, then the environment, then the defaults.

        Settings.load(url="redis://redis.example.org/1")
        """
        found = os.environ if environ is None else environ
        values = {name: value for name, value in given.items() if value is not None}
        for name, variable in variables().items():
            if name not in values:
                values |= _from_environment(name, variable, found)
        return cls(**values)


def variables() -> dict[str, Variable]:
    """Return every setting and its environment variables: the source of the documentation."""
    return {item.name: item.metadata["variable"] for item in fields(Settings) if item.metadata}


def _from_environment(name: str, variable: Variable, environ: Mapping[str, str]) -> dict[str, Any]:
    for key in variable.names:
        text = environ.get(key, "").strip()
        if not text:
            continue
        try:
            value = variable.read(text)
            Settings(**{name: value})
        except ValueError as exc:
            # Tenure's own errors are safe to show; the errors of int() and float() would repeat the value.
            raise _unusable(
                key, str(exc) if isinstance(exc, InvalidArgument) else f"it must be {_kind(variable)}."
            ) from None
        return {name: value}
    return {}


def check_url(url: str, is_given: bool) -> None:
    """Refuse a URL that cannot be read: raise `NotConfigured`, which names the variable of one that is not given."""
    # Imported here, so that importing the package does not load the URL parser.
    from tenure.redis.url import Target

    try:
        Target.parse(url)
    except NotConfigured as error:
        variable = next((key for key in variables()["url"].names if os.environ.get(key, "").strip()), None)
        if is_given or variable is None:
            raise
        raise _unusable(variable, str(error)) from None


def _unusable(variable: str, reason: str) -> NotConfigured:
    """Return the error for a wrong environment variable."""
    error = NotConfigured(f"The environment variable {variable} is not usable: {reason}")
    error.variable = variable
    return error


def _kind(variable: Variable) -> str:
    return "a whole number" if variable.read is int else "a number"
