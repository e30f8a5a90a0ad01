"""Checks of `db`. On a cluster the keys of a queue are in one hash slot, and SCAN goes to the node that has it."""

from __future__ import annotations

from typing import Any

from tenure.core.errors import InvalidArgument
from tenure.redis.slots import hash_tag, tagged


def is_cluster(db: Any) -> bool:
    """Return whether this is a client of a cluster, or a pipeline of one."""
    # A pipeline of the one for asyncio is no client itself.
    owner = getattr(db, "cluster_client", None) or getattr(db, "_client", None) or db
    return hasattr(owner, "get_node_from_key")


def check_tag(db: Any, prefix: str) -> None:
    """Raises `InvalidArgument` for a client of a cluster if the keys of the queue are in different slots."""
    if is_cluster(db) and not hash_tag(prefix):
        raise InvalidArgument(
            f"On a cluster the prefix of a work queue must have a hash tag, got {prefix!r}; nothing was sent. Use "
            f"KeyPrefix({tagged(prefix)!r}), in all clients of the queue."
        )


def check_client(db: Any, prefix: str, is_async: bool) -> None:
    """Raises `InvalidArgument` for a pipeline, which would only collect the command, for a client of the other kind,
    and as `check_tag`."""
    modules = [kind.__module__ for kind in type(db).__mro__]
    is_aio = any(name.startswith("redis.asyncio") for name in modules)
    if is_aio is not is_async and (is_aio or "redis.client" in modules or "redis.cluster" in modules):
        kind, queue = ("redis.asyncio", "WorkQueue") if is_async else ("redis", "AsyncWorkQueue")
        raise InvalidArgument(f"db must be a client of {kind}, got {type(db).__name__}; nothing was sent. See {queue}.")
    if hasattr(db, "command_stack"):
        raise InvalidArgument("db must be a client, got a pipeline; nothing was sent. Use add_item_to_pipeline.")
    check_tag(db, prefix)


def client_for(db: Any, prefix: str, command: object) -> Any:
    """Return the client for a command. SCAN names no key: it goes to the node with the keys of this prefix."""
    if command != "SCAN" or not is_cluster(db):
        return db
    node = db.get_node_from_key(prefix)
    # A node of the asyncio client sends commands itself.
    return db.get_redis_connection(node) if hasattr(db, "get_redis_connection") else node


def options_of(db: Any) -> dict[str, Any]:
    """Return the options with which a client connects."""
    owner = getattr(db, "connection_pool", None) or getattr(db, "nodes_manager", None)
    options: dict[str, Any] = getattr(owner, "connection_kwargs", {})
    return options
