"""The `monitor` command: the maintenance of queues without a Tenure worker."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import closing
from types import FrameType
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import UserError, note, safe
from tenure.cli.output.tables import answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import reaching
from tenure.cli.units import Duration
from tenure.client.connections import Connections
from tenure.core import limits
from tenure.core.engine import FullEngine, Maintained
from tenure.core.errors import Unreachable
from tenure.protocols.registry import engine_for, entry_of, parse_protocol
from tenure.protocols.text import with_timeout

ROUNDS_MAX: Final = 100
"""Calls of one round on a queue. The next round continues."""


@click.command()
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True, shell_complete=queue_names)
@click.option(
    "--timeout",
    type=Duration(),
    metavar="DURATION",
    help="How long a job of another client may run, as their workers set it. [default: the protocol's]",
)
@click.option("--once", is_flag=True, help="Run one round, and end.")
@reaching()
def monitor(queues: tuple[str, ...], timeout: float | None, once: bool, app: Tenure, as_json: bool) -> None:
    """Return the jobs of dead workers to their queues, again and again, until a signal stops it.

    \b
    tenure monitor default --protocol hworker:printer --timeout 600

    For queues that only workers of other languages serve. Every Tenure worker does this by itself. Any number of
    monitors may run. Give each the timeout of the workers: with a shorter one it returns jobs that still run. While
    Redis does not respond, the monitor waits. It prints a line for each round in which a job came back.

    Exit status: 0 stopped by a signal, or --once is done; 1 Redis could not be reached (--once); 2 the command line or
    a setting is wrong.
    """
    engine = app.engine
    if timeout is not None:
        protocol = parse_protocol(app.protocol) if isinstance(app.protocol, str) else app.protocol
        engine = engine_for(with_timeout(protocol, timeout), app.settings)
    if not entry_of(engine).has_foreign_clients:
        raise UserError(
            f"The protocol {engine.name!r} needs no monitor: its workers return the jobs of dead workers themselves. "
            "Start one with `tenure worker MODULE:APP`."
        )
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with closing(Connections(app.settings)) as connections:
            while not stopped.is_set():
                try:
                    _round(engine, connections, queues, once, as_json)
                except Unreachable as error:
                    if once:
                        raise
                    note(str(error))
                if once:
                    break
                stopped.wait(engine.timing.maintain_ms / limits.SECOND)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _round(engine: FullEngine, connections: Connections, queues: tuple[str, ...], once: bool, as_json: bool) -> None:
    for queue in queues:
        done = _maintained(engine, connections, queue)
        if once or done.reclaimed or done.promoted:
            text = f"Queue {safe(queue)!r}: {jobs_text(done.reclaimed)} returned, {done.promoted:,} retries due."
            shown = {"queue": queue, "reclaimed": done.reclaimed, "promoted": done.promoted}
            answer(as_json, shown, f"{time.strftime('%H:%M:%S')} {text}")


def _maintained(engine: FullEngine, connections: Connections, queue: str) -> Maintained:
    reclaimed = promoted = 0
    done = Maintained()
    for _ in range(ROUNDS_MAX):
        done = connections.run(engine.maintain((queue,), ()))
        reclaimed, promoted = reclaimed + done.reclaimed, promoted + done.promoted
        if not done.more:
            break
    return Maintained(promoted=promoted, reclaimed=reclaimed, more=done.more)
