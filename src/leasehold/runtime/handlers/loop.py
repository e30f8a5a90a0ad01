"""The event loop that handlers run on. A handler's `sys.exit()` fails the attempt and does not end the loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class HandlerLoop(asyncio.SelectorEventLoop):
    """asyncio ends a loop when a task raises SystemExit or KeyboardInterrupt: also a task that a handler started, as
    `gather` does. Within `kept_running` the loop continues; the code that awaits the task gets the error."""

    def __init__(self) -> None:
        super().__init__()
        self._is_kept_running = False

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
                return super().run_forever()
            except (SystemExit, KeyboardInterrupt):
                if not self._is_kept_running:
                    raise


@contextlib.contextmanager
def kept_running() -> Iterator[None]:
    """Keep the running event loop running, if it is a `HandlerLoop`."""
    loop = asyncio.get_running_loop()
    with loop.kept_running() if isinstance(loop, HandlerLoop) else contextlib.nullcontext():
        yield
