"""Takes waiting tasks out of a queue for another protocol: see `engines.kit.moving`."""

from __future__ import annotations

from tenure.core.steps import Arg, Command, Steps
from tenure.engines.kit.encoding import as_text
from tenure.engines.kit.moving import Exporter
from tenure.engines.worqr.engine import WorqrEngine
from tenure.engines.worqr.records import md5_of, read_task


class WorqrExporter(Exporter):
    """Gives each task an id. The script removes the markers of those that arrived."""

    def __init__(self, engine: WorqrEngine) -> None:
        super().__init__(engine, lambda queue, row: read_task(queue, as_text(row[0]), row[1]))

    def _marks(self, queue: str) -> Steps[tuple[Arg, ...]]:
        moving = yield Command(("LRANGE", f"{self._engine.prefix(queue)}:moving", 0, -1))
        return tuple(map(md5_of, moving[2::2]))
