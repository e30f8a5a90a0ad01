"""The command line within the process of the test, where a command needs no process of its own: 20 times as cheap."""

from __future__ import annotations

import os
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Self
from unittest import mock

from tenure.cli import main


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended, read like a process of the command."""

    status: int
    out: str
    err: str

    def end(self, expect: int = 0) -> Self:
        """Check the status."""
        assert self.status == expect, f"ended with {self.status}, expected {expect}:\n{self.out}\n{self.err}"
        return self


def call(args: list[str], folder: Path, environment: dict[str, str]) -> Ended:
    """Run a command in this folder and with this environment. The modules that it imports are forgotten afterwards."""
    out, err = _stream(), _stream()
    before, modules = Path.cwd(), set(sys.modules)
    os.chdir(folder)
    try:
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(sys, "path", list(sys.path)),
            open(os.devnull) as nothing,
            mock.patch.object(sys, "stdin", nothing),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            time.tzset()
            status = _status(args)
    finally:
        os.chdir(before)
        time.tzset()
        sys.path_importer_cache.pop(str(folder), None)
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
                del sys.modules[name]
    return Ended(status, _text(out), _text(err))


def _status(args: list[str]) -> int:
    try:
        main(args)
    except SystemExit as end:
        return int(end.code or 0)


def _stream() -> TextIOWrapper:
    return TextIOWrapper(BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)


def _text(stream: TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
