"""Wire protocols as values: what `Leasehold(protocol=...)` takes. Each makes the engine that speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from leasehold.core import names
from leasehold.core.engine import Controller, Engine, Inspector
from leasehold.core.errors import InvalidArgument

if TYPE_CHECKING:
    from leasehold.engines.native.engine import NativeConfig
    from leasehold.engines.redis_work_queue.config import RedisWorkQueueConfig
    from leasehold.settings import Settings

NATIVE: Final = "native"
REDIS_WORK_QUEUE: Final = "redis-work-queue"


class FullEngine(Engine, Inspector, Controller, Protocol):
    """An engine with its reading and its acting side."""

    def prefix(self, queue: str) -> str:
        """The beginning of the keys of a queue. Raises `InvalidArgument` for a name that no queue can have here."""
        ...


class WireProtocol(Protocol):
    """How jobs are written in Redis."""

    def engine(self, settings: Settings) -> FullEngine:
        """The engine that speaks this protocol. No traffic."""
        ...


@dataclass(frozen=True, slots=True)
class Native:
    """Leasehold's own protocol. `namespace` None: that of the settings.

        Leasehold(protocol=Native(namespace="shop"))

    `config` has the numbers of the engine (how long a lease lasts, how many records are kept): all clients and workers
    of one namespace should use the same. Raises `InvalidArgument` for a namespace that cannot be used.
    """

    namespace: str | None = None
    config: NativeConfig | None = None

    def __post_init__(self) -> None:
        if self.namespace is not None:
            names.namespace(self.namespace)

    @property
    def text(self) -> str:
        """How the setting says it."""
        return NATIVE

    def engine(self, settings: Settings) -> FullEngine:
        from leasehold.engines.native import NativeEngine

        return NativeEngine(self.namespace or settings.namespace, self.config)


@dataclass(frozen=True, slots=True)
class RedisWorkQueue:
    """The protocol of redis-work-queue, which has clients for Python, Rust, Go, Node and C#.

        Leasehold(protocol=RedisWorkQueue(prefix="jobs"))

    The queue `default` is the one that other clients call `KeyPrefix("jobs")`; `images` lies at `jobs:images`, unless
    `queues` gives it a prefix of its own: `queues={"images": "pictures"}`. What an item cannot hold (a delay, lanes,
    priorities, unique jobs, results) is refused with `UnsupportedFeature`. `config` has the numbers of the engine.
    Raises `InvalidArgument` for prefixes whose keys would be those of another queue, and for two queues of one prefix.
    """

    prefix: str
    queues: Mapping[str, str] | None = None
    config: RedisWorkQueueConfig | None = None

    def __post_init__(self) -> None:
        from leasehold.engines.redis_work_queue.keys import check_prefix, check_queues

        check_queues(check_prefix(self.prefix), self.queues)

    @property
    def text(self) -> str:
        """How the setting says it; `queues` and `config` have no place there."""
        return f"{REDIS_WORK_QUEUE}:{self.prefix}"

    def engine(self, settings: Settings) -> FullEngine:
        from leasehold.engines.redis_work_queue import RedisWorkQueueEngine

        return RedisWorkQueueEngine(self.prefix, self.config, self.queues)


def spoken(text: object) -> WireProtocol:
    """The protocol that a setting or an option names: "native", or "redis-work-queue:" and the prefix of its keys.

        spoken("redis-work-queue:jobs")        # RedisWorkQueue(prefix="jobs")

    Raises `InvalidArgument`.
    """
    kind, colon, prefix = text.partition(":") if isinstance(text, str) else ("", "", "")
    if kind == NATIVE and not colon:
        return Native()
    if kind == REDIS_WORK_QUEUE and prefix:
        return RedisWorkQueue(prefix)
    raise InvalidArgument(
        f"protocol is {names.shown(text)}; expected {NATIVE}, or {REDIS_WORK_QUEUE}:PREFIX with what other clients "
        f"call their KeyPrefix, as in {REDIS_WORK_QUEUE}:jobs."
    )
