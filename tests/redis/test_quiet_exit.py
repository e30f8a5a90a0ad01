"""Programs that never close their app end without a warning: `python -W error -X dev` prints nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.testing.server import RedisServer

START = """
import asyncio, atexit, logging, sys
from concurrent.futures import ThreadPoolExecutor
from tenure import Tenure
logging.getLogger("asyncio").setLevel(logging.ERROR)  # it reports slow steps of a busy machine
app = Tenure(sys.argv[1])
@app.task
def hello(name: str) -> str:
    return name
"""
PROGRAMS = {
    "one call": "hello.enqueue('x')",
    "threads": """
with ThreadPoolExecutor(4) as pool:
    list(pool.map(hello.enqueue, 'abcdefgh'))
""",
    "an app that is dropped": """
def once():
    Tenure(sys.argv[1]).queue('other').enqueue({'a': 1})
once()
""",
    "asyncio and blocking": "hello.enqueue('x'); asyncio.run(hello.aenqueue('y'))",
    "a call at the exit": """
atexit.register(hello.enqueue, 'last')
hello.enqueue('x')
""",
    "closed and used again": "hello.enqueue('x'); app.close(); hello.enqueue('y')",
}


def run(script: str, url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", START + script, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=dict(os.environ))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_closes_nothing_ends_without_warnings(program: str, private_server: RedisServer) -> None:
    done = run(PROGRAMS[program], private_server.url)
    assert (done.stderr, done.returncode) == ("", 0)


def test_an_embedded_server_is_released(tmp_path: Path) -> None:
    done = run(PROGRAMS["one call"], f"embedded:{tmp_path / 'data'}")
    assert (done.stderr, done.returncode) == ("", 0)
