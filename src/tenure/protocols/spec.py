"""The registry entry of a wire protocol: its engine, the description of an engine as plain data, and its ACL rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine
    from tenure.core.steps import Command, Steps
    from tenure.engines.kit.extras import Cleaned
    from tenure.engines.kit.moving import Exporter, Transferable


class ProtocolSettings(Protocol):
    """The settings that an engine may depend on; `tenure.settings.Settings` has them."""

    @property
    def namespace(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def durable(self) -> int: ...


class WireProtocol(Protocol):
    """How jobs are written in Redis."""

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        """Make the engine of this protocol. Sends nothing."""
        ...


EngineSpec: TypeAlias = dict[str, Any]
"""JSON: the name of the protocol, and what its engine is made of."""


class Rights(Struct, frozen=True):
    """What an engine needs of a user of Redis, as the rules of an ACL: all of it, and what this user lacks.

    `missing` also finds commands that the server does not have: those stand there without a sign. `wait`, `channel`: a
    blocking command and a channel to try, because a proxy may refuse what the server behind it has.
    """

    needed: tuple[str, ...]
    missing: Callable[[], Steps[tuple[str, ...]]]
    wait: Command | None = None
    channel: str = ""


class Words(Struct, frozen=True):
    """How help texts and errors describe a protocol.

    `syntax`: how settings and options write it, `example`: one of them. `purpose`: what it is for. `hint`: what its
    argument is. `options`: what may follow behind a question mark.
    """

    syntax: str
    example: str
    purpose: str = ""
    hint: str = ""
    options: tuple[str, ...] = ()


class Cleaning(Struct, frozen=True):
    """How the abandoned jobs of a queue are requeued by hand, for `tenure clean`.

    `first`: clean this queue, deeply or not, and note jobs without a holder. `again_ms` later, `again` requeues those
    that still have none.
    """

    first: Callable[[str, bool], Steps[Cleaned]]
    again: Callable[[str], Steps[Cleaned]]
    again_ms: int


class ProtocolEntry(Struct, frozen=True):
    """All that the rest of Tenure knows of a wire protocol. Modules above `protocols` compare no protocol's name.

    parse: the protocol from the text behind the name and a colon (None: no colon); None for a text that it refuses.
    describe: what `rebuild` needs to make the same engine again in another process, as JSON. It, `rights`, `cleaning`,
        `migration` and `transfer` take engines of this protocol only.
    rights: of one server, or (True) of a cluster.
    has_namespace: its keys begin with the namespace of the settings.
    cleaning: for the command `clean`; None: refused. It also takes the time between the two looks in milliseconds, or
        None for the engine's.
    migration: how its jobs leave a queue for one of the default protocol on the same Redis; None: refused.
    transfer: how its queues move to the same protocol on another server; None: refused.
    cluster_prefixes: the beginnings of an engine's keys that must have a hash tag on a cluster, so that all keys of a
        script are in one slot; none if the engine gives its keys a tag itself. None: a cluster is refused.
    has_foreign_clients: other programs enqueue to its queues. Their payloads may be larger than Tenure's own limit.
    """

    name: str
    words: Words
    parse: Callable[[str | None], WireProtocol | None]
    describe: Callable[[Any], EngineSpec]
    rebuild: Callable[[Mapping[str, Any]], FullEngine]
    rights: Callable[[Any, bool], Rights]
    has_namespace: bool = False
    has_foreign_clients: bool = True
    cluster_prefixes: Callable[[Any], tuple[str, ...]] | None = None
    cleaning: Callable[[Any, int | None], Cleaning] | None = None
    migration: Callable[[Any], Exporter] | None = None
    transfer: Callable[[Any], Transferable] | None = None
