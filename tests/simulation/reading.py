"""Calls of a stage on its server: scripts that read a virtual clock, and many readings in one write."""

from __future__ import annotations

from typing import Any, Final

from tenure.core.steps import Command, Draw, Invoke, Reply, Script, Work, finish
from tenure.redis import replies
from tenure.redis.link import BlockingLink
from tenure.redis.url import Target
from tenure.redis.wire import packed
from tenure.testing.server import RedisServer

CLOCK: Final = "clock"
TIME: Final = "call('TIME')"
VIRTUAL: Final = f"{{ call('HGET', '{CLOCK}', 's'), call('HGET', '{CLOCK}', 'us') }}"
TIMEOUT_S: Final = 60.0


class Line:
    """A connection. It repeats nothing by itself."""

    def __init__(self, server: RedisServer) -> None:
        self.link = finish(BlockingLink.dial(Target.parse(server.url), TIMEOUT_S))
        self.link.set_timeout(TIMEOUT_S)
        self.scripts: dict[str, Script] = {}
        self.first: list[Command] = []

    def close(self) -> None:
        finish(self.link.close())

    def virtual(self, call: Command | Invoke) -> Command | Invoke:
        """The call, without a wait before it, as one that reads the virtual clock."""
        if isinstance(call, Command):
            return Command(("HMGET", CLOCK, "s", "us")) if call.args == ("TIME",) else call
        script = self.scripts.get(call.script.sha)
        if script is None:
            script = Script(call.script.name, call.script.text.replace(TIME, VIRTUAL))
            self.scripts[call.script.sha] = script
            self.first.append(Command(("SCRIPT", "LOAD", script.text)))
        return Invoke(script, call.keys, call.args)

    def set_clock(self, ms: int) -> None:
        """Set the virtual clock, with the next call."""
        self.first.append(Command(("HSET", CLOCK, "s", ms // 1000, "us", ms % 1000 * 1000)))

    def ask(self, *calls: Command | Invoke) -> list[Reply]:
        """Send the calls together. Returns their replies: an error in place of the reply of a call that was refused."""
        own = [self.virtual(call) for call in calls]
        first, self.first = self.first, []
        self.link.send(b"".join(map(packed, (*first, *own))))
        return [self._receive() for _ in (*first, *own)][len(first) :]

    def _receive(self) -> Reply:
        try:
            return self.link.receive()
        except Exception as error:
            if not replies.is_reply(error):
                raise
            return replies.error_of(error, "")

    def read(self, *operations: Any) -> list[Any]:
        """Run operations that change nothing, side by side. Return their answers."""
        return self.read_after(None, *operations)[1]

    def read_after(self, before: Command | Invoke | None, *operations: Any) -> tuple[Reply, list[Any]]:
        """The same, after a call. Return its reply, too."""
        first: Reply = None
        answers: list[Any] = [None] * len(operations)
        turn: dict[int, Reply] = dict.fromkeys(range(len(operations)))
        while turn:
            calls: dict[int, Command | Invoke] = {}
            for n, reply in turn.items():
                try:
                    call = operations[n].send(reply)
                    while isinstance(call, Draw | Work):
                        call = operations[n].send(call.function() if isinstance(call, Work) else None)
                    calls[n] = call
                except StopIteration as stop:
                    answers[n] = stop.value
            if before is not None:
                (first, *found), before = self.ask(before, *calls.values()), None
            else:
                found = self.ask(*calls.values()) if calls else []
            turn = dict(zip(calls, found, strict=True))
            for reply in turn.values():
                if isinstance(reply, Exception):
                    raise reply
        return first, answers
