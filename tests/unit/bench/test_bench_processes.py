"""A killed worker is dead with all that it started, and nothing else is touched."""

import os
import sys
import time
from pathlib import Path

import pytest

from bench.processes import Workers, members_of
from bench.roster import Adapter

# A worker with a child that left its session, as a work horse or a daemon does.
PROGRAM = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
time.sleep(300)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class Stub(Adapter):
    def command(self, *words):
        return [sys.executable, "-c", PROGRAM]


@pytest.fixture
def adapter() -> Stub:
    return Stub("rq", Path(sys.executable))


def wait_for_two(name: str) -> set[int]:
    until = time.monotonic() + 30
    while len(pids := set(members_of(name))) < 2:
        assert time.monotonic() < until, "the worker and its child did not start"
        time.sleep(0.01)
    return pids


def test_the_whole_worker_is_killed_and_the_other_one_lives(adapter, tmp_path):
    with Workers(adapter, dict(os.environ), tmp_path) as workers:
        first, second = workers.start(), workers.start()
        killed, kept = wait_for_two(first), wait_for_two(second)
        workers.kill(first)
        assert set(members_of(first)) == set()
        assert set(members_of(second)) == kept
        assert not killed & kept
    assert set(members_of(second)) == set()


def test_nothing_is_left_when_the_run_fails(adapter, tmp_path):
    names = []

    def fail() -> None:
        with Workers(adapter, dict(os.environ), tmp_path) as workers:
            names.append(workers.start())
            wait_for_two(names[0])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert set(members_of(names[0])) == set()
