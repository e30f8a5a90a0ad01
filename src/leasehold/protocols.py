"""Wire protocols as values: what `Leasehold(protocol=...)` takes. Each makes the engine that speaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from leasehold.core import names
from leasehold.core.engine import Controller, Engine, Inspector

if TYPE_CHECKING:
    from leasehold.engines.native.engine import NativeConfig
    from leasehold.settings import Settings


class FullEngine(Engine, Inspector, Controller, Protocol):
    """An engine with its reading and its acting side."""


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

    def engine(self, settings: Settings) -> FullEngine:
        from leasehold.engines.native import NativeEngine

        return NativeEngine(self.namespace or settings.namespace, self.config)
