"""A Redis whose clock can be set: its program is run with a small library of ours before the C library."""

from __future__ import annotations

import mmap
import shlex
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parent / "clock.c"
COMPILERS: Final = ("cc", "gcc", "clang")


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return next((path for name in COMPILERS if (path := shutil.which(name)) is not None), None)


class Clock:
    """Compiled into `folder`. `wrapped` answers a program that starts `binary` with this clock."""

    def __init__(self, folder: Path) -> None:
        found = compiler()
        assert found is not None, "no C compiler"
        self._library = folder / "clock.so"
        self._file = folder / "clock"
        self._folder = folder
        subprocess.run([found, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl"], check=True)
        self._file.write_bytes(struct.pack("=q", 0))
        with self._file.open("r+b") as file:
            self._moved = mmap.mmap(file.fileno(), 8)

    def wrapped(self, binary: str) -> str:
        program = self._folder / "redis-with-a-clock"
        library, file = shlex.quote(str(self._library)), shlex.quote(str(self._file))
        program.write_text(f'#!/bin/sh\nLD_PRELOAD={library} FAULTS_CLOCK={file} exec {shlex.quote(binary)} "$@"\n')
        program.chmod(0o700)
        return str(program)

    def environment(self) -> dict[str, str]:
        """For another program than Redis that is to have this clock."""
        return {"LD_PRELOAD": str(self._library), "FAULTS_CLOCK": str(self._file)}

    def set(self, seconds: float) -> None:
        """From now on Redis is so far ahead of the machine (below zero: behind)."""
        self._moved[:] = struct.pack("=q", round(seconds * 1_000_000))

    def close(self) -> None:
        self._moved.close()
