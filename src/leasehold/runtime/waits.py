"""Waits that come to an end, whatever they wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from leasehold.runtime.log import brief, log_event

CATCH_UP_TURNS: Final = 4
"""Of the event loop, until whoever waits for a line has what lies in a pipe: in the first it is taken out, in the
second it comes to the protocol (that of a subprocess is called a turn later), in the third the reader goes on, behind
us in the line. So in the fourth it is known."""


async def catch_up() -> None:
    """Let others have what has come in, however late the event loop is. What it costs is turns, not time."""
    for _ in range(CATCH_UP_TURNS):
        await asyncio.sleep(0)


async def unless(end: asyncio.Event, waiting: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Wait for this, for so long at most, and not after that event."""
    done = asyncio.ensure_future(waiting)
    ended = asyncio.ensure_future(end.wait())
    await asyncio.wait({done, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in (done, ended):
        task.cancel()


async def within(waiting: Coroutine[Any, Any, Any], seconds: float) -> Any:
    """Its answer, or None when it raised or took too long: at the end there is nobody left to tell."""
    task = asyncio.ensure_future(waiting)
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        task.cancel()
        return None
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log_event("loop_failed", logging.WARNING, loop="shutdown", error=brief(error))
        return None
    return None if task.cancelled() else task.result()
