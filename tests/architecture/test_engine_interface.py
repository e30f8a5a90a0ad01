"""The interface of an engine stays small: what a format may lack is a port."""

import re
from pathlib import Path

from tenure.core.engine import Engine, FullEngine
from tenure.core.ports import Ports
from tenure.engines.native import NativeEngine, partitions
from tenure.engines.native.partitions.engine import PartitionedEngine

MOST = 20


def test_an_engine_has_at_most_twenty_members_for_workers_and_as_many_for_operators() -> None:
    ports, verbs, all_of_it = (_members(one) for one in (Ports, Engine, FullEngine))
    assert len(verbs - ports) <= MOST
    assert len(all_of_it - verbs) <= MOST


def _members(protocol: type) -> set[str]:
    return {name for one in protocol.__mro__ for name in vars(one) if not name.startswith("_")}


def test_the_native_engines_can_be_read() -> None:
    for engine, most in ((NativeEngine, 5), (PartitionedEngine, 3)):
        assert len(engine.__mro__) - 2 <= most


def test_an_engine_around_another_one_uses_its_public_operations() -> None:
    folder = Path(partitions.__file__).parent
    private = re.compile(r"(?:native|engine)\._[a-z]|super\(\)\.(?!__init__)")
    assert [path.name for path in folder.glob("*.py") if private.search(path.read_text(encoding="utf-8"))] == []
