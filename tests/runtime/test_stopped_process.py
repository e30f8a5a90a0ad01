"""A job process that has stopped itself does not outlive its worker."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys

import pytest

JOB = """
import os, signal, socket, subprocess, sys, time
from tenure.runtime.isolation.channel import WorkerChannel

line = WorkerChannel(socket.socket(fileno=int(sys.argv[1])))
line.begin()
other = subprocess.Popen(["sleep", "600"])  # dies with it
print(other.pid, flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)
"""
WORKER = """
import os, signal, socket, subprocess, sys
from tenure.runtime.isolation.messages import Setup, pack

ours, theirs = socket.socketpair()
job = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(theirs.fileno())],
                       pass_fds=[theirs.fileno()], start_new_session=True)
theirs.close()
ours.sendall(pack(Setup((), os.getpid())))
os.waitpid(job.pid, os.WUNTRACED)  # until it has stopped itself
print(job.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no other kernel tells of it")
def test_it_is_woken_by_the_death_of_its_worker_and_ends_with_all_that_it_started():
    command = [sys.executable, "-c", WORKER, JOB]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        pids = [int(worker.stdout.readline()) for _ in range(2)]
        # Both have the pipe: its end is theirs.
        ready, _, _ = select.select([worker.stdout], [], [], 30)
        try:
            assert ready, "the job process, or what it started, is still there"
            assert worker.stdout.read() == ""
        finally:
            if not ready:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, 9)
