"""The app of the demo: its workers run `tenure worker tenure.cli.demo.jobs:app`."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from typing import Final

from tenure import Native, Tenure, current_job

QUEUE: Final = "files"
RUNS_FILE: Final = "TENURE_DEMO_RUNS"
"""The environment variable that names the file to which every run adds a line."""
PACE: Final = "TENURE_DEMO_PACE"
"""The environment variable for how many seconds each job waits."""
_CHUNK: Final = 1 << 20

app = Tenure(protocol=Native())  # whatever TENURE_PROTOCOL says


@dataclass(frozen=True, slots=True)
class Facts:
    """The result of a job. `size` in bytes."""

    size: int
    lines: int
    sha256: str


@app.task(queue=QUEUE)
def look_at(path: str) -> Facts:
    """Find the facts of one file. Every run is recorded outside of Redis, so that the report can check Tenure."""
    runs, job = os.environ.get(RUNS_FILE), current_job()
    if runs and job:
        # The line is written in one piece when the file closes: lines of several processes never mix.
        with open(runs, "a") as file:
            file.write(f"{job.id}\n")
    time.sleep(float(os.environ.get(PACE, "0")))
    return facts_of(path)


def facts_of(path: str) -> Facts:
    digest, size, lines = hashlib.sha256(), 0, 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
    return Facts(size, lines, digest.hexdigest())
