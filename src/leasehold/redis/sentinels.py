"""Finds the master of a service through its sentinels. Pure: which server to ask next, and what its answer means.

Each connection is a new search: it asks the sentinels in turn, beginning with the last that was right, and uses the
server they name only if that server confirms that it is a master. So no call reaches a replica or a demoted master.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import redis.exceptions as client

from leasehold.core import limits
from leasehold.core.errors import AccessDenied
from leasehold.core.steps import Arg
from leasehold.redis import replies
from leasehold.redis.log import log_event
from leasehold.redis.replies import Action
from leasehold.redis.url import Address, Target, master_of, sentinel_of, shown

SENTINEL_MS: Final = 1 * limits.SECOND
"""How long each step with one sentinel may take before the next sentinel is asked."""

_SENTINEL_S: Final = SENTINEL_MS / limits.SECOND
# HELLO without arguments changes nothing, returns the role, and unlike ROLE every user may call it.
_WHO_ARE_YOU: Final = ("HELLO",)
_PASSING: Final = (Action.RESEND, Action.RECONNECT)


@dataclass(frozen=True, slots=True)
class Question:
    """Connect to a server and send it `args`. `wanted`: keep the connection if the reply is that of a master."""

    target: Target
    args: tuple[Arg, ...]
    timeout_s: float
    wanted: bool = False


Search: TypeAlias = Generator[Question, Any, None]
"""Receives the reply to each question, or the exception. Ends after the master's; raises if there is no master."""


class Sentinels:
    """The sentinels of one driver. `master`: the result of the last search, None before the first."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._first = 0
        self.master: Address | None = None

    def search(self, timeout_s: float) -> Search:
        """Search once. Each step with a sentinel has its own limit; `timeout_s` limits each step with the master.

        Raises `AccessDenied` and errors of the connection.
        """
        sentinels, failures, tried = self._target.sentinels, list[Exception](), set[Address]()
        for turn in range(len(sentinels)):
            position = (self._first + turn) % len(sentinels)
            try:
                address = self._named(sentinels[position], (yield self._where(sentinels[position], timeout_s)))
            except Exception as error:
                failures.append(_of_sentinel(sentinels[position], error))
                continue
            if address in tried:
                continue
            tried.add(address)
            try:
                reply = yield Question(master_of(self._target, address), _WHO_ARE_YOU, timeout_s, wanted=True)
            except Exception as error:
                failures.append(error)
                continue
            if is_master(reply):
                self._found(position, address)
                return
            failures.append(client.ConnectionError(f"{shown(address)} is named as the master and is none"))
        # A retry does not mend a refusal, so report it first; otherwise report the last failure.
        raise next((error for error in failures if replies.action_of(error) not in _PASSING), failures[-1])

    def _where(self, sentinel: Address, timeout_s: float) -> Question:
        ask = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._target.service)
        return Question(sentinel_of(self._target, sentinel), ask, min(timeout_s, _SENTINEL_S))

    def _named(self, sentinel: Address, reply: Any) -> Address:
        if not isinstance(reply, list) or len(reply) != 2:
            raise client.ConnectionError(f"the sentinel {shown(sentinel)} knows no service {self._target.service!r}")
        return reply[0].decode(), int(reply[1])

    def _found(self, position: int, address: Address) -> None:
        before, self.master, self._first = self.master, address, position
        if before is not None and before != address:
            log_event("master_changed", at=self._target, now=shown(address), before=shown(before))


def is_master(reply: Any) -> bool:
    """Return whether this reply to HELLO, of either protocol version, is a master's.

    >>> is_master([b"server", b"redis", b"role", b"replica"])
    False
    """
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2], strict=False))
    return isinstance(reply, dict) and reply.get(b"role") == b"master"


def _of_sentinel(sentinel: Address, error: Exception) -> Exception:
    """Return the failure with the sentinel's address. A refusal of a sentinel is about its own user, not Redis'."""
    if replies.is_reply(error) and replies.action_of(error) is Action.DENIED:
        return replies.make_error(
            AccessDenied,
            f"The sentinel at {shown(sentinel)} refused access: {replies.read(replies.text_of(error))[1]}",
            "Check `sentinel_username` and `sentinel_password` in the URL; the user and password before the @ are for "
            "Redis itself.",
        )
    if isinstance(error, client.ConnectionError) and "knows no service" in str(error):
        return error
    lost = client.ConnectionError(f"the sentinel {shown(sentinel)}: {str(error).rstrip('.') or type(error).__name__}")
    lost.__cause__ = error
    return lost
