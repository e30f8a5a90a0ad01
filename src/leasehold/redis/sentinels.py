"""Finding the master of a service through its sentinels. Pure: what to ask whom, and what the answers mean.

Every connection is found anew: the sentinels are asked in turn, beginning with the last that was right, and what they
name is used only when it says itself that it is a master. So a replica is never talked to, nor an old master that has
learnt that it is one.
"""

from __future__ import annotations

import logging
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
"""How long each step of a question to one sentinel may take before the next sentinel is asked."""

_SENTINEL_S: Final = SENTINEL_MS / limits.SECOND
# HELLO without arguments changes nothing, tells the role, and unlike ROLE is allowed to every user.
_WHO_ARE_YOU: Final = ("HELLO",)
_PASSING: Final = (Action.RESEND, Action.RECONNECT)


@dataclass(frozen=True, slots=True)
class Question:
    """Connect to a server and ask it this. `wanted`: its connection is kept when the reply says that it is a master."""

    target: Target
    args: tuple[Arg, ...]
    timeout_s: float
    wanted: bool = False


Search: TypeAlias = Generator[Question, Any, None]
"""Gets the reply to each question, or the exception. Ends after the master's; raises when there is none."""


class Sentinels:
    """What one driver knows about its sentinels. `master` is where the last search ended, None before the first."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._first = 0
        self.master: Address | None = None

    def search(self, timeout_s: float) -> Search:
        """One search. Each step with a sentinel is bounded by itself, each step with the master by `timeout_s`.

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
        # A refusal does not go away by trying again. Of the rest the last failure counts.
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
            log_event(logging.WARNING, "redis_master", at=self._target, now=shown(address), before=shown(before))


def is_master(reply: Any) -> bool:
    """Whether the reply to HELLO, in the shape of either protocol, is that of a master.

    >>> is_master([b"server", b"redis", b"role", b"replica"])
    False
    """
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2], strict=False))
    return isinstance(reply, dict) and reply.get(b"role") == b"master"


def _of_sentinel(sentinel: Address, error: Exception) -> Exception:
    """The failure with the sentinel's name. What a sentinel refuses has to do with its own user, not with Redis'."""
    if replies.is_reply(error) and replies.action_of(error) is Action.DENIED:
        return replies.make_error(
            AccessDenied,
            f"The sentinel at {shown(sentinel)} refused access: {replies.read(replies.text_of(error))[1]}",
            "Check `sentinel_username` and `sentinel_password` in the URL; the user and password before the @ are "
            "Redis' own.",
        )
    if isinstance(error, client.ConnectionError) and "knows no service" in str(error):
        return error
    lost = client.ConnectionError(f"the sentinel {shown(sentinel)}: {str(error).rstrip('.') or type(error).__name__}")
    lost.__cause__ = error
    return lost
