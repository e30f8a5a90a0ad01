"""The demo's app, as the workers import it: `leasehold worker leasehold.cli.demo.jobs:app`."""

from __future__ import annotations

import os
import time

from leasehold import Leasehold, Native, current_job
from leasehold.cli.demo.files import PACE, QUEUE, RUNS_FILE, Facts, facts_of

app = Leasehold(protocol=Native())  # whatever the environment of the one who looks says


@app.task(queue=QUEUE)
def look_at(path: str) -> Facts:
    """Find out about one file. Every run is noted outside of Redis: the report does not rest on our own word."""
    note, job = os.environ.get(RUNS_FILE), current_job()
    if note and job:
        # One short write to a file opened for appending: lines of several processes never mix.
        handle = os.open(note, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{job.id}\n".encode())
        finally:
            os.close(handle)
    time.sleep(float(os.environ.get(PACE, "0")))
    return facts_of(path)
