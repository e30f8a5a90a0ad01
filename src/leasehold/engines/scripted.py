"""The base of engines whose transitions are scripts: where their keys are, and how their scripts are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from leasehold.core.steps import Arg, Draw, Invoke, Nonce, Reply, Script, Steps
from leasehold.engines.calls import Part


class Scripted(ABC):
    """What the engine, the inspector and the controller of one wire format stand on."""

    scripts: ClassVar[Mapping[str, Script]]
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

    def _ask(self, script: str, queue: str, *args: Arg) -> Steps[Reply]:
        """A call that is harmless by nature when it is sent again."""
        return (yield Invoke(self.scripts[script], (self.prefix(queue),), args))

    def _act(self, script: str, queue: str, *args: Arg) -> Steps[bytes]:
        """A call under a nonce: sent again, it gets the answer of the first time."""
        nonce: Nonce = yield Draw()
        args = (nonce.session, nonce.number, *args)
        reply: bytes = yield Invoke(self.scripts[script], (self.prefix(queue),), args)
        return reply

    def _act_on(self, script: str, queue: str, chunk: list[Part], *head: Arg) -> Steps[bytes]:
        """One call for many jobs, under a nonce; the answer begins with one character a job."""
        nonce: Nonce = yield Draw()
        args = (nonce.session, nonce.number, *head, *(arg for part in chunk for arg in part.args))
        reply: bytes = yield Invoke(self.scripts[script], (self.prefix(queue),), args)
        return reply
