"""The `worker` command."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from leasehold.app.preflight import Inspection, log
from leasehold.app.run import Finished, WorkerOptions, inspect_redis, queues_of, run_worker
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import Exit, UserError, safe
from leasehold.cli.loader import load
from leasehold.cli.logs import set_up_logging
from leasehold.cli.work.launch import launch
from leasehold.cli.work.processes import Fleet, fleet_options, link_to_supervisor, supervise
from leasehold.cli.work.weights import current_spelling, parse_weights
from leasehold.core import limits
from leasehold.core.names import LOG_FORMATS
from leasehold.processes.exit import become_waiter, end_within
from leasehold.redis.url import Target
from leasehold.runtime.handlers.loop import heir, run
from leasehold.runtime.log import log_event
from leasehold.runtime.signals import on_signals
from leasehold.runtime.worker import ExitStatus

if TYPE_CHECKING:
    from leasehold.app.app import Leasehold
    from leasehold.processes.link import SupervisorLink

LINGER_MS: Final = 2 * limits.SECOND
"""How long the process waits, after its worker has ended, for threads and exit hooks that handlers left behind."""

_MAX_NAMES: Final = 10
LEVELS: Final = ("debug", "info", "warning", "error")


@click.command()
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
    "--burst", is_flag=True, help="Stop when nothing is ready. What waits for its time, as a retry does, is left."
)
@click.option(
    "--grace", type=click.FloatRange(0, limits.DAY / limits.SECOND), default=limits.STOP_GRACE_MS / limits.SECOND,
    metavar="SECONDS", show_default=True, help="How long running jobs may go on after a stop was asked for.",
)  # fmt: skip
@fleet_options
@click.option("--url", help="Where Redis is, for an app that does not say. LEASEHOLD_URL does not show in `ps`.")
@click.option(
    "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What to log on stderr."
)
@click.option(
    "--log-format", type=click.Choice(LOG_FORMATS), help="How to log it. [default: LEASEHOLD_LOG_FORMAT, or human]"
)
@click.option(
    "--allow-eviction", is_flag=True, help="Start also on a Redis that may throw away jobs when its memory is full."
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
    url: str | None,
    log_level: str,
    log_format: str | None,
    allow_eviction: bool,
    fleet: Fleet,
) -> None:
    """Run the jobs of an app until told to stop.

    MODULE:APP names a Leasehold, as in `leasehold worker myproject.jobs:app -q mails -q reports --weight mails=5`, or a
    function without arguments that makes one. The current directory is searched for the module first.

    SIGTERM or Ctrl-C: nothing new is started, what has not started is handed back at once, running jobs have --grace
    seconds. A second one stops hard: running jobs are handed back and run again elsewhere.

    While Redis gives no answer the worker waits, also at the start; with --burst for 10 seconds.

    With --processes, --reload, --max-jobs or --max-memory this process is a supervisor of worker processes and does not
    load the app. SIGHUP: new processes take the places of the old, one after the other; a single worker stops.

    Exit status: 0 stopped in good order, or nothing left to do (--burst); 1 Redis could not be reached at the start
    (--burst), or a part of the worker could not be kept alive; 2 the command line, the app or a setting is wrong; 3
    stopped hard; 4 all slots were occupied by handlers that do not end: start it again. Handlers that do not end are
    not waited for: they end with the process. Threads, child processes and exit hooks that handlers left behind have 2
    seconds.
    """
    set_up_logging(log_level, log_format)
    if log_format is not None:
        os.environ["LEASEHOLD_LOG_FORMAT"] = log_format  # the keeper tells of the worker's death in the same form
    logging.getLogger("asyncio").setLevel(logging.INFO)  # its debug lines are not about jobs
    names, own = tuple(dict.fromkeys(queues)), parse_weights(weights)
    options = WorkerOptions(names, concurrency, burst, grace, own, fleet.max_jobs, fleet.max_memory, fleet.outlets)
    if fleet.supervised:
        context.exit(supervise(context, fleet, grace, burst))
    tether = link_to_supervisor(fleet)
    if url is not None:
        Target.parse(url)  # a mistake in it is none of the environment's, nor of the app's
        os.environ["LEASEHOLD_URL"] = url
    loaded = load(app)
    if url is not None and loaded.settings.url != url:
        raise UserError(f"{app} says itself where its Redis is, so --url cannot. Leave out one of the two.")
    _check_queues(loaded, names, own)
    fleet.outlets.check()
    options = replace(options, launch=launch(app))
    run(_work(loaded, options, allow_eviction, tether))
    context.exit(Exit.OK)


def _check_queues(app: Leasehold, queues: Sequence[str], weights: Collection[str]) -> None:
    """Refuse queues that the protocol or this release reads in another way, and weights of other queues.

    Warn of a queue that nothing in the app names: it may be a typing error, or the queue of `using(queue=...)`.
    """
    for queue in queues:
        app.queue(queue)  # raises for a name that the protocol cannot have
    served = queues or queues_of(app)
    for queue in weights:
        if queue not in served:
            raise UserError(f"--weight must be of a queue of this worker ({_listed(served)}), got {queue!r}.")
    named = list(dict.fromkeys(spec.queue for spec in app.specs()))
    for queue in queues:
        if queue in named:
            continue
        if words := current_spelling(queue, named):
            raise UserError(f"--queue must be the name of one queue, got {queue!r}. Write {words} instead.")
        text = f"No task or handler of the app names the queue {queue!r}; those that are named: {_listed(named)}."
        log_event(logging.WARNING, "queue_unnamed", queue=queue, about=safe(text))


def _listed(queues: Sequence[str]) -> str:
    more = ", ..." if len(queues) > _MAX_NAMES else ""
    return (", ".join(map(repr, queues[:_MAX_NAMES])) or "none") + more


_EXITS: Final = {
    ExitStatus.OK: Exit.OK,
    ExitStatus.FAILED: Exit.FAILED,
    ExitStatus.HARD: Exit.HARD,
    ExitStatus.ABANDONED: Exit.OK,
}


def _ended(finished: Finished) -> None:
    end_within(LINGER_MS, _exit_of(finished), heir())
    with contextlib.suppress(OSError):  # the end of the command tells of it
        sys.stdout.flush()


def _exit_of(finished: Finished) -> Exit:
    status = _EXITS[finished.status]
    return Exit.RECYCLED if status is Exit.OK and finished.retired else status


async def _inspected(app: Leasehold, burst: bool) -> Inspection | None:
    """What can be said of its Redis. None: the worker was told to stop while it waited for that."""
    looking = asyncio.ensure_future(inspect_redis(app, burst))
    with on_signals(looking.cancel):
        await asyncio.wait({looking})
    if looking.cancelled():
        log_event(logging.INFO, "stopped", reason="Redis gave no answer")
        return None
    return looking.result()


async def _work(app: Leasehold, options: WorkerOptions, allow_eviction: bool, tether: SupervisorLink | None) -> None:
    """Run the worker, and see to the end of the process: here and now if the worker did not end well."""
    found = await _inspected(app, options.burst)
    if found is None:
        _ended(Finished(ExitStatus.OK))
        return
    if refused := found.refusals(allow_eviction):
        hint = ["(--allow-eviction starts the worker all the same.)"] if not found.refusals(True) else []
        raise UserError("\n".join([*refused, *hint]))
    log(found)
    try:
        finished = await run_worker(app, options, tether, _ended)
    except asyncio.CancelledError:  # by a handler: nobody else has this task. The log has told of it
        finished = Finished(ExitStatus.FAILED)
    status = _exit_of(finished)
    if status is not Exit.OK or finished.status is not ExitStatus.OK:
        # Here, because the end of the loop and of the interpreter would wait for handlers that are still running.
        logging.shutdown()
        if (keeper := heir()) is not None:
            become_waiter(keeper, status)
        os._exit(status)
