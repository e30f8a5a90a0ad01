"""Opens connections to a target: the server of a URL, an embedded server, the master that sentinels name, or a node
of a cluster.

connector = Connector(Target.parse("redis://localhost:6379/0"))
link = steps.finish(connector.open(BlockingLink))
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, TypeVar

from tenure.core import limits
from tenure.redis.link import Link
from tenure.redis.sentinels import Sentinels
from tenure.redis.topology import Topology
from tenure.redis.url import Target

if TYPE_CHECKING:
    from tenure.redis.embedded.instance import Embedded

L = TypeVar("L", bound=Link)


class Connector:
    """Opens connections to a target. For `embedded:` it first starts or joins the server, and holds it until `close`.
    With sentinels every connection is to the current master, with a cluster to any node that is well. `topology`: the
    nodes of a cluster.

    Safe for threads. Raises `NotConfigured` if there is no server program for `embedded:`.
    """

    def __init__(self, target: Target, connect_timeout_ms: int = limits.CONNECT_TIMEOUT_MS) -> None:
        self._target = target
        self._connect_timeout = connect_timeout_ms / 1000
        self._lock = threading.Lock()
        self._embedded: Embedded | None = None
        self._sentinels = Sentinels(target) if target.sentinels else None
        self.topology = Topology(target) if target.seeds else None

    def __str__(self) -> str:
        return str(self._target)

    async def open(self, kind: type[L], timeout_s: float = math.inf) -> L:
        """Connect. The connect timeout, or `timeout_s` if shorter, is the limit of `Link.dial`.

        A link of asyncio has no timeout of its own: the caller must limit every await. An error that it raises has
        `is_unsent`: the call for which the connection was to be was not sent.
        """
        try:
            return await self._open(kind, timeout_s)
        except Exception as error:
            error.is_unsent = True  # type: ignore[attr-defined]
            raise

    async def _open(self, kind: type[L], timeout_s: float) -> L:
        bound_s = min(timeout_s, self._connect_timeout)
        if self._sentinels is not None:
            return await self._sentinels.connect(kind, bound_s)
        if self.topology is not None:
            return await self.topology.connect(kind, bound_s)
        target = self._target
        if target.scheme == "embedded":
            target = await kind.call(self._join_embedded)
        return await kind.dial(target, bound_s)

    def outdated(self, link: Link) -> bool:
        """Return whether the sentinels have named another master since this connection was made."""
        if self._sentinels is None or self._sentinels.master is None:
            return False
        return link.address != self._sentinels.master

    def close(self) -> None:
        """Release the embedded server, if there is one."""
        with self._lock:
            embedded, self._embedded = self._embedded, None
        if embedded is not None:
            embedded.close()

    def forked(self) -> None:
        """Reset the lock in a child process, without touching what the parent holds."""
        # Another thread of the parent may have held the lock.
        self._lock = threading.Lock()
        if self.topology is not None:
            self.topology.forked()

    def _join_embedded(self) -> Target:
        # Imported here: most programs embed no server, and the module needs Unix.
        from tenure.redis.embedded.instance import open_embedded

        with self._lock:
            held = self._embedded
            if held is None:
                held = self._embedded = open_embedded(self._target.path or None)
            elif not held.alive():
                # The server or its starter has ended. After a crash, a temporary directory still exists.
                held.close()
                held = self._embedded = open_embedded(held.path, remove=not self._target.path)
            return Target.parse(held.url)
