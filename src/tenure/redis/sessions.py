"""Nonces: sessions with a running number, each used by one operation at a time.

>>> sessions = Sessions()
>>> session = sessions.take()
>>> first, second = session.draw(), session.draw()
>>> first.session == second.session, second.number - first.number
(True, 1)
>>> sessions.give(session)
"""

from __future__ import annotations

import secrets
from typing import Final

from tenure.core.steps import Nonce

MAX_FREE: Final = 256
"""Sessions kept for later. Redis remembers one answer for each, for some minutes."""


class Session:
    """A name of its own and a number that grows with every draw, from `first` on."""

    __slots__ = ("_number", "name")

    def __init__(self, first: int = 1) -> None:
        self.name = secrets.token_urlsafe(9)
        self._number = first - 1

    def draw(self) -> Nonce:
        self._number += 1
        return Nonce(self.name, self._number)


class Sessions:
    """The sessions that are free. A session must not be returned if its last call ended in doubt.

    Redis remembers only the last answer of a session: a number drawn while an earlier call of the same session may
    still arrive would let that call run a second time.
    """

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: list[Session] = []

    def take(self) -> Session:
        # pop and append are atomic, so threads need no lock here.
        try:
            return self._free.pop()
        except IndexError:
            return Session()

    def give(self, session: Session) -> None:
        if len(self._free) < MAX_FREE:
            self._free.append(session)
