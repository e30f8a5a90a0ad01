"""The event loops that handlers run on. A handler's `sys.exit()` fails the attempt and does not end the loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from tenure.runtime.loop_kind import LoopKind, check_loop


class KeptRunning:
    """asyncio ends a loop when a task raises SystemExit or KeyboardInterrupt: also a task that a handler started, as
    `gather` does. Within `kept_running` the loop continues; the code that awaits the task gets the error."""

    _is_kept_running = False

    @contextlib.contextmanager
    def kept_running(self) -> Iterator[None]:
        self._is_kept_running = True
        try:
            yield
        finally:
            self._is_kept_running = False

    def run_forever(self) -> None:
        while True:
            try:
                super().run_forever()  # type: ignore[misc]  # of the loop that it is mixed into
                return
            except (SystemExit, KeyboardInterrupt):
                if not self._is_kept_running:
                    raise


class HandlerLoop(KeptRunning, asyncio.SelectorEventLoop):
    """The loop of asyncio."""


def loop_factory(kind: LoopKind) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes such a loop. Raises `NotConfigured`."""
    if kind is LoopKind.ASYNCIO:
        return HandlerLoop
    check_loop(kind)
    import uvloop

    return type("FastHandlerLoop", (KeptRunning, uvloop.Loop), {})


@contextlib.contextmanager
def kept_running() -> Iterator[None]:
    """Keep the running event loop running, if it is a loop of this module."""
    loop = asyncio.get_running_loop()
    with loop.kept_running() if isinstance(loop, KeptRunning) else contextlib.nullcontext():
        yield
