"""What a job of hworker returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Success:
    """The job is done. None is the same."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Run the job again, behind those that wait."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """End the job, and keep it with the failed ones."""

    message: str = ""


Result: TypeAlias = Success | Retry | Failure
