"""Makes the driver for a URL: of one server, or of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenure.core.values import replace
from tenure.redis.url import Target

if TYPE_CHECKING:
    from tenure.redis.aio import AsyncDriver
    from tenure.redis.sync import SyncDriver

# The drivers are imported where they are needed: blocking programs do not load asyncio.


def blocking_driver(url: str, credentials: object = None, **options: Any) -> SyncDriver:
    """Make a driver for blocking code. It takes the options of `SyncDriver`, and `node_patience_ms` for a cluster.
    `credentials`: a function that gives the user and the password of each new connection.

        driver = blocking_driver("redis+cluster://a:6379,b:6379/")

    Raises `NotConfigured`.
    """
    target = replace(Target.parse(url), credentials=credentials)
    if target.seeds:
        from tenure.redis.cluster import ClusterDriver

        return ClusterDriver(target, **options)
    from tenure.redis.sync import SyncDriver

    options.pop("node_patience_ms", None)
    return SyncDriver(target, **options)


def asyncio_driver(url: str, credentials: object = None, **options: Any) -> AsyncDriver:
    """Make a driver for asyncio; otherwise as `blocking_driver`."""
    target = replace(Target.parse(url), credentials=credentials)
    if target.seeds:
        from tenure.redis.cluster import AsyncClusterDriver

        return AsyncClusterDriver(target, **options)
    from tenure.redis.aio import AsyncDriver

    options.pop("node_patience_ms", None)
    return AsyncDriver(target, **options)
