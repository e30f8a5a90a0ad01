"""The `autoscale` command: how many workers some queues need, for an orchestrator or for processes of this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import Exit, UserError, note, safe
from tenure.cli.logs import set_up_logging
from tenure.cli.reach import reaching, unknown
from tenure.cli.units import Duration
from tenure.cli.work.processes import run_parent, worker_command
from tenure.cli.work.worker import MAX_PROCESSES
from tenure.core import limits
from tenure.manage.autoscaler import Autoscaler
from tenure.manage.documents import encoded, scale_document
from tenure.manage.load import load_queues
from tenure.processes.config import ParentConfig, address_of
from tenure.processes.http import HttpPort
from tenure.runtime.signals import on_signals
from tenure.scale import FEEDS_MAX, WORKERS_MAX, Decision, Policy, Tier, desired

TOKEN_MAX: Final = 4_096
"""Bytes of the file with the token."""


@click.argument("queues", shell_complete=queue_names)
@click.option(
    "--drain-within", type=Duration(), default=30.0, metavar="DURATION", show_default=True,
    help="Within which time the jobs that wait should start: seconds, or 2m, 1h.",
)  # fmt: skip
@click.option("--max", type=int, metavar="N", help="The most workers. [default: the sum of the tiers, or 10]")
@click.option("--min", type=int, default=1, metavar="N", show_default=True, help="The least workers.")
@click.option(
    "--slots", type=int, default=limits.CONCURRENCY, metavar="N", show_default=True,
    help="How many jobs one worker runs at a time: its --concurrency, times its --processes.",
)  # fmt: skip
@click.option(
    "--spin-up", type=Duration(), default=20.0, metavar="DURATION", show_default=True,
    help="How long a worker takes to start. Jobs that are due within this time count as waiting.",
)  # fmt: skip
@click.option(
    "--calm-down", type=Duration(), default=300.0, metavar="DURATION", show_default=True,
    help="How long a worker stays after it was needed last.",
)  # fmt: skip
@click.option("--step-up", type=int, metavar="N", help="The most workers that one look adds.")
@click.option("--step-down", type=int, metavar="N", help="The most workers that one look removes.")
@click.option(
    "--assume", type=Duration(), default=1.0, metavar="DURATION", show_default=True,
    help="How long jobs run, until workers have announced it.",
)  # fmt: skip
@click.option("--feeds", multiple=True, metavar="QUEUE=N", help="Each job of this queue makes N jobs of the others.")
@click.option("--tier", "tiers", multiple=True, metavar="NAME=MAX", help="A group of workers; the first grows first.")
@click.option(
    "--every", type=Duration(0.1, limits.HOUR / limits.SECOND), default=5.0, metavar="DURATION", show_default=True,
    help="How often it looks.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Look once, without --calm-down and steps, and end.")
@click.option("--serve", metavar="[HOST:]PORT", help="Answer GET /scale and /metrics. The default host is 127.0.0.1.")
@click.option(
    "--token-file", metavar="FILE", help="Answer only requests with the token in this file: Authorization: Bearer TOKEN"
)
@click.option("--run", metavar="MODULE:APP", help="Run that number of worker processes of this app on this machine.")
@reaching(streams=True)
def autoscale(
    queues: str,
    feeds: tuple[str, ...],
    tiers: tuple[str, ...],
    every: float,
    once: bool,
    serve: str | None,
    token_file: str | None,
    run: str | None,
    app: Tenure,
    as_json: bool,
    **numbers: Any,
) -> Exit:
    """\b
    tenure autoscale orders,mails --drain-within 30 --max 20 --serve 8090
    tenure autoscale orders --max 4 --slots 16 --run shop:app
    tenure autoscale orders --once --json

    It looks at jobs that wait and may run, jobs that run, those that are due soon, how many come,
    and how long they run. A line is printed for each change. `--serve` is for KEDA and for a HorizontalPodAutoscaler,
    see docs/howto/autoscaling.md. With `--run`, a worker that is not needed any more starts no further job, and ends
    after its running jobs. While Redis does not respond, the last decision stays.

    Exit status: 0 stopped by a signal, or --once is done; 1 Redis could not be reached (--once), or the workers of
    --run could not be kept alive; 2 the command line or a setting is wrong, or the port is in use.
    """
    names = load_queues(app.engine, queues.split(","))
    groups = tuple(Tier(name, count) for name, count in _pairs("--tier", tiers, WORKERS_MAX).items())
    policy = Policy(**numbers, feeds=_pairs("--feeds", feeds, FEEDS_MAX), tiers=groups)
    _check(names, policy, once, serve, token_file, run)

    def show(decision: Decision) -> None:
        if as_json:
            click.echo(encoded(scale_document(decision), lines=once))
        else:
            click.echo(safe(f"{time.strftime('%H:%M:%S')} {decision.reason}"))

    if once:
        show(desired(app.inspect.load(names, policy.spin_up), policy))
        for text in (text for queue in names for text in unknown(app, queue)):
            note(text)
        return Exit.OK
    set_up_logging("info")
    scaler = Autoscaler(app.inspect, names, policy, "" if token_file is None else _token(token_file))
    served = _served(scaler, None if serve is None else address_of(serve, "scale port"))
    if run is None:
        asyncio.run(_until_signal(served, partial(scaler.run, show, every)))
        return Exit.OK

    async def steer(resize: Callable[[int], None]) -> None:
        def decided(decision: Decision) -> None:
            show(decision)
            resize(decision.workers)

        await scaler.run(decided, every)

    arguments = [*(f"--queue={name}" for name in names), f"--concurrency={policy.slots}", "--", run]
    config = ParentConfig(worker_command(arguments, first=()), policy.most, steer=steer)
    return Exit(run_parent(config, served))


def _check(
    names: Sequence[str], policy: Policy, once: bool, serve: str | None, token_file: str | None, run: str | None
) -> None:
    """Raise `UserError` for options that contradict each other."""
    for queue in policy.feeds:
        if queue not in names:
            raise UserError(f"--feeds names queue {queue!r}, which is not one of {', '.join(names)}.")
    for option, given in (("--serve", serve), ("--run", run)):
        if once and given is not None:
            raise UserError(f"--once and {option} do not go together.")
    if token_file is not None and serve is None:
        raise UserError("--token-file needs --serve.")
    if run is not None and policy.most > MAX_PROCESSES:
        raise UserError(f"--run starts at most {MAX_PROCESSES} processes, and the policy has up to {policy.most:,}.")


@asynccontextmanager
async def _served(scaler: Autoscaler, address: tuple[str, int] | None) -> AsyncIterator[None]:
    port = HttpPort("scale port", "--serve 8099", scaler.answer)
    if address is not None:
        at = await port.open(*address)
        note(f"GET http://{at}/scale has the number of workers.")
    try:
        yield
    finally:
        port.close()


async def _until_signal(
    served: AbstractAsyncContextManager[None], work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Work until SIGINT or SIGTERM comes."""
    async with served:
        task = asyncio.ensure_future(work())
        with on_signals(task.cancel):
            await asyncio.wait({task})
        if not task.cancelled():
            task.result()


def _pairs(option: str, values: Sequence[str], most: int) -> dict[str, int]:
    """Return the numbers of NAME=N. Raises `UserError`."""
    found: dict[str, int] = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        if not equals or not number.isascii() or not number.isdigit() or not 1 <= int(number) <= most:
            raise UserError(f"{option} must be a name, = and a number from 1 to {most:,}, got {value!r}.")
        if name in found:
            raise UserError(f"{option} names {name!r} twice.")
        found[name] = int(number)
    return found


def _token(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            token = file.read(TOKEN_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file {path!r} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not token:
        raise UserError(f"--token-file {path!r} must have a token, and it is empty.")
    return token
