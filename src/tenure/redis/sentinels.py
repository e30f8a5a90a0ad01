"""Connects to the master of a service, which its sentinels name.

Each connection is a new search: it asks the sentinels in turn, beginning with the last that was right, and uses the
server they name only if that server confirms that it is a master. So no call reaches a replica or a demoted master.
"""

from __future__ import annotations

from typing import Final, TypeVar

from tenure.core import limits
from tenure.core.errors import AccessDenied
from tenure.redis import replies
from tenure.redis.failures import ConnectionLost
from tenure.redis.link import Link, pack
from tenure.redis.log import log_event
from tenure.redis.replies import Reaction
from tenure.redis.url import Address, Target, master_of, sentinel_of, shown

L = TypeVar("L", bound=Link)

SENTINEL_MS: Final = 1 * limits.SECOND
"""How long each step with one sentinel may take before the next sentinel is asked."""

_SENTINEL_S: Final = SENTINEL_MS / limits.SECOND
# HELLO without arguments changes nothing, returns the role, and unlike ROLE every user may call it.
_WHO_ARE_YOU: Final = pack(("HELLO",))


class Sentinels:
    """The sentinels of one driver. `master`: the result of the last search, None before the first."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._first = 0
        self.master: Address | None = None

    async def connect(self, kind: type[L], timeout_s: float) -> L:
        """Find the master and connect to it. Each step with a sentinel has its own limit; `timeout_s` limits each step
        with the master.

        Raises `AccessDenied` and errors of the connection.
        """
        sentinels, failures, tried = self._target.sentinels, list[Exception](), set[Address]()
        for turn in range(len(sentinels)):
            position = (self._first + turn) % len(sentinels)
            try:
                address = await self._ask_sentinel(sentinels[position], kind, min(timeout_s, _SENTINEL_S))
            except Exception as error:
                failures.append(_of_sentinel(sentinels[position], error))
                continue
            if address in tried:
                continue
            tried.add(address)
            try:
                link = await _dial_master(master_of(self._target, address), kind, timeout_s)
            except Exception as error:
                failures.append(error)
                continue
            self._found(position, address)
            return link
        # A retry does not mend a refusal, so report it first; otherwise report the last failure.
        raise next((error for error in failures if not replies.is_passing(error)), failures[-1])

    async def _ask_sentinel(self, sentinel: Address, kind: type[L], timeout_s: float) -> Address:
        link = await kind.dial(sentinel_of(self._target, sentinel), timeout_s)
        try:
            question = pack(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._target.service))
            reply = await link.ask(question, timeout_s, timeout_s)
        finally:
            await link.close()
        if not isinstance(reply, list) or len(reply) != 2:
            raise ConnectionLost(f"the sentinel {shown(sentinel)} knows no service {self._target.service!r}")
        return reply[0].decode(), int(reply[1])

    def _found(self, position: int, address: Address) -> None:
        before, self.master, self._first = self.master, address, position
        if before is not None and before != address:
            log_event("master_changed", at=self._target, now=shown(address), before=shown(before))


async def _dial_master(target: Target, kind: type[L], timeout_s: float) -> L:
    """Connect to a server. Raises `ConnectionLost` if it is not a master."""
    link = await kind.dial(target, timeout_s)
    try:
        reply = await link.ask(_WHO_ARE_YOU, timeout_s, timeout_s)
        if dict(zip(reply[::2], reply[1::2], strict=False)).get(b"role") != b"master":
            raise ConnectionLost(f"{shown(link.address)} is named as the master, but it is no master")
    except BaseException:
        await link.close()
        raise
    return link


def _of_sentinel(sentinel: Address, error: Exception) -> Exception:
    """Return the failure with the sentinel's address. A refusal of a sentinel is about its own user, not Redis'."""
    if replies.is_reply(error) and replies.action_of(error) is Reaction.DENIED:
        return replies.make_error(
            AccessDenied,
            f"The sentinel at {shown(sentinel)} refused access: {replies.read(replies.text_of(error))[1]}",
            "Check `sentinel_username` and `sentinel_password` in the URL; the user and password before the @ are for "
            "Redis itself.",
        )
    if isinstance(error, ConnectionLost) and "knows no service" in str(error):
        return error
    lost = ConnectionLost(f"the sentinel {shown(sentinel)}: {str(error).rstrip('.') or type(error).__name__}")
    lost.__cause__ = error
    return lost
