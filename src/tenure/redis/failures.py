"""How a call on a connection of Tenure fails: an error reply, or no reply. `replies` has the meaning of each."""

from __future__ import annotations


class ErrorReply(Exception):
    """Redis refused the call. The text is the reply, as it was sent."""


class ConnectionLost(ConnectionError):
    """There is no connection, or it ended."""


class InvalidReply(ConnectionLost):
    """What arrived is no reply of Redis."""
