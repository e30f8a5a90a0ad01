"""The drivers of a cluster: they send each call to the node of its hash slot, and to another one after a redirect.

Each node has an ordinary driver with its own connections, which makes one attempt: see `nodes`. What is repeated, where
and for how long is decided here, once for both drivers. A call that is sent again has its nonce, as on one server.

A slot that moves key by key (MIGRATING, IMPORTING) is a pause: ASK is not followed, because scripts derive keys from
the one that they declare, and would see only those that have moved. See docs/decisions/0025-clusters.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

from tenure.core import limits
from tenure.core.backoff import RetryBudget
from tenure.core.errors import InvalidArgument, TenureError, Unreachable, is_silent
from tenure.core.steps import Command, Invoke, Reply, Steps, WaitLost, Work
from tenure.redis import replies
from tenure.redis.aio import AsyncDriver
from tenure.redis.attempt import Retrying
from tenure.redis.connector import Connector
from tenure.redis.failures import ConnectionLost
from tenure.redis.link import BlockingLink, Link
from tenure.redis.nodes import AsyncNode, BlockingNode, Node, NodeFailed, is_busy, one
from tenure.redis.pipeline import AsyncLink
from tenure.redis.replies import Redirected
from tenure.redis.slots import keys_of, slot_of_key, split_wait
from tenure.redis.sync import SyncDriver
from tenure.redis.topology import ASK_MS, LostNode
from tenure.redis.url import Address, Target, master_of, shown
from tenure.redis.wire import wait_in

T = TypeVar("T")
L = TypeVar("L", bound=Link)

REDIRECTS_MOST: Final = 5
"""Redirects that a call follows at once. After more of them it pauses as after a failure: the nodes do not agree."""
PROBE_MS: Final = 1 * limits.SECOND
"""How often a node that did not reply for a call's patience is tried again. Other calls to it fail at once."""
PROBE_TIMEOUT_MS: Final = 250
"""How long such a try may take."""
UNBLOCK_MS: Final = 10
"""How long a wait that was unblocked may take to end before it is unblocked again."""
UNBLOCKING_MS: Final = 250
"""How long that is tried. Then the connection of the wait is closed instead."""
READING_MS: Final = 2
"""How long a call waits before it looks again whether another call has read the slot map."""


class Routing(Retrying[L]):
    """What both drivers of a cluster share. It takes the options of `SyncDriver`, and:

    `node_patience_ms`: how long a call waits for its node while other nodes reply; without it, `patience_ms`. With it,
    calls to a node that was silent as long fail at once until it replies, so that a worker continues with the
    queues of the other nodes.
    """

    _takes_clusters: ClassVar[bool] = True
    _node_kind: type[BlockingNode] | type[AsyncNode]

    def __init__(self, target: Target | str, *, node_patience_ms: int | None = None, **options: Any) -> None:
        super().__init__(target, **options)
        assert self._connector.topology is not None, "the target is no cluster"
        self._topology = self._connector.topology
        self._node_patience = None if node_patience_ms is None else node_patience_ms / limits.SECOND
        outer = ("patience_ms", "first_contact")
        self._node_options = {name: value for name, value in options.items() if name not in outer}
        if node_patience_ms is not None:
            connect_ms = self._node_options.get("connect_timeout_ms", limits.CONNECT_TIMEOUT_MS)
            self._node_options["connect_timeout_ms"] = min(connect_ms, max(node_patience_ms, ASK_MS))
        self._nodes: dict[Address, Node] = {}

    async def _run_on_each(self, make: Callable[[], Steps[T]]) -> list[tuple[str, T | Unreachable]]:
        budget, began = RetryBudget(self._patience, self._random), time.monotonic()
        found: dict[Address, T | Unreachable] = {}
        while True:
            asked: Address | None = None
            try:
                await self._read_map()
                masters = self._topology.masters
                for asked in masters:
                    if asked not in found:
                        found[asked] = await self._node(asked).perform(make())
                return [(shown(address), found[address]) for address in masters]
            except NodeFailed as failure:
                self._topology.is_stale = True
                try:
                    await self._pause_for(budget, failure, None, began, asked)
                except Unreachable as error:
                    if asked is None or is_silent(error):
                        raise
                    found[asked] = error

    async def _call(self, call: Command | Invoke | Work) -> Reply:
        self._check_open()
        if isinstance(call, Work):
            return await self._work(call)
        keys = keys_of(call)
        if len(keys) > 1 and isinstance(call, Command) and len(parts := split_wait(call)) > 1:
            return await self._wait_for_any(parts)
        slot = slot_of_key(keys[0]) if keys else None
        waits = wait_in(call) is not None
        began, redirects = time.monotonic(), 0
        budget: RetryBudget | None = None
        named: Address | None = None
        """The node that a redirect has named for the next attempt."""
        failed: Address | None = None
        while True:
            address = named or self._topology.owner(slot)
            try:
                address = named or await self._route(slot, failed)
                reply = await self._node(address).perform(one(call))
            except (NodeFailed, Redirected) as failure:
                named, failed = self._learn(failure, slot, address), address
                if waits:
                    raise _wait_lost(failure) from failure
                redirects += 1
                if named is None or redirects > REDIRECTS_MOST:
                    budget, named = budget or RetryBudget(self._patience, self._random), None
                    await self._pause_for(budget, failure, slot, began)
            except WaitLost:
                self._topology.expire(address)
                raise
            else:
                if budget is not None:
                    budget.forget()
                self._note_good(address, slot)
                return reply

    async def _wait_for_any(self, parts: list[Command]) -> Reply:
        """Wait in several hash slots."""
        raise InvalidArgument("Only the driver for asyncio waits in several hash slots at a time.")

    async def _route(self, slot: int | None, failed: Address | None = None) -> Address:
        """The node to ask. Raises `NodeFailed` at once for one that was lost a moment ago. `failed`: the node of the
        attempt before."""
        topology = self._topology
        if topology.lost and (lost := topology.lost_for(slot)) is not None:
            now = time.monotonic()
            if now < lost.probe_at:
                raise NodeFailed(lost.error, was_lost=True)
            lost.probe_at = now + PROBE_MS / limits.SECOND
            topology.is_stale = True
        if topology.is_stale:
            await self._read_map()
        address = topology.owner(slot)
        if address is None:
            raise NodeFailed(ConnectionLost("no node serves the hash slot"))
        if address in topology.lost or (address == failed and self._node_patience is not None):
            await self._probe(address)
        return address

    async def _probe(self, address: Address) -> None:
        """Try to connect to a node that was lost, for a short time."""
        try:
            link = await Connector(master_of(self._target, address)).open(self._kind, PROBE_TIMEOUT_MS / limits.SECOND)
        except Exception as error:
            if not replies.is_passing(error):
                raise
            raise NodeFailed(error, was_lost=True) from error
        await link.close()

    async def _read_map(self) -> None:
        """Read the slot map, if no other call is reading it."""
        try:
            while not await self._topology.refresh(self._kind, self._reply_timeout):
                if self._topology.is_known:
                    return
                await self._kind.sleep(READING_MS / limits.SECOND)
        except Exception as error:
            if replies.is_passing(error):
                self._availability.lost(error, ASK_MS / limits.SECOND)
                raise NodeFailed(error) from error
            if replies.is_reply(error):
                raise replies.error_of(error, str(self._target)) from None
            raise

    def _node(self, address: Address) -> Node:
        node = self._nodes.get(address)
        if node is None:
            made = self._node_kind(master_of(self._target, address), patience_ms=0, **self._node_options)
            node = self._nodes.setdefault(address, made)
        return node

    def _learn(self, failure: NodeFailed | Redirected, slot: int | None, address: Address | None) -> Address | None:
        """Learn from a failed attempt. Return the node that a redirect names, to be asked at once."""
        if isinstance(failure, NodeFailed):
            if not failure.was_lost and not is_busy(failure.error):
                self._topology.expire(address)
            return None
        if failure.prefix == "CROSSSLOT":
            raise failure
        if failure.prefix != "MOVED" or failure.address is None or slot is None or address is None:
            return None
        host, port = failure.address
        owner = (host or address[0], port)
        self._topology.moved(slot, owner)
        return owner

    def _note_good(self, address: Address, slot: int | None) -> None:
        self.liveness = time.monotonic()
        if self._topology.lost:
            self._topology.found(address, slot)
        if self._availability.failed_at is not None:
            self._availability.back()

    async def _pause_for(
        self,
        budget: RetryBudget,
        failure: NodeFailed | Redirected,
        slot: int | None,
        began: float,
        asked: Address | None = None,
    ) -> None:
        """Pause before the next attempt. Raises `Unreachable` when the call's time is over. `asked`: the node that was
        asked, if not for the sake of a slot."""
        now, address = time.monotonic(), asked or self._topology.owner(slot)
        lost = self._topology.lost.get(asked) if asked else self._topology.lost_for(slot)
        others_reply = max(self._topology.read_at, self.liveness) > (began if lost is None else lost.since)
        most_s = self._patience if self._node_patience is None or not others_reply else self._node_patience
        pause_s = budget.failed(now)
        if pause_s is not None and now - began < most_s and lost is None:
            await self._kind.sleep(min(pause_s, most_s))
            return
        error = _error_of(failure)
        if self._node_patience is not None and others_reply and lost is None:
            is_well = isinstance(failure, Redirected) or is_busy(error)
            what = slot if slot is not None and (is_well or address is None) else address
            self._topology.lost[what] = LostNode(error, began, now + PROBE_MS / limits.SECOND)
        given_up = _unreachable(self._target, address if others_reply else None, most_s, failure)
        given_up.node = "" if not others_reply else "none" if address is None else shown(address)
        raise given_up from (None if replies.never_connected(error) else error)

    def _make_connection_limit(self) -> None:
        """Make none: each node has its own."""

    def _start_afresh(self) -> None:
        super()._start_afresh()
        self._topology.lost.clear()


class ClusterDriver(Routing[BlockingLink], SyncDriver):
    """The driver of a cluster for programs without an event loop. See `Routing` and `SyncDriver`."""

    _node_kind = BlockingNode

    def close(self) -> None:
        super().close()
        for node in tuple(self._nodes.values()):
            assert isinstance(node, BlockingNode)
            node.close()


class AsyncClusterDriver(Routing[AsyncLink], AsyncDriver):
    """The driver of a cluster for asyncio. See `Routing` and `AsyncDriver`."""

    _node_kind = AsyncNode

    async def close(self) -> None:
        await super().close()
        for node in tuple(self._nodes.values()):
            assert isinstance(node, AsyncNode)
            await node.close()

    async def _wait_for_any(self, parts: list[Command]) -> Reply:
        """Wait in several hash slots, on a connection for each. The first reply ends the other waits.

        A wait that has taken a value all the same gives it back, so that another client gets it.
        """
        waits = [_Wait(self, part) for part in parts]
        try:
            await asyncio.wait([wait.task for wait in waits], return_when=asyncio.FIRST_COMPLETED)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNBLOCKING_MS / limits.SECOND):
                    await asyncio.gather(*(wait.end() for wait in waits))
        finally:
            for wait in waits:
                wait.task.cancel()
            outcomes = await asyncio.gather(*(wait.task for wait in waits), return_exceptions=True)
        taken = [outcome for outcome in outcomes if isinstance(outcome, list)]
        for key, value in taken[1:]:
            with contextlib.suppress(TenureError):  # its node is lost, and the value with it
                await self._call(Command(("LPUSH", key, value)))
        if taken:
            return taken[0]
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return None

    async def wait_in_slot(self, call: Command, begun: Callable[[Node, int], None]) -> Reply:
        """Wait for keys of one slot. `begun` gets the node and the id of the connection, for CLIENT UNBLOCK."""
        slot = slot_of_key(call.args[1])
        address = self._topology.owner(slot)
        try:
            address = await self._route(slot)
            node = self._node(address)
            assert isinstance(node, AsyncNode)
            reply = await node.wait(call, functools.partial(begun, node))
        except (NodeFailed, Redirected) as failure:
            self._learn(failure, slot, address)
            raise _wait_lost(failure) from failure
        except WaitLost:
            self._topology.expire(address)
            raise
        self._note_good(address, slot)
        return reply


class _Wait:
    """One of several waits."""

    def __init__(self, driver: AsyncClusterDriver, call: Command) -> None:
        self._blocked: tuple[Node, int] | None = None
        self.task = asyncio.ensure_future(driver.wait_in_slot(call, self._begun))

    def _begun(self, node: Node, number: int) -> None:
        self._blocked = node, number

    async def end(self) -> None:
        """End the wait with the reply that a timeout has. Redis may not have read the command yet: ask it again."""
        if self._blocked is None:
            self.task.cancel()  # at once: while the others end, it could still be sent, and take a value
            return
        node, number = self._blocked
        while not self.task.done():
            try:
                await node.perform(one(Command(("CLIENT", "UNBLOCK", number))))
            except (NodeFailed, TenureError):
                return
            await asyncio.wait([self.task], timeout=UNBLOCK_MS / limits.SECOND)


def _error_of(failure: NodeFailed | Redirected) -> Exception:
    return failure.error if isinstance(failure, NodeFailed) else failure


def _wait_lost(failure: NodeFailed | Redirected) -> WaitLost:
    error = _error_of(failure)
    return WaitLost(replies.cause_of(error), replies.timed_out(error))


def _unreachable(
    target: Target, address: Address | None, patience_s: float, failure: NodeFailed | Redirected
) -> Unreachable:
    """The error to raise when a call's time is over. `address`: the node of the call, if other nodes reply."""
    where = str(target if address is None else master_of(target, address))
    if isinstance(failure, NodeFailed):
        return replies.unreachable(where, patience_s, failure.error)
    found = f"{where} moves the hash slot of these keys to another node"
    remedy = "Try again when the slot has moved. `redis-cli --cluster check` names moves that were interrupted."
    if failure.prefix == "MOVED":
        found = f"The nodes of {target} do not agree which of them serves the hash slot of these keys"
        remedy = (
            "Try again later. `redis-cli --cluster check` names such slots, and `redis-cli --cluster fix` mends them."
        )
    refused = f"{found}, and refused the call for {patience_s:g} s."
    return replies.make_error(Unreachable, refused, remedy, "Nothing was done, unless an earlier attempt got through.")
