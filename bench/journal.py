"""What the jobs wrote down: lines `start|end TOKEN WORKER SECONDS`, outside of Redis, by the jobs themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

POLL_S: Final = 0.02


@dataclass(frozen=True)
class Line:
    """A job began or ended: `what` is "start" or "end", `at` is on the machine's monotonic clock."""

    what: str
    token: str
    worker: str
    at: float


def parse(text: str) -> list[Line]:
    """The whole lines; one that is being written is left for later. Raises `ValueError` for anything else."""
    lines = []
    for raw in text.split("\n")[:-1]:
        words = raw.split(" ")
        if len(words) != 4 or words[0] not in ("start", "end"):
            raise ValueError(f"expected `start|end TOKEN WORKER SECONDS`, found {raw!r}")
        lines.append(Line(words[0], words[1], words[2], float(words[3])))
    return lines


class Journal:
    """The file that the jobs of one run write to."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock

    def lines(self, what: str, token: str) -> list[Line]:
        if not self.path.exists():
            return []
        return [line for line in parse(self.path.read_text()) if line.what == what and line.token == token]

    def wait(self, what: str, token: str, number: int, seconds: float) -> Line | None:
        """The line with this number (from 1) for a job; None when it did not come in time."""
        until = self._clock() + seconds
        while True:
            found = self.lines(what, token)
            if len(found) >= number:
                return found[number - 1]
            if self._clock() > until:
                return None
            time.sleep(POLL_S)
