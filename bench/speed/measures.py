"""What is measured: the name of each figure, what it is called, its unit, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class Measure:
    """`digits`: behind the point, where the figure is shown."""

    name: str
    title: str
    unit: str
    better: Literal["more", "less"]
    about: str
    digits: int = 0


MEASURES: Final = (
    Measure(
        "drain_io",
        "Drain, jobs that wait for 1 ms",
        "jobs/s",
        "more",
        "One worker process, jobs that wait for something outside: async handlers, or threads where a queue has none.",
    ),
    Measure("drain_async", "Drain, async handlers", "jobs/s", "more", "One worker process, jobs that do nothing."),
    Measure("drain_sync", "Drain, sync handlers", "jobs/s", "more", "The same with plain functions."),
    Measure("enqueue_one", "Enqueue one by one", "jobs/s", "more", "One producer, one call a job."),
    Measure("enqueue_many", "Enqueue many", "jobs/s", "more", "One producer, the call for many; the argument is text."),
    Measure("enqueue_dicts", "Enqueue many, with a dict", "jobs/s", "more", "The same; the argument is a dict."),
    Measure(
        "latency_p50",
        "Pick-up on an idle queue, p50",
        "ms",
        "less",
        "The time from the call to the handler's start.",
        2,
    ),
    Measure(
        "latency_p99", "Pick-up on an idle queue, p99", "ms", "less", "The same; the p99 of the jobs of all rounds.", 2
    ),
    Measure(
        "start", "Start", "ms", "less", "From the start of a worker's process to its first job, which waits already."
    ),
    Measure("commands_enqueue", "Redis commands per job, enqueue", "", "less", "Those inside of scripts too.", 1),
    Measure("commands_drain", "Redis commands per job, drain", "", "less", "Those inside of scripts too.", 1),
    Measure("server_enqueue", "Redis processor time per job, enqueue", "µs", "less", "One call a job.", 1),
    Measure(
        "server_drain",
        "Redis processor time per job, drain",
        "µs",
        "less",
        "Measured in the drain, async where it can.",
        1,
    ),
    Measure("worker_drain", "Worker processor time per job", "µs", "less", "All its processes.", 1),
    Measure("memory_job", "Redis memory per waiting job", "bytes", "less", "With arguments of 100 bytes as JSON."),
    Measure("idle_commands", "Commands of an idle worker", "1/s", "less", "As sent, in scripts not counted.", 2),
    Measure("idle_cpu", "Processor time of an idle worker", "% of a core", "less", "All its processes.", 2),
    Measure("worker_memory", "Memory of an idle worker", "MB", "less", "Resident, of its largest process.", 1),
    Measure("worker_total", "Memory of an idle worker, all processes", "MB", "less", "Shared pages shared out.", 1),
)
BY_NAME: Final = {measure.name: measure for measure in MEASURES}
