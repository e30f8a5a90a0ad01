"""The `worker` command."""

from __future__ import annotations

import logging
import math
import os
from typing import Final

import click

from tenure.cli.completion import queue_names
from tenure.cli.errors import Exit
from tenure.cli.logs import logs_as_asked
from tenure.cli.units import Duration, Memory
from tenure.cli.work.processes import arguments_of, run_parent, worker_command
from tenure.cli.work.weights import parse_weights
from tenure.core import limits
from tenure.core.values import replace
from tenure.processes.config import HERE, HealthOutputs, ParentConfig
from tenure.redis.url import Target
from tenure.runtime.loop_kind import LoopKind, check_loop

BURST_WAIT_S: Final = 10.0
"""How long the start of a burst waits for Redis: both may be started together."""
MAX_PROCESSES: Final = 256
MAX_RECYCLE_JOBS: Final = 1_000_000_000
MAX_RECYCLE_MB: Final = 1_048_576
_OF_PARENT: Final = frozenset({"processes", "reload", "health_file", "health_port", "metrics_host", "parent", "banner"})
"""Options that the parent does not pass on to its worker processes."""


@click.argument("app", metavar="MODULE:APP")
@click.option(
    "queues", "--queue", "-q", multiple=True, metavar="QUEUE", shell_complete=queue_names,
    help="Work on this queue; may be given several times. [default: all queues that the app's tasks and handlers name]",
)  # fmt: skip
@click.option(
    "weights", "--weight", multiple=True, metavar="QUEUE=N", shell_complete=queue_names,
    help="How often the worker claims from this queue first, compared with its other queues, while all have jobs: 1 to "
    f"{limits.MAX_WEIGHT}; may be given several times. No queue starves. [default: 1]",
)  # fmt: skip
@click.option(
    "--concurrency", "-c", type=click.IntRange(1, limits.MAX_CONCURRENCY), default=limits.CONCURRENCY, metavar="N",
    show_default=True, help="How many jobs may run at one time.",
)  # fmt: skip
@click.option(
    "--burst",
    is_flag=True,
    help="Stop when no job is ready. Delayed jobs and retries that are not due stay in the queue.",
)
@click.option(
    "--grace", type=Duration(0, limits.DAY / limits.SECOND), default=limits.STOP_GRACE_MS / limits.SECOND,
    metavar="DURATION", show_default=True, help="How long running jobs may continue after a stop: seconds, or 2m, 1h.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, MAX_PROCESSES), default=1, metavar="N", show_default=True,
    help="How many worker processes run, each with --concurrency slots. One that dies is replaced at once.",
)  # fmt: skip
@click.option(
    "--loop", type=click.Choice([kind.value for kind in LoopKind]), default="asyncio", show_default=True,
    help="The event loop of the worker and of its async handlers. uvloop needs `pip install 'tenure[uvloop]'`.",
)  # fmt: skip
@click.option(
    "--max-jobs", type=click.IntRange(1, MAX_RECYCLE_JOBS), metavar="N",
    help="Replace a process after about N jobs. It finishes its running jobs while the next one works.",
)  # fmt: skip
@click.option(
    "--max-memory", type=Memory(MAX_RECYCLE_MB), metavar="MB",
    help="Replace a process that uses more memory than this, in the same way: megabytes, or 512MB, 1GB.",
)  # fmt: skip
@click.option(
    "--reload", is_flag=True,
    help="Restart when *.py files below the current directory change. Needs `pip install 'tenure[reload]'`.",
)  # fmt: skip
@click.option(
    "--health-file", metavar="PATH", help="Write the health of the worker to this file every second, as JSON."
)
@click.option(
    "--health-port", metavar="[HOST:]PORT",
    help="Answer GET /live and /ready with 200 or 503. The default host is 127.0.0.1.",
)  # fmt: skip
@click.option(
    "--metrics-port", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Serve metrics of the worker for Prometheus, at /metrics. Needs `pip install 'tenure[prometheus]'`.",
)  # fmt: skip
@click.option("--metrics-host", default=HERE, show_default=True, help="The address of the metrics.")
@click.option("--parent", type=int, hidden=True)  # the descriptor of the socket to the parent of this worker process
@click.option("--url", help="The URL of Redis, for an app without one. TENURE_URL does not show in `ps`.")
@logs_as_asked
@click.option("--banner", is_flag=True, hidden=True)  # of the first worker process
@click.option(
    "--wait-for-redis", type=Duration(0, limits.DAY / limits.SECOND), metavar="DURATION",
    help="How long the start waits for Redis, and a burst for a Redis that refuses its claims. [default: without end; "
    "with --burst 10]",
)  # fmt: skip
@click.option(
    "--allow-eviction", is_flag=True, help="Start also on a Redis that may evict jobs when its memory is full."
)
@click.pass_context
def worker(
    context: click.Context,
    app: str,
    queues: tuple[str, ...],
    weights: tuple[str, ...],
    concurrency: int,
    burst: bool,
    grace: float,
    processes: int,
    loop: str,
    max_jobs: int | None,
    max_memory: int | None,
    reload: bool,
    health_file: str | None,
    health_port: str | None,
    metrics_port: int | None,
    metrics_host: str,
    parent: int | None,
    url: str | None,
    banner: bool,
    wait_for_redis: float | None,
    allow_eviction: bool,
) -> None:
    """MODULE:APP names a Tenure, as in `tenure worker myproject.jobs:app -q mails -q reports --weight mails=5`, or a
    function without arguments that makes one. The current directory is searched for the module first.

    SIGTERM or Ctrl-C: the worker starts no more jobs, releases those that have not started, and gives running jobs
    --grace seconds. A second one stops hard: running jobs are released, and other workers run them again.

    While Redis does not respond the worker waits, also at the start: see --wait-for-redis.

    This process is the parent of the worker processes. It does not load the app, replaces a process that dies, and
    keeps the leases of running jobs. SIGHUP: new processes take the places of the old, one after the other.

    Exit status: 0 stopped in good order, or nothing left to do (--burst); 1 Redis could not be reached at the start
    in time, or a part of the worker could not be kept alive; 2 the command line, the app or a setting is wrong; 3
    stopped hard. A handler that does not end then ends with its process. Threads, child processes and exit hooks of
    handlers have 2 seconds.
    """
    logging.getLogger("asyncio").setLevel(logging.INFO)  # its debug lines are not about jobs
    names, own = tuple(dict.fromkeys(queues)), parse_weights(weights)
    if url is not None:
        Target.parse(url)  # before anything is started
    outlets = HealthOutputs.of(health_file, health_port)
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    check_loop(LoopKind(loop))
    if parent is None:
        command = worker_command(arguments_of(context, _OF_PARENT))
        watched = os.getcwd() if reload else None
        context.exit(run_parent(ParentConfig(command, processes, grace, burst, watched, outlets, metrics)))
    # Here: the parent needs nothing of the app or of the worker, and stays small.
    from tenure.app.run import WorkerOptions
    from tenure.cli.work.child import Start, run_child

    wait_s = BURST_WAIT_S if burst and wait_for_redis is None else wait_for_redis
    waits = math.inf if wait_s is None else wait_s
    options = WorkerOptions(names, concurrency, burst, grace, own, max_jobs, max_memory, burst_wait=waits)
    options = replace(options, metrics=metrics is not None)
    run_child(app, options, Start(banner, wait_s, allow_eviction, LoopKind(loop)), parent=parent, url=url)
    context.exit(Exit.OK)
