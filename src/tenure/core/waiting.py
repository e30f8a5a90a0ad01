"""How a worker waits for work: an engine states it as one of five values, and a driver executes the value.

| value | Redis | while the worker waits |
|---|---|---|
| `Wake` | blocking calls | takes nothing; the next claim finds the job |
| `Take` | a blocking call that moves a job | the next claim of the same worker adopts the job |
| `Lead` | a blocking command before the claim, in one write | the claim runs as soon as the command ends |
| `Listen` | pub/sub | a message or its channel names the queue that may have work |
| `Poll` | nothing | the worker claims again after an interval |

A wake-up is a hint: it may be lost, and the job may be gone by the time of the claim. Each wait may be cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tenure.core import limits
from tenure.core.steps import Command, Steps, changing

T = TypeVar("T")

LISTEN_POLL_MS: Final = 100
"""How often a lease by hand looks for work where a worker would listen."""


class Wake(Struct, frozen=True):
    """Blocking calls. They answer the queue that may have work; None after the timeout."""

    calls: Steps[str | None]


class Take(Struct, frozen=True):
    """A blocking call that moves a job into a place of the worker in Redis. It answers as the calls of `Wake` do.

    The worker's next `lease` adopts the job. `put_back` returns it to its queue instead, for a wait that was cancelled.
    A job that arrives after that counts as an orphaned lease of the worker: heartbeats report it, `leave` returns it.
    """

    call: Steps[str | None]
    put_back: Callable[[], Steps[None]]


class Lead(Struct, frozen=True):
    """A blocking command that is sent in one write with a claim from `queue`, before it, which does not use its reply.

    The lease may begin at any moment of the wait. So the wait must end, and a heartbeat follow it, before other workers
    take over a lease that began with the wait.

    `if_idle`: a worker that runs jobs sends the command alone and claims after it. Its event loop may be blocked when
    the reply comes, and the heartbeats of its jobs would keep the new ones from other workers.
    """

    command: Command
    queue: str
    if_idle: bool = False


class Listen(Struct, frozen=True):
    """Pub/sub channels. `parse` gives the queue that a channel and a message on it name, None if they name none."""

    channels: tuple[str, ...]
    parse: Callable[[str, bytes], str | None]


class Poll(Struct, frozen=True):
    """Nothing to wait for: claim again after the interval."""

    interval_ms: int


SeparateWait: TypeAlias = Wake | Take | Listen | Poll
"""A wait that ends before its claim is sent."""

Wait: TypeAlias = Lead | SeparateWait


def led_by(command: Command, steps: Steps[T]) -> Steps[T]:
    """Send the blocking command in one write with the first script of the steps.

    The wait is sent once. When the connection is lost in the wait, the script alone is sent again, as after any lost
    reply; on a cluster that raises `WaitLost`.
    """
    leads = iter((command,))
    return changing(steps, lambda call: replace(call, lead=next(leads, None)))


def calls_of(wait: Wait) -> Steps[str | None] | None:
    """The blocking calls of a wait that needs no more than a driver; None: pause instead, for `pause_ms_of`."""
    match wait:
        case Wake(calls):
            return calls
        case Take(call):
            return call
        case Lead():
            return alone(wait)
        case _:
            return None


def pause_ms_of(wait: Wait, timeout_ms: int) -> int:
    """How long to pause before the next claim where nothing listens."""
    interval_ms = wait.interval_ms if isinstance(wait, Poll) else LISTEN_POLL_MS
    return max(limits.MIN_WAIT_MS, min(interval_ms, timeout_ms))


def alone(lead: Lead) -> Steps[str | None]:
    """Run the command without its claim. What it took out of the queue is adopted by the next claim."""
    return lead.queue if (yield lead.command) is not None else None
