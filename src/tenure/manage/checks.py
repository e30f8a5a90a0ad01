"""All checks of a Redis and of its queues, for `tenure check` and before a worker starts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from tenure.core import limits
from tenure.core.engine import FullEngine
from tenure.core.errors import AccessDenied, QueueFull, RedisError, ReplyError
from tenure.core.flows import FlowState, flow_id
from tenure.core.ports import FlowPort
from tenure.core.steps import Command, Steps, T, WaitLost
from tenure.manage.preflight import (
    COMMANDS,
    Finding,
    Inspection,
    Level,
    combined,
    inspect_server,
    inspect_use,
    inspect_wait,
    unheard,
)
from tenure.protocols.registry import rights_of
from tenure.protocols.spec import Rights
from tenure.redis.aio import AsyncDriver

LAYOUTS_CHECKED: Final = 1_000
"""The most queues whose layout version `tenure check` reads."""
OUTSIDE_CHECKED: Final = 100
"""The most queues of which `tenure check` looks for jobs outside of their partitions."""
DEEP_CHECKED: Final = 1_000
"""The most queues of which `tenure check --deep` looks at open flows."""
FLOW_PAGES: Final = 100
"""Pages of the newest flows of a queue that it reads."""
WAKE_MS: Final = 5
"""An idle Redis ends a wait up to 0.1 s late, unless it gets a call. It gets one after this time, while it waits."""
WAKES_MOST: Final = 4
"""How many such calls are made."""


async def inspect_all(
    driver: AsyncDriver, engine: FullEngine, clustered: bool, lost: Callable[[WaitLost], tuple[Finding, ...]]
) -> Inspection:
    """Check each server, the rights of the user, and whether a proxy lets waits and messages pass.

    `clustered`: the URL is for a cluster. `lost` returns the findings of a wait that ended without a reply. Raises
    `RedisError`.
    """
    rights = rights_of(engine, clustered)
    found = combined(await driver.run_on_each(lambda: inspect_server(clustered)))
    more = await driver.run(inspect_use(rights)) if found.is_usable else ()
    if found.is_usable and all(one.name != COMMANDS for one in more):
        more = (*more, *await _through_proxies(driver, rights, lost))
    return Inspection((*found.findings, *more))


async def _through_proxies(
    driver: AsyncDriver, rights: Rights, lost: Callable[[WaitLost], tuple[Finding, ...]]
) -> tuple[Finding, ...]:
    """Try to wait and to listen. A user without the right to it has another finding."""
    try:
        found = await _waited(driver, rights)
    except WaitLost as error:
        found = lost(error)
    if not rights.channel:
        return found
    try:
        async with driver.subscribe(rights.channel):
            return found
    except AccessDenied:
        return found
    except ReplyError as error:
        return (*found, unheard(error))


async def _waited(driver: AsyncDriver, rights: Rights) -> tuple[Finding, ...]:
    waiting = asyncio.ensure_future(driver.run(inspect_wait(rights)))
    try:
        for _ in range(WAKES_MOST):
            if (await asyncio.wait({waiting}, timeout=WAKE_MS / limits.SECOND))[0]:
                break
            await driver.run(_ping())
        return await waiting
    finally:
        waiting.cancel()


def _ping() -> Steps[None]:
    """Call Redis, for what the call wakes. While it refuses writes, it refuses PING too: another check reports that."""
    with contextlib.suppress(QueueFull):
        yield Command(("PING",))


def layouts(engine: FullEngine) -> Steps[tuple[Finding, ...]]:
    """Find the queues that a newer release has written to. Workers of this release claim nothing from them."""
    versions, refused = yield from _of_each("layout", engine, LAYOUTS_CHECKED, engine.layout_of)
    newer = [f"{queue} (version {version})" for queue, version in versions.items() if version > engine.layout]
    if newer:
        text = (
            f"A newer release has written to {_few(newer)}; this release reads layout versions up to {engine.layout}."
        )
        remedy = "Update Tenure here. Until then its workers skip these queues."
        return (*refused, Finding("layout", Level.ERROR, text, remedy))
    text = f"Layout version {engine.layout} or older in {len(versions):,} queues."
    return (*refused, Finding("layout", Level.OK, text))


def outside(engine: FullEngine) -> Steps[tuple[Finding, ...]]:
    """Find jobs in partitions that their queue does not have, as after a restore of Redis: no worker looks there."""
    if engine.partitions is None:
        return ()
    partitions, refused = yield from _of_each(
        "partitions", engine, OUTSIDE_CHECKED, engine.partitions.partitions_outside
    )
    found = [f"{queue} ({', '.join(map(str, numbers))})" for queue, numbers in partitions.items() if numbers]
    if found:
        text = f"Jobs lie in partitions that their queues do not have: {_few(found)}. No worker runs them."
        remedy = "`tenure configure QUEUE --partitions N`, with the number that the queue has, takes them back."
        return (*refused, Finding("partitions", Level.WARNING, text, remedy))
    text = f"No jobs outside of the partitions of {len(partitions):,} queues."
    return (*refused, Finding("partitions", Level.OK, text))


def lost_ends(engine: FullEngine, settles: bool) -> Steps[tuple[Finding, ...]]:
    """Find members that open flows wait for in vain, since a failover has lost the word of their ends. `settles`: let
    the flows count them."""
    if engine.flows is None:
        return ()
    port = engine.flows
    found, refused = yield from _of_each("flows", engine, DEEP_CHECKED, lambda queue: _lost_of(port, queue, settles))
    lost = [member for members in found.values() for member in members]
    if not lost:
        text = f"No open flow of {len(found):,} queues waits for a member that has ended."
        return (*refused, Finding("flows", Level.OK, text))
    text = f"{len(lost):,} members that open flows wait for have ended, or are gone: {_few(lost)}."
    if settles:
        return (*refused, Finding("flows", Level.OK, f"{text} Their flows have counted them now."))
    remedy = "`tenure check --deep --repair` counts them: as what they ended as, or as cancelled if nothing is left."
    return (*refused, Finding("flows", Level.WARNING, text, remedy))


def _lost_of(port: FlowPort, queue: str, settles: bool) -> Steps[list[str]]:
    lost: list[str] = []
    left = yield from port.open_flows(queue)
    for page in range(FLOW_PAGES):
        views = (yield from port.flow_page(queue, page * limits.PAGE_MAX)) if left > 0 else []
        if not views:
            break
        for view in views:
            if view.state is FlowState.OPEN:
                left -= 1
                members = yield from port.lost_members(queue, view.id.partition("/")[2], settles)
                lost += [flow_id(queue, member) for member in members]
    return lost


def _of_each(
    name: str, engine: FullEngine, most: int, look: Callable[[str], Steps[T]]
) -> Steps[tuple[dict[str, T], list[Finding]]]:
    """Look at each queue. Return what was found, and a finding for each queue that could not be read."""
    found: dict[str, T] = {}
    refused: list[Finding] = []
    try:
        queues = (yield from engine.queues())[:most]
    except RedisError as error:
        return found, [Finding(name, Level.UNKNOWN, f"The list of queues could not be read: {error}")]
    for queue in queues:
        try:
            found[queue] = yield from look(queue)
        except RedisError as error:
            refused.append(Finding(name, Level.UNKNOWN, f"Queue {queue!r} could not be read: {error}"))
    return found, refused


def _few(texts: list[str]) -> str:
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5:,} more" if len(texts) > 5 else "")
