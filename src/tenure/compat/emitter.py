"""The callbacks that users register for events: for each event, or for the next one only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Registered:
    """A callback. `is_removed`: events that came before the removal need not call it either."""

    function: Callable[..., Any]
    is_once: bool
    is_removed: bool = False


class Callbacks:
    """Callbacks by a key. Safe for threads: the user's thread adds and removes while a worker's loop takes."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[Registered, ...]] = {}
        self._lock = threading.Lock()

    def add(self, key: str, function: Callable[..., Any], once: bool = False) -> None:
        with self._lock:
            self._by_key[key] = (*self._by_key.get(key, ()), Registered(function, once))

    def remove(self, key: str, function: Callable[..., Any]) -> None:
        """Remove the latest registration of this function, if there is one."""
        with self._lock:
            known = self._by_key.get(key, ())
            found = next((one for one in reversed(known) if one.function == function), None)
            if found is not None:
                found.is_removed = True
                self._by_key[key] = tuple(one for one in known if one is not found)

    def has(self, *keys: str) -> bool:
        return any(self._by_key.get(key) for key in keys)

    def take(self, key: str) -> tuple[Registered, ...]:
        """Return the callbacks of an event, in the order of their registration. Forget those for one event only."""
        with self._lock:
            taken = self._by_key.get(key, ())
            if any(one.is_once for one in taken):
                self._by_key[key] = tuple(one for one in taken if not one.is_once)
        return taken
