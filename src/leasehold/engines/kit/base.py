"""The base of engines whose transitions are scripts: where their keys are, and how their scripts are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, TypeVar

from leasehold.core.errors import NewerLayout, ReplyError
from leasehold.core.steps import Arg, Command, Draw, Invoke, Nonce, Reply, Script, Steps
from leasehold.engines.kit.chunks import Part

T = TypeVar("T")

NEWER_LAYOUT: Final = "LHLAYOUT"
"""How lua/lib/layout.lua begins to say that a newer release has written to a queue."""


class Scripted(ABC):
    """What the engine, the inspector and the controller of one wire format stand on."""

    scripts: ClassVar[Mapping[str, Script]]
    layout: ClassVar[int]
    """The newest version of the layout that this release reads, which is the one it writes."""
    _config: str
    """The engine's numbers, as its scripts take them."""

    @abstractmethod
    def prefix(self, queue: str) -> str:
        """The beginning of all keys of a queue."""

    @abstractmethod
    def shared(self) -> str:
        """The beginning of the few keys that belong to no queue: which queues and workers there are."""

    def signal_channel(self, worker: str) -> str:
        return f"{self.shared()}:signal:{worker}"

    def layout_of(self, queue: str) -> Steps[int]:
        """The highest layout version that any release has written to a queue."""
        stored = yield Command(("HGET", f"{self.prefix(queue)}:meta", "layout"))
        return int(stored) if stored and stored.isdigit() else 1

    def _call(self, script: str, queue: str, args: tuple[Arg, ...]) -> Invoke:
        """A call about one queue. Its keys are in one hash slot.

        The scripts make all other keys of the prefix, `KEYS[1]`. An engine with other names (several prefixes, keys of
        no queue, names that end in the queue's) gives its own keys and arguments here.
        """
        return Invoke(self.scripts[script], (self.prefix(queue),), args)

    def _ask(self, script: str, queue: str, *args: Arg) -> Steps[Reply]:
        """A call that is harmless by nature when it is sent again."""
        return (yield self._call(script, queue, args))

    def _act(self, script: str, queue: str, *args: Arg) -> Steps[bytes]:
        """A call under a nonce: sent again, it gets the answer of the first time."""
        nonce: Nonce = yield Draw()
        args = (nonce.session, nonce.number, *args)
        reply: bytes = yield self._call(script, queue, args)
        return reply

    def _act_on(self, script: str, queue: str, chunk: list[Part], *head: Arg) -> Steps[bytes]:
        """One call for many jobs, under a nonce; the answer begins with one character a job."""
        nonce: Nonce = yield Draw()
        args = (nonce.session, nonce.number, *head, *(arg for part in chunk for arg in part.args))
        reply: bytes = yield self._call(script, queue, args)
        return reply


def checking_layout(queue: str, steps: Steps[T]) -> Steps[T]:
    """Raise `NewerLayout` where a script refuses a queue that a newer release has written to."""
    try:
        return (yield from steps)
    except ReplyError as error:
        if error.prefix != NEWER_LAYOUT:
            raise
        _, stored, readable = str(error).split()
        raise NewerLayout(queue, int(stored), int(readable)) from error
