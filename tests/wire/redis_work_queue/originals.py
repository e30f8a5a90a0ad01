"""The original clients, installed when they are first needed: the Python one, and where there is Node that one too."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[3]
CACHE: Final = ROOT / ".bench"
AGENTS: Final = Path(__file__).parent / "agents"
PYTHON_PACKAGE: Final = "redis-work-queue==0.1.5"
NODE_PACKAGES: Final = ("@mevitae/redis-work-queue@0.1.5", "ioredis@5.3.2")
INSTALL_S: Final = 300.0
KINDS: Final = ("python", "node")


@contextmanager
def _alone(name: str) -> Iterator[Path]:
    """A folder in which nobody else installs at the same time."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def python_folder() -> Path:
    """Where the original Python package is. It runs beside our redis client; what else it asks for is not used."""
    with _alone("original-redis-work-queue") as folder:
        if not (folder / "redis_work_queue").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
            subprocess.run([*pip, "--no-deps", "--target", str(folder), PYTHON_PACKAGE], check=True, timeout=INSTALL_S)
    return folder


def python_package() -> ModuleType:
    """The original Python package, imported here."""
    folder = str(python_folder())
    if folder not in sys.path:
        sys.path.append(folder)  # also for processes that multiprocessing starts
    import redis_work_queue  # type: ignore[import-not-found]

    package: ModuleType = redis_work_queue
    return package


def node_folder() -> Path:
    """Where the original Node package is. Skips the test where there is no Node, or it cannot be installed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no Node here (node and npm)")
    with _alone("original-redis-work-queue-node") as folder:
        if not (folder / "node_modules" / "ioredis").exists():
            npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NODE_PACKAGES]
            run = subprocess.run(npm, capture_output=True, text=True, timeout=INSTALL_S)
            if run.returncode != 0:
                pytest.skip(f"the Node package cannot be installed here: {run.stderr.strip()[-200:]}")
    return folder


class Original:
    """A process with an original client, which does what it is told."""

    def __init__(self, kind: str, url: str, prefix: str) -> None:
        if kind == "python":
            command = [sys.executable, str(AGENTS / "agent.py"), url, prefix]
            extra = {"PYTHONPATH": str(python_folder())}
        else:
            command = ["node", str(AGENTS / "agent.js"), url, prefix]
            extra = {"NODE_PATH": str(node_folder() / "node_modules")}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | extra
        )

    def send(self, op: str, *args: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([op, *args]).encode() + b"\n")
        self.process.stdin.flush()

    def do(self, op: str, *args: Any) -> Any:
        self.send(op, *args)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the original client ended at {op}"
        return json.loads(line)

    def add(self, id: str, data: bytes) -> Any:
        return self.do("add", id, base64.b64encode(data).decode())

    def lease(self, secs: int, timeout: int = 0) -> tuple[str, bytes] | None:
        """Blocks for `timeout` seconds; 0: not at all."""
        found = self.do("lease", secs, timeout)
        return None if found is None else (found[0], base64.b64decode(found[1]))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
