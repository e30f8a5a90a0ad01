"""Moves waiting jobs to a queue of another protocol, as `tenure migrate` does."""

from __future__ import annotations

from typing import Any

from tenure.core import limits
from tenure.core.steps import Steps
from tenure.engines.kit.moving import Moved, move_page
from tenure.protocols.registry import entry_of


def move(engine: Any, queue: str, target: Any, to: str, limit: int = limits.MAX_BATCH) -> Steps[Moved]:
    migration = entry_of(engine).migration
    assert migration is not None
    return move_page(migration(engine), queue, target, to, limit)
