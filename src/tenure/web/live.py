"""Notifies the pages of what has changed: queues, workers, runs. One reader of Redis for all viewers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from tenure.core.errors import TenureError
from tenure.web.reads import Reads

VIEWERS_MAX: Final = 200
LOOK_S: Final = 1.0
"""The shortest time between two looks at Redis."""
LOOK_MOST_S: Final = 45.0
"""The longest time between them, also when the open pages need many calls."""
CALLS_A_SECOND: Final = 5
"""Calls to Redis for all viewers together. The reader waits longer when they have made more."""
TICK_S: Final = 10.0
"""How often all pages are read again, for what no queue's numbers show."""
COMMENT_S: Final = 15.0
EVENT_S: Final = 0.5
"""The shortest time between two events of a viewer."""
_ALL: Final = "tick"


@dataclass(eq=False, slots=True)
class _Viewer:
    names: set[str] = field(default_factory=set)
    has_news: asyncio.Event = field(default_factory=asyncio.Event)


class Live:
    """The stream of changes. It reads only while a page is open."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._viewers: set[_Viewer] = set()
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether no further viewer is served."""
        return len(self._viewers) >= VIEWERS_MAX

    def note(self, *names: str) -> None:
        """Notify all viewers that this has changed."""
        for viewer in self._viewers:
            viewer.names.update(names)
            viewer.has_news.set()

    async def stream(self) -> AsyncIterator[str]:
        """Yield server-sent events: each the names of what has changed, as a JSON list."""
        viewer = _Viewer()
        self._viewers.add(viewer)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read())
        try:
            yield "retry: 3000\n\n"
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(viewer.has_news.wait(), COMMENT_S)
                if not viewer.names:
                    yield ": nothing has changed\n\n"
                    continue
                names, viewer.names = sorted(viewer.names), set()
                viewer.has_news.clear()
                yield f"event: change\ndata: {json.dumps(names)}\n\n"
                await asyncio.sleep(EVENT_S)
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._reader.cancel()

    async def _read(self) -> None:
        before: dict[str, Any] | None = None
        loop = asyncio.get_running_loop()
        spent, tick_at = self._reads.spent, loop.time() + TICK_S
        while True:
            now: dict[str, Any] = {}
            with contextlib.suppress(TenureError):  # no entry "redis" means that Redis does not answer
                now = _parts(await self._reads.overview())
            if before is not None and (changed := {name for name in before | now if before.get(name) != now.get(name)}):
                self.note(*changed)
            before = now
            if loop.time() >= tick_at:
                tick_at = loop.time() + TICK_S
                self.note(_ALL)
            # What the pages read after the events of this look is in the pause after the next one.
            calls, spent = self._reads.spent - spent, self._reads.spent
            await asyncio.sleep(min(max(LOOK_S, calls / CALLS_A_SECOND), LOOK_MOST_S))


def _parts(overview: dict[str, Any]) -> dict[str, Any]:
    """Return what pages show of an overview, by the names that the stream has for it."""
    workers = [{name: value for name, value in one.items() if name != "seen_ms"} for one in overview["workers"]]
    queues = {f"queue:{view['name']}": view for view in overview["queues"]}
    return {"redis": True, "queues": sorted(queues), "workers": workers, **queues}
