"""What the entries of wire protocols share: how an engine is described, and its rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.protocols.spec import Rights

if TYPE_CHECKING:
    from tenure.engines.kit.acl import AclRules

C = TypeVar("C")


def config_of(kind: Callable[..., C], spec: Mapping[str, Any]) -> C:
    """Return the numbers of an engine from its description."""
    from tenure.core.engine import Timing

    numbers = spec["config"]
    return kind(**{**numbers, "timing": Timing(**numbers["timing"])})


def rights_of(rules: AclRules, clustered: bool) -> Rights:
    rules = rules.of(clustered)
    return Rights(rules.needed(), rules.missing, rules.wait(), rules.channel())
