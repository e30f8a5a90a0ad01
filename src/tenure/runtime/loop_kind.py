"""Which event loop a worker runs on."""

from __future__ import annotations

import importlib.util
from enum import StrEnum

from tenure.core.errors import NotConfigured


class LoopKind(StrEnum):
    """The event loop of a worker."""

    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


def check_loop(kind: LoopKind) -> None:
    """Raises `NotConfigured` when the package is missing."""
    if kind is LoopKind.UVLOOP and importlib.util.find_spec("uvloop") is None:
        raise NotConfigured(
            "The loop uvloop needs the package uvloop, which is not installed. Install it with "
            "`pip install 'tenure[uvloop]'`, or use the loop asyncio."
        )
