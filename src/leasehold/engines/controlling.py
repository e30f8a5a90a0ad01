"""What those who act on jobs need of an engine whose transitions are scripts, as far as all of them do the same."""

from __future__ import annotations

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import State
from leasehold.core.steps import Arg, Steps
from leasehold.engines.scripted import Scripted
from leasehold.engines.texts import as_bytes


class ScriptedController(Scripted):
    """The acting half of an engine."""

    def discard(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._act("discard", queue, as_bytes(id))) == b"1"

    def _in_rounds(self, script: str, queue: str, *args: Arg) -> Steps[int]:
        """Call until there is nothing left. The script answers how many it looked at, and how many of them went."""
        removed = 0
        for _ in range(limits.PURGE_ROUNDS):
            looked, gone = map(int, (yield from self._act(script, queue, *args)).split(b" "))
            removed += gone
            if looked == 0:
                break
        return removed


def check_purge(state: State) -> None:
    """Raises `InvalidArgument` for jobs that somebody holds."""
    if state is State.ACTIVE:
        raise InvalidArgument("Active jobs belong to their workers: stop the workers, or cancel the jobs.")
