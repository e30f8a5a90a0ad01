"""What the workers of a mixed fleet run, and the file in which those of both kinds write down what they do."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenure import Hworker, Job, Tenure, Worqr
from tenure.engines.hworker.config import HworkerConfig
from tenure.engines.worqr.config import WorqrConfig

FOLDER: Final = "FAULTS_FOLDER"
PROTOCOL: Final = "FAULTS_PROTOCOL"
HELD: Final = "held"
TIMEOUT_S: Final = 4.0
"""After which a job of a dead original is run again."""
WORK_S: Final = 0.2
HOLD: Final = -1
"""What stands in the place of a job's number for the persistent job."""
NEVER_BROKEN: Final = 1_000
"""Crashes: workers are killed on purpose here, and it is not the jobs' fault."""
PROTOCOLS: Final[dict[str, Hworker | Worqr]] = {
    "hworker": Hworker(name="pool", timeout=TIMEOUT_S, config=HworkerConfig(max_crashes=NEVER_BROKEN)),
    "worqr": Worqr(config=WorqrConfig(max_crashes=NEVER_BROKEN)),
}


@dataclass(frozen=True, slots=True)
class Line:
    """At `at` (monotonic, nanoseconds) a process started or ended a job."""

    at: int
    what: str
    n: int
    pid: int


def note(what: str, n: int) -> None:
    """Append a line, whole or not at all."""
    file = os.open(Path(os.environ[FOLDER]) / "runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{time.monotonic_ns()} {what} {n} {os.getpid()}\n".encode())
    finally:
        os.close(file)


def read(folder: Path) -> list[Line]:
    path = folder / "runs"
    words = [line.split() for line in (path.read_text().splitlines() if path.exists() else ())]
    return [Line(int(at), what, int(n), int(pid)) for at, what, n, pid in words]


def make_app(protocol: str, url: str | None = None) -> Tenure:
    made = Tenure(url, protocol=PROTOCOLS[protocol])
    made.handler("default")(handle)
    if protocol == "worqr":
        made.task(name="hold", queue=HELD, persistent=True, unique=True)(hold)
    return made


async def handle(job: Job) -> None:
    n = int(job.payload)
    note("start", n)
    await asyncio.sleep(WORK_S)
    note("end", n)


async def hold() -> None:
    """The persistent job: it writes that it runs, again and again."""
    while True:
        note("hold", HOLD)
        await asyncio.sleep(WORK_S)


if PROTOCOL in os.environ:
    app = make_app(os.environ[PROTOCOL])
