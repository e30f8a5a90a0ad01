"""The interface of an engine stays small: what a format may lack is a port."""

from tenure.core.engine import Engine, FullEngine
from tenure.core.ports import Ports

MOST = 20


def test_an_engine_has_at_most_twenty_members_for_workers_and_as_many_for_operators() -> None:
    ports, verbs, all_of_it = (_members(one) for one in (Ports, Engine, FullEngine))
    assert len(verbs - ports) <= MOST
    assert len(all_of_it - verbs) <= MOST


def _members(protocol: type) -> set[str]:
    return {name for one in protocol.__mro__ for name in vars(one) if not name.startswith("_")}
