"""What is measured of Tenure alone, beside the comparison: one entry a section."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.environments import CACHE
from bench.speed import cluster, crowd, fairness, flat, options, starts
from bench.speed.results import FOLDER, load, save


@dataclass(frozen=True)
class Section:
    """`measure(quick, run, cache)` gives a value of `kind`, which `table` shows, below `title` and `about`."""

    name: str
    title: str
    about: str
    kind: type[Any]
    measure: Callable[[bool, str, Path], Any]
    table: Callable[[Any], str]


SECTIONS: Final = (
    Section(
        "options",
        "What options cost",
        "A job with one option, compared with a plain job: the processor time of Redis for its enqueue (alone) and "
        "for its run (claimed with others), and how many jobs one worker runs in a second.",
        options.OptionsFound,
        options.measure,
        options.table,
    ),
    Section(
        "crowd",
        "Pick-up with many idle workers",
        "The same latency as above, when this number of worker processes waits for a job: one of them is to be woken, "
        "not all. Commands of a job include the ones that Redis runs in scripts, and those of the idle workers. The "
        "last columns are what all workers take together while there are no jobs.",
        crowd.CrowdFound,
        crowd.measure,
        crowd.table,
    ),
    Section(
        "flat",
        "Beside many other jobs",
        "What an operation costs Redis when so many other jobs wait, are scheduled, are held or have failed: processor "
        "time of our scripts, taken on two servers in turns. The longest call is from SLOWLOG; what another process of "
        "the machine delayed is in it, which is why that of the best of seven repetitions stands beside it.",
        flat.Flatness,
        lambda quick, run, cache: flat.measure(quick),
        flat.table,
    ),
    Section(
        "fairness",
        "Short jobs while long ones run",
        "Two workers that run one job at a time get jobs of 1 ms and, among them, jobs of 1 s. How long does a short "
        "job wait while one of the two has nothing to do?",
        fairness.Fairness,
        fairness.measure,
        fairness.table,
    ),
    Section(
        "starts",
        "Starting",
        "A new process each time, all modules compiled.",
        starts.Starts,
        lambda quick, run, cache: starts.measure(quick),
        starts.table,
    ),
    Section(
        "cluster",
        "Partitions on a cluster",
        "What a job costs the Redis servers in microseconds of processor time: all of them together, and the busiest "
        "one. The masters of the cluster and eight simulated workers share one machine, so jobs a second would mean "
        "nothing. An enqueue has 200 jobs; a worker claims and settles ten jobs a call.",
        cluster.ClusterFound,
        lambda quick, run, cache: cluster.measure(quick),
        cluster.table,
    ),
)
NAMES: Final = tuple(section.name for section in SECTIONS)
BY_NAME: Final = {section.name: section for section in SECTIONS}


def run(name: str, *, quick: bool, keep: bool, name_of_run: str, cache: Path = CACHE) -> str:
    """Measure one; what the screen shows of it."""
    section, began = BY_NAME[name], os.getloadavg()[0]
    found = section.measure(quick, name_of_run, cache)
    load_now = (round(began, 1), round(os.getloadavg()[0], 1))
    found = replace(found, machine=replace(found.machine, load=load_now))
    if keep:
        save(name, found)
    return f"{section.title}\n{section.table(found)}\n"


def kept(name: str, folder: Path = FOLDER) -> Any:
    """What was kept of it; None when nothing was."""
    return load(name, BY_NAME[name].kind, folder)
