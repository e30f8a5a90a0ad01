"""What those who act on jobs need of an engine whose transitions are scripts, as far as all of them do the same."""

from __future__ import annotations

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import State
from leasehold.core.steps import Arg, Steps
from leasehold.engines.kit.base import Scripted
from leasehold.engines.kit.encoding import as_bytes


class ScriptedController(Scripted):
    """The acting half of an engine."""

    def discard(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._act("discard", queue, as_bytes(id))) == b"1"

    def _in_rounds(self, script: str, queue: str, *args: Arg) -> Steps[int]:
        """Call until the script answers 0. Behind that it says how many jobs went, and, where it does not find that by
        itself, its last argument for the next call."""
        removed = 0
        for _ in range(limits.PURGE_ROUNDS):
            more, gone, *after = (yield from self._act(script, queue, *args)).split(b" ", 2)
            args = (*args[: len(args) - len(after)], *after)
            removed += int(gone)
            if more == b"0":
                break
        return removed


def check_purge(state: State) -> None:
    """Raises `InvalidArgument` for jobs that somebody holds."""
    if state is State.ACTIVE:
        raise InvalidArgument("Active jobs belong to their workers: stop the workers, or cancel the jobs.")
