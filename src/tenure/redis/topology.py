"""The nodes of a cluster: which master serves each slot, as the nodes themselves report it.

The URL names some nodes. One of them, or of the nodes that are known by then, is asked for the others: at the first
call, after a redirect, and after a node was lost.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeVar

from tenure.core import limits
from tenure.core.errors import ReplyError
from tenure.redis import replies
from tenure.redis.failures import ConnectionLost, ErrorReply
from tenure.redis.link import Link, pack
from tenure.redis.log import log_event
from tenure.redis.slots import SlotMap, read_slots, read_state
from tenure.redis.url import Address, Target, master_of, shown

L = TypeVar("L", bound=Link)

ASK_MS: Final = 1 * limits.SECOND
"""How long each step with one node may take before another node is asked."""
ASKED_MOST: Final = 5
"""How many nodes are asked in one search. The next search begins with the one after them."""

AVOIDED_MS: Final = 10 * limits.SECOND
"""How long a node that did not reply when it was asked is asked after the others."""

_ASK_S: Final = ASK_MS / limits.SECOND
_NO_CLUSTER: Final = "cluster support disabled"


@dataclass(slots=True)
class LostNode:
    """Calls to a node, or about a slot, fail: the last failure, since when, and when to try again (monotonic)."""

    error: Exception
    since: float
    probe_at: float


class Topology:
    """The slot map of one driver. `is_stale`: it is to be read again. `read_at`: when it was read, in monotonic time;
    0.0 before the first time."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._turn = 0
        self._owners: list[Address | None] = []
        self._masters: tuple[Address, ...] = ()
        self._replicas: tuple[Address, ...] = ()
        self._reading = threading.Lock()
        self._named: Address | None = None
        self._silent: dict[Address, float] = {}
        """When an attempt to ask a node has failed."""
        self.lost: dict[Address | int | None, LostNode] = {}
        """The nodes that were silent for a call's patience, and the slots of which nodes refused calls as long."""
        self.is_stale = True
        self.read_at = 0.0

    @property
    def masters(self) -> tuple[Address, ...]:
        """The masters that serve slots, in the order of their slots."""
        return self._masters

    @property
    def is_known(self) -> bool:
        return bool(self._owners)

    def owner(self, slot: int | None) -> Address | None:
        """The master of a slot; None: no node serves it. Without a slot: any master."""
        if slot is not None:
            return self._owners[slot] if self._owners else None
        return self._masters[self._turn % len(self._masters)] if self._masters else None

    def moved(self, slot: int, address: Address) -> None:
        """Note that a node has named another owner of a slot. The whole map is stale, too."""
        self._owners[slot] = self._named = address
        self.is_stale = True

    def expire(self, address: Address | None) -> None:
        """Note that an attempt at a node failed: others may serve its slots soon. Calls to any node choose another."""
        self.is_stale = True
        if address is not None and self.owner(None) == address:
            self._turn += 1

    def lost_for(self, slot: int | None) -> LostNode | None:
        """Whether the node of a slot is lost, or moves the slot and refuses calls about it."""
        return self.lost.get(self.owner(slot)) or self.lost.get(slot)

    def found(self, address: Address, slot: int | None) -> None:
        """Note that a call about this slot had a good reply of this node."""
        self.lost.pop(address, None)
        self.lost.pop(slot, None)

    async def refresh(self, kind: type[L], timeout_s: float) -> bool:
        """Read the map from a node that answers. False: another call is reading it. Raises what the nodes answered."""
        if not self._reading.acquire(blocking=False):
            return False
        try:
            link = await self._connect(kind, timeout_s)
            try:
                reply = await link.ask(pack(("CLUSTER", "SLOTS")), timeout_s, timeout_s)
            finally:
                await link.close()
            self._take(read_slots(reply, link.address))
        finally:
            self._reading.release()
        return True

    async def connect(self, kind: type[L], timeout_s: float) -> L:
        """Connect to a node that is well, for a subscription: each node has the messages of all."""
        return await self._connect(kind, timeout_s)

    def forked(self) -> None:
        """Reset the lock in a child process: another thread of the parent may have held it."""
        self._reading = threading.Lock()

    async def _connect(self, kind: type[L], timeout_s: float) -> L:
        """Connect to a node that sees a cluster in order; else to one that replies at all."""
        failures: list[Exception] = []
        for address in self._next_asked():
            try:
                link = await _dial(master_of(self._target, address), kind, min(timeout_s, _ASK_S))
            except Exception as error:
                failures.append(error)
                self._silent[address] = time.monotonic()
            else:
                self._silent.pop(address, None)
                return link
        # A retry does not mend a refusal, so report it first; otherwise report the last failure.
        raise next((error for error in failures if not replies.is_passing(error)), failures[-1])

    def _next_asked(self) -> list[Address]:
        """The next nodes to ask: the one that a redirect named, the others in turns, and last those that are silent."""
        known = tuple(dict.fromkeys((*self._masters, *self._replicas, *self._target.seeds)))
        first, named = self._turn % len(known), self._named
        self._turn, self._named = self._turn + 1, None
        ring = dict.fromkeys((*([named] if named else []), *known[first:], *known[:first]))
        since = time.monotonic() - AVOIDED_MS / limits.SECOND
        silent = {address for address, at in self._silent.items() if at > since}
        return sorted(ring, key=lambda address: address in self.lost or address in silent)[:ASKED_MOST]

    def _take(self, found: SlotMap) -> None:
        before, owners = self._owners, found.owners()
        self._masters = tuple(dict.fromkeys(master for _, _, master in found.ranges))
        self._replicas = found.replicas
        self._owners = owners
        self.is_stale = not self._masters
        self.read_at = time.monotonic()
        moved = Counter(now for now, then in zip(owners, before, strict=False) if now is not None and now != then)
        for master, slots in moved.items():
            log_event("slots_moved", at=self._target, now=shown(master), slots=slots)


async def _dial(target: Target, kind: type[L], timeout_s: float) -> L:
    """Connect to a node. Raises `ReplyError` if it is no node of a cluster, `ConnectionLost` if it sees none."""
    link = await kind.dial(target, timeout_s)
    try:
        reply = await link.ask(pack(("CLUSTER", "INFO")), timeout_s, timeout_s)
        state = read_state(reply)
        if state.get("cluster_state") != "ok" and state.get("cluster_slots_assigned") == "0":
            raise ConnectionLost(f"the node {shown((target.host, target.port))} has joined no cluster yet")
    except ErrorReply as error:
        await link.close()
        if _NO_CLUSTER in str(error):
            raise _no_cluster(target) from None
        raise
    except BaseException:
        await link.close()
        raise
    return link


def _no_cluster(target: Target) -> ReplyError:
    address = shown((target.host, target.port))
    found, remedy = f"The server at {address} is no node of a cluster.", f"Use its own URL: {target}."
    error = ReplyError("ERR", f"{found} {remedy}")
    error.found, error.remedy = found, remedy
    return error
