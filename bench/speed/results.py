"""What a run found, as values that are kept as JSON beside the page."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

FOLDER: Final = Path(__file__).parents[1] / "results"
T = TypeVar("T")


@dataclass(frozen=True)
class Machine:
    """The class of machine that a run was on, and how busy others kept it: the load at its start and end."""

    cores: int
    memory_gb: int
    system: str
    python: str
    redis: str
    date: str
    load: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Described:
    """Who was measured, and how it was set. `swept`: which other settings were tried, and what they were best for."""

    name: str
    title: str
    versions: dict[str, str]
    fast: str
    swept: str = ""


@dataclass(frozen=True)
class Sample:
    """One value of one measure (see `measures`) of one peer, in one round from 1."""

    peer: str
    measure: str
    round: int
    value: float


@dataclass(frozen=True)
class Missing:
    """A figure that could not be had, and why."""

    peer: str
    measure: str
    reason: str


@dataclass(frozen=True)
class Run:
    """One run of `make bench`: peers side by side, round after round."""

    machine: Machine
    rounds: int
    seconds: float
    peers: tuple[Described, ...]
    samples: tuple[Sample, ...]
    missing: tuple[Missing, ...]

    def values(self, peer: str, measure: str) -> list[float]:
        return [one.value for one in self.samples if (one.peer, one.measure) == (peer, measure)]

    def median(self, peer: str, measure: str) -> float | None:
        """The median of the rounds; None when there is none."""
        values = self.values(peer, measure)
        return statistics.median(values) if values else None

    def reason(self, peer: str, measure: str) -> str:
        """Why there is no figure."""
        said = [one.reason for one in self.missing if (one.peer, one.measure) == (peer, measure)]
        return said[-1] if said else "was not measured in this run"


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    assert ordered, "there is no percentile of nothing"
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]


def this_machine(redis: str, load: tuple[float, float] = (0.0, 0.0)) -> Machine:
    """What may be said of the machine: nothing that names it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(memory / 1024**3),
        system=f"{platform.system()} on {platform.machine()}",
        python=platform.python_version(),
        redis=redis,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        load=(round(load[0], 1), round(load[1], 1)),
    )


def described(machine: Machine) -> str:
    """A sentence about the machine, for the page."""
    server = f", Redis {machine.redis}" if machine.redis else ""
    return (
        f"{machine.date}, {machine.cores} cores, {machine.memory_gb} GB, {machine.system}, Python {machine.python}"
        f"{server}; load of the machine (work of others included) {machine.load[0]:g} at the start and "
        f"{machine.load[1]:g} at the end"
    )


def save(name: str, value: object, folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def load(name: str, kind: type[T], folder: Path = FOLDER) -> T | None:
    """What was kept under this name; None when nothing was."""
    path = folder / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=kind) if path.exists() else None
