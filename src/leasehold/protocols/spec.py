"""What every wire protocol has: an engine, its description as plain data, and the ACL rights that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from leasehold.core.engine import FullEngine
from leasehold.core.steps import Steps


class Settings(Protocol):
    """The settings that an engine may depend on; `leasehold.settings.Settings` has them."""

    @property
    def namespace(self) -> str: ...


class WireProtocol(Protocol):
    """How jobs are written in Redis."""

    def engine(self, settings: Settings) -> FullEngine:
        """The engine that speaks this protocol. No traffic."""
        ...


EngineSpec: TypeAlias = dict[str, Any]
"""JSON: the name of the protocol, and what its engine is made of."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What an engine needs of a user of Redis, as the rules of an ACL: all of it, and what this user lacks."""

    needed: tuple[str, ...]
    missing: Callable[[], Steps[tuple[str, ...]]]
