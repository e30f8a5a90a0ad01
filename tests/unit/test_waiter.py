"""What a worker's process becomes while its keeper has jobs to give back: when it ends, and with which status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from leasehold.processes.system import is_over

PROGRAM = """
import os, threading, time
from leasehold.processes.exit import become_waiter

keeper = os.fork()
if keeper == 0:
    os.read(0, 1)
    os._exit(0)

def handler():
    time.sleep(0.5)
    print("a handler goes on", flush=True)

threading.Thread(target=handler, daemon=True).start()
become_waiter(keeper, 7)
"""

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/cmdline"), reason="it needs /proc")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + 30
            while not is_over(process.pid):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


def test_it_waits_for_the_keeper_and_no_thread_lives_on(process):
    time.sleep(0.6)
    assert process.poll() is None
    out, _ = process.communicate("", timeout=30)
    assert process.returncode == 7
    assert out == ""


def test_told_to_stop_it_ends_with_the_status_that_was_meant(process):
    until = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < until:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
    assert process.returncode == 7


def test_a_process_that_goes_on_is_not_over():
    assert not is_over(os.getpid())
    assert not is_over(2**22 + 1)
