"""The work of the demo: what is to be found out about a file, which files there are, and the names of things."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_FILES: Final = 20_000
QUEUE: Final = "files"
RUNS_FILE: Final = "LEASEHOLD_DEMO_RUNS"
"""The environment variable that names the file to which every run adds a line."""
PACE: Final = "LEASEHOLD_DEMO_PACE"
"""The environment variable that says how many seconds each job waits, so that few files last until the kill."""
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Facts:
    """What a job finds out about its file. `size` in bytes."""

    size: int
    lines: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The files below a directory. `skipped`: unreadable or oddly named; `more`: there were more than that."""

    paths: tuple[str, ...]
    skipped: int
    more: bool


def facts_of(path: str) -> Facts:
    """Read a file once and say how large it is, how many lines it has, and its SHA-256."""
    digest, size, lines = hashlib.sha256(), 0, 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
    return Facts(size, lines, digest.hexdigest())


NOT_THE_LIBRARY: Final = frozenset({"site-packages", "dist-packages", "__pycache__"})
"""Folders below the standard library that are not part of it."""


def survey(directory: Path, without: frozenset[str] = frozenset(), limit: int = MAX_FILES) -> Survey:
    """The regular files below a directory, in a fixed order. Links are not followed, nor folders named in `without`."""
    paths: list[str] = []
    skipped = 0
    for folder, below, names in os.walk(directory):
        below[:] = sorted(set(below) - without)
        for name in sorted(names):
            path = os.path.join(folder, name)
            if len(paths) == limit:
                return Survey(tuple(paths), skipped, more=True)
            if _usable(path):
                paths.append(path)
            else:
                skipped += 1
    return Survey(tuple(paths), skipped, more=False)


def _usable(path: str) -> bool:
    try:
        path.encode()
        return stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.R_OK)
    except (UnicodeEncodeError, OSError):
        return False
