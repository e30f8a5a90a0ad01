"""Watches Python files for changes. Needs the package `watchfiles` (the extra `reload`)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Final

from tenure.core import limits
from tenure.core.errors import NotConfigured

RELOAD_GRACE_MS: Final = 3 * limits.SECOND
"""How long running jobs may continue after files have changed. Then they run again with the new code."""


def check_reload() -> None:
    """Raises `NotConfigured` when the package is missing."""
    if importlib.util.find_spec("watchfiles") is None:
        raise NotConfigured(
            "Reloading on changes needs the package watchfiles, which is not installed. Install it with "
            "`pip install 'tenure[reload]'`."
        )


async def follow_changes(folder: str, changed: Callable[[int, str], None]) -> None:
    """Call `changed` with the number of files and the path of one of them, until cancelled.

    Several changes within a moment are one. Folders that hold no source of the project's (.git, .venv, __pycache__,
    node_modules, ...) are left out.
    """
    from watchfiles import PythonFilter, awatch

    async for changes in awatch(folder, watch_filter=PythonFilter()):
        first = min(path for _, path in changes)
        changed(len(changes), os.path.relpath(first, folder))  # noqa: ASYNC240  # needs no file
