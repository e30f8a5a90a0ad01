"""Scenes are made once and copied for the tests that follow: to make one takes up to 60 calls, to copy it one."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.faults.matrix import Scene
from tests.support.world import World

AGE_MOST_S: Final = 3.0
"""A scene this old is made again: its leases must not lapse during a test."""

_SAVE: Final = """
local found = {}
for _, name in ipairs(redis.call('KEYS', '*')) do
  found[#found + 1] = name
  found[#found + 1] = math.max(redis.call('PTTL', name), 0)
  found[#found + 1] = redis.call('DUMP', name)
end
return found
"""
_RESTORE: Final = """
for i = 1, #ARGV, 3 do redis.call('RESTORE', ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
"""


@dataclass(frozen=True, slots=True)
class _Saved:
    began_s: float
    keys: list[Any]
    engine: Any
    scene: Scene


class SavedScenes:
    """The last scene of each kind, with its keys and with what its engine has learned."""

    def __init__(self) -> None:
        self._saved: dict[Callable[[World], Scene], _Saved] = {}

    def scene(self, world: World, setting: Callable[[World], Scene]) -> Scene:
        """Return this scene in this empty world."""
        saved = self._saved.get(setting)
        if saved is None or time.monotonic() - saved.began_s > AGE_MOST_S:
            began_s, scene = time.monotonic(), setting(world)
            keys = world.command("EVAL", _SAVE, 0)
            self._saved[setting] = _Saved(began_s, keys, deepcopy(world.engine), scene)
            return scene
        world.command("EVAL", _RESTORE, 0, *saved.keys)
        world.engine = deepcopy(saved.engine)
        return replace(saved.scene, world=world)
