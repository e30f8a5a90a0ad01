"""Leasehold's own wire protocol, as a value for `Leasehold(protocol=...)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leasehold.core import names
from leasehold.core.engine import FullEngine

if TYPE_CHECKING:
    from leasehold.engines.native.engine import NativeConfig
    from leasehold.protocols.spec import Settings

NATIVE: Final = "native"


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
