"""Lets the event loop catch up."""

from __future__ import annotations

import asyncio
from typing import Final

CATCH_UP_TURNS: Final = 4
"""Turns of the event loop until the reader of a line has what lies in a pipe. First the data is read, then the protocol
gets it (the protocol of a subprocess a turn later), then the reader continues, after us in the queue of the loop."""


async def catch_up() -> None:
    """Let other tasks take what has arrived, however late the event loop is. This costs turns, not time."""
    for _ in range(CATCH_UP_TURNS):
        await asyncio.sleep(0)
