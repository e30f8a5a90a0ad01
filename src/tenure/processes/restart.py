"""The rolling restart: replaces all worker processes of a parent, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tenure.processes.child import WorkerProcess
from tenure.processes.slots import Slot
from tenure.runtime.log import log_event


class RollingRestart:
    """Says which worker process is replaced next.

    A new process starts while the old one runs. When it is ready, the old one is asked to stop. After its end, the next
    process is replaced. `start`: starts a successor in a slot.
    """

    def __init__(self, slots: Sequence[Slot], start: Callable[[Slot], None]) -> None:
        self.requests = 0
        """How often it was requested. A successor that was started before the last request may run old code."""
        self._slots = slots
        self._start = start
        self._left: deque[WorkerProcess] = deque()
        self._slot: Slot | None = None
        """Its process is being replaced."""
        self._old: WorkerProcess | None = None
        """Was replaced and has not ended."""

    def request(self) -> WorkerProcess | None:
        """Replace every process, also those that this restart has replaced already: the code may have changed again.

        Returns a successor that was not ready yet: stop it, because it may run old code or hang in it.
        """
        log_event("restart_started", processes=len(self._slots))
        self.requests += 1
        # The oldest first: each is replaced at last, however often a restart is requested.
        present = [slot.current for slot in self._slots if slot.current is not None]
        self._left = deque(sorted(present, key=lambda child: child.began_at))
        self._advance()
        return None if self._slot is None else self._slot.successor

    def ready(self, slot: Slot) -> WorkerProcess | None:
        """The successor is ready: it replaces the old process, which is returned and should stop now."""
        self._old, slot.current, slot.successor = slot.current, slot.successor, None
        if self._old is None:  # it has died since
            self._next()
        return self._old

    def successor_ended(self, slot: Slot, *, was_stopped: bool) -> None:
        """The successor has ended before it was ready. `was_stopped`: at the parent's request."""
        slot.successor = None
        if not was_stopped:
            self.fail(slot, "the new process ended before it was ready")
        self._next()

    def ended(self, child: WorkerProcess) -> None:
        """A process has ended."""
        if child is self._old:
            self._next()

    def fail(self, slot: Slot, reason: str) -> None:
        """Replace no further processes: the new code does not work."""
        log_event("restart_failed", slot=slot.number, reason=reason)
        self._left.clear()

    def clear(self) -> None:
        """Forget the restart: all processes are ending."""
        self._left.clear()
        self._slot = self._old = None

    def _next(self) -> None:
        self._slot = self._old = None
        self._advance()

    def _advance(self) -> None:
        while self._slot is None and self._left:
            child = self._left.popleft()
            slot = self._slots[child.slot]
            if slot.current is child:  # otherwise it has been replaced already
                self._slot = slot
                self._start(slot)
