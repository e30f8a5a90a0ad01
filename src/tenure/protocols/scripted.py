"""What the entries of wire protocols share: how an engine is described, its rights, and how its jobs leave it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.core.errors import UnsupportedFeature
from tenure.protocols.spec import Migration, Rights

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine
    from tenure.core.steps import Steps
    from tenure.engines.kit.acl import AclRules
    from tenure.engines.kit.extras import Moved
    from tenure.engines.kit.moving import Exporter

C = TypeVar("C")


def config_of(kind: Callable[..., C], spec: Mapping[str, Any]) -> C:
    """Return the numbers of an engine from its description."""
    from tenure.core.engine import Timing

    numbers = spec["config"]
    return kind(**{**numbers, "timing": Timing(**numbers["timing"])})


def rights_of(rules: AclRules, clustered: bool) -> Rights:
    rules = rules.of(clustered)
    return Rights(rules.needed(), rules.missing, rules.wait(), rules.channel())


def migration_of(protocol: str, exporter: Exporter, rules: Callable[[str], AclRules]) -> Migration:
    """Return how jobs of this protocol leave a queue. `rules`: the rights to one queue."""
    from tenure.engines.kit.moving import Importer, move_page

    def page(queue: str, target: FullEngine, to: str, limit: int) -> Steps[Moved]:
        if not isinstance(target, Importer):
            raise UnsupportedFeature(f"Jobs of {protocol} cannot be moved to the protocol {target.name!r}.")
        return move_page(exporter, queue, target, to, limit)

    return Migration(page, lambda queue: rules(queue).missing())
