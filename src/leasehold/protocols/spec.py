"""The registry entry of a wire protocol: its engine, the description of an engine as plain data, and its ACL rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True, slots=True)
class Words:
    """How help texts and errors describe a protocol.

    `syntax`: how settings and options write it. `purpose`: what it is for. `hint`: what its argument is.
    """

    syntax: str
    purpose: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class ProtocolEntry:
    """All that the rest of Leasehold knows of a wire protocol. Modules above `protocols` compare no protocol's name.

    parse: the protocol from the text behind the name and a colon, None: there is no colon. Answers None for a text that
        it does not take.
    describe: what `rebuild` needs to make the same engine again in another process, as JSON.
    has_namespace: its keys begin with the namespace of the settings.
    has_foreign_clients: other programs enqueue to its queues. Their payloads may be larger than Leasehold's own limit.
    """

    name: str
    words: Words
    parse: Callable[[str | None], WireProtocol | None]
    describe: Callable[[FullEngine], EngineSpec]
    rebuild: Callable[[Mapping[str, Any]], FullEngine]
    rights: Callable[[FullEngine], Rights]
    has_namespace: bool = False
    has_foreign_clients: bool = True
