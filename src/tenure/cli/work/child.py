"""A worker process of `tenure worker`: it loads the app and runs its jobs. Its parent starts it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tenure.app.run import Finished, WorkerOptions, check_weights, inspect_redis, queues_of, run_worker
from tenure.cli.errors import Exit, UserError
from tenure.cli.loader import blaming, load, refuse_patched
from tenure.cli.logs import LogSetup
from tenure.cli.work.banner import show_banner
from tenure.cli.work.launch import launch
from tenure.cli.work.weights import current_spelling
from tenure.core import limits
from tenure.core.values import replace
from tenure.manage.preflight import Inspection, log
from tenure.processes.link import ParentSocket
from tenure.runtime.handlers.loop import loop_factory
from tenure.runtime.lifespan import LifespanFailed
from tenure.runtime.log import brief, log_event
from tenure.runtime.loop_kind import LoopKind
from tenure.runtime.shutdown import ExitStatus
from tenure.runtime.signals import on_signals

if TYPE_CHECKING:
    from tenure.app.app import Tenure

LINGER_MS: Final = 2 * limits.SECOND
"""How long the process waits, after its worker has ended, for threads and exit hooks that handlers left behind."""
FORCE_MS: Final = 8 * limits.SECOND
"""How long the process has after that where no Python code runs any more."""

_STDERR: Final = 2


@dataclass(frozen=True, slots=True)
class Start:
    """How a worker process starts. `banner`: on a terminal, it first shows what it serves. `wait_s`: for how many
    seconds it waits for Redis; None: without end."""

    banner: bool = False
    wait_s: float | None = None
    allow_eviction: bool = False
    loop: LoopKind = LoopKind.ASYNCIO


def run_child(name: str, options: WorkerOptions, start: Start, *, parent: int, url: str | None) -> None:
    """Run the worker of the app `name` to its end. `parent`: the descriptor of the socket to the parent process."""
    # The parent decides what the end of the terminal means. Not SIG_IGN: what handlers start would inherit it.
    signal.signal(signal.SIGHUP, lambda *_: None)
    socket = ParentSocket(parent)
    if url is not None:
        os.environ["TENURE_URL"] = url
    log_setup = LogSetup.current()
    app = load(name)
    gc.enable()
    refuse_patched()
    if url is not None and app.settings.url != url:
        raise UserError(f"{name} sets the URL of its Redis, so --url cannot. Leave out one of the two.")
    _check_queues(app, options.queues)
    check_weights("--weight", options.weights, options.queues or queues_of(app))
    if start.banner and sys.stderr.isatty():
        show_banner(name, app, options.queues or queues_of(app), options.concurrency)
    # Whatever loop the app prefers is for its own code.
    try:
        with asyncio.Runner(loop_factory=loop_factory(start.loop)) as runner:
            runner.run(_work(app, replace(options, launch=launch(name, log_setup), source=name), start, socket))
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        # A handler closed the files of the event loop. Its threads would keep this process, and so its jobs, for ever.
        log_event("worker_failed", loop="asyncio", error=brief(error))
        logging.shutdown()
        os._exit(Exit.FAILED)


def _check_queues(app: Tenure, queues: Sequence[str]) -> None:
    """Refuse queues that the protocol or this release reads in another way."""
    named = [spec.queue for spec in app.specs()]
    for queue in queues:
        app.queue(queue)  # raises for a name that the protocol cannot have
        if words := current_spelling(queue, named):
            raise UserError(f"--queue must be the name of one queue, got {queue!r}. Write {words} instead.")


_EXITS: Final = {
    ExitStatus.OK: Exit.OK,
    ExitStatus.FAILED: Exit.FAILED,
    ExitStatus.HARD: Exit.HARD,
    ExitStatus.ABANDONED: Exit.OK,
}


def _ended(finished: Finished) -> None:
    """End this process within `LINGER_MS`, also if handlers left something behind: the end of the event loop and of the
    interpreter waits for tasks, threads, child processes and exit hooks."""
    status = _exit_of(finished)
    timer = threading.Timer(LINGER_MS / limits.SECOND, _force, [status])
    timer.daemon = True
    try:
        timer.start()
        # Where no Python code runs any more: native code has the GIL, or the interpreter is half gone. Its status is 1.
        faulthandler.dump_traceback_later((LINGER_MS + FORCE_MS) / limits.SECOND, exit=True, file=_STDERR)
    except RuntimeError:  # the system allows no further thread
        os._exit(status)
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a handler may have closed or removed it
        sys.stdout.flush()


def _force(status: int) -> None:
    left = [one.name for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    kept_by = f"threads {', '.join(left)}" if left else "asyncio tasks, exit hooks or child processes"
    log_event("exit_forced", kept_by=kept_by)
    os._exit(status)


def _exit_of(finished: Finished) -> Exit:
    status = _EXITS[finished.status]
    return Exit.RECYCLED if status is Exit.OK and finished.retired else status


async def _inspected(app: Tenure, wait_s: float | None) -> Inspection | None:
    """What is wrong with its Redis. None: the worker had to stop while it waited for Redis."""
    looking = asyncio.ensure_future(inspect_redis(app, wait_s))
    with on_signals(looking.cancel):
        await asyncio.wait({looking})
    if looking.cancelled():
        log_event("worker_stopped", reason="Redis gave no answer")
        return None
    return looking.result()


async def _work(app: Tenure, options: WorkerOptions, start: Start, parent: ParentSocket) -> None:
    """Run the worker, and end the process at once if the worker did not end well."""
    found = await _inspected(app, start.wait_s)
    if found is None:
        _ended(Finished(ExitStatus.OK))
        return
    if refused := found.refusals(start.allow_eviction):
        hint = ["(--allow-eviction starts the worker all the same.)"] if not found.refusals(True) else []
        raise UserError("\n".join([*refused, *hint]))
    log(found)
    try:
        finished = await run_worker(app, options, parent, _ended)
    except LifespanFailed as failed:
        with blaming(str(failed)):
            raise failed.__cause__ or failed from None
    except asyncio.CancelledError:  # by a handler: no other code has this task. The log has the event
        finished = Finished(ExitStatus.FAILED)
    status = _exit_of(finished)
    if status is not Exit.OK or finished.status is not ExitStatus.OK:
        # Here, because the end of the loop and of the interpreter would wait for handlers that are still running.
        logging.shutdown()
        os._exit(status)
