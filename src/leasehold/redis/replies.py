"""What each error reply of Redis means for a call: one table, and the one place that reads error texts.

>>> prefix, message = read("ERR Error running script (call to f_0): @user_script:1: WRONGTYPE Operation against")
>>> prefix, action_for(prefix)
('WRONGTYPE', <Action.WRONG_TYPE: 'wrong type'>)
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final, TypeGuard, TypeVar

import redis.exceptions as client

from leasehold.core.errors import (
    AccessDenied,
    LeaseholdError,
    QueueFull,
    RedisError,
    ReplyError,
    Unreachable,
    WrongState,
)

Trouble = TypeVar("Trouble", bound=RedisError)


class Action(Enum):
    """What a driver does about a failed attempt. Nothing is sent again of a command that blocks: see `WaitLost`."""

    RESEND = "resend"
    """Wait, then send the same call again."""
    RECONNECT = "reconnect"
    """Drop the connection, wait, then send the same call again on a new one."""
    FULL = "full"
    DENIED = "denied"
    WRONG_TYPE = "wrong type"
    NOSCRIPT = "noscript"
    """Send the script's text."""
    CLUSTER = "cluster"
    """Not supported, and said so."""
    RAISE = "raise"
    """Also what becomes of a prefix that is not in the table."""


ACTIONS: Final = {
    "LOADING": Action.RESEND,
    "BUSY": Action.RESEND,
    "TRYAGAIN": Action.RESEND,
    "CLUSTERDOWN": Action.RESEND,
    # A replica, or a master that its replicas have left: where the sentinels are asked, it may be another one now.
    "MASTERDOWN": Action.RECONNECT,
    "NOREPLICAS": Action.RECONNECT,
    "READONLY": Action.RECONNECT,
    "UNBLOCKED": Action.RECONNECT,
    "OOM": Action.FULL,
    "MISCONF": Action.FULL,
    "NOAUTH": Action.DENIED,
    "WRONGPASS": Action.DENIED,
    "NOPERM": Action.DENIED,
    "WRONGTYPE": Action.WRONG_TYPE,
    "NOSCRIPT": Action.NOSCRIPT,
    "MOVED": Action.CLUSTER,
    "ASK": Action.CLUSTER,
    "CROSSSLOT": Action.CLUSTER,
    # We send no MULTI: somebody between us and Redis does, or something is badly wrong.
    "EXECABORT": Action.RAISE,
}

# Where the client has taken the prefix off, its exception class says what it was. Subclasses come first.
_CLASSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (client.BusyLoadingError, "LOADING"),
    (client.NoScriptError, "NOSCRIPT"),
    (client.OutOfMemoryError, "OOM"),
    (client.ReadOnlyError, "READONLY"),
    (client.NoPermissionError, "NOPERM"),
    (client.ExecAbortError, "EXECABORT"),
    (client.AuthenticationWrongNumberOfArgsError, "ERR"),
    (client.AuthenticationError, "WRONGPASS"),
    (client.MasterDownError, "MASTERDOWN"),
    (client.ClusterDownError, "CLUSTERDOWN"),
    (client.TryAgainError, "TRYAGAIN"),
    (client.ClusterCrossSlotError, "CROSSSLOT"),
    (client.MovedError, "MOVED"),
    (client.AskError, "ASK"),
    (client.ModuleError, "ERR"),
)

# The connection failed, or what came over it was no reply.
_LOST: Final = (client.ConnectionError, client.TimeoutError, client.InvalidResponse, OSError, EOFError)

# Each of them comes before the first byte of a call is sent.
_NO_CONNECTION: Final = (ConnectionRefusedError, socket.gaierror, FileNotFoundError)
_MAX_LINKS: Final = 5
_FOR_REPLICAS: Final = "It is a replica: expected the URL of the master, or of the sentinels (redis+sentinel://...)."

_PREFIX: Final = re.compile(r"-?([A-Z][A-Z0-9_]*)(?: |$)")
# An error inside a script, as Redis 6.2 puts it, "Error running script (call to f_<sha>): @user_script:12: ...", and as
# Redis 7 puts what Lua itself raised, "user_script:12: ...".
_WRAPPED: Final = re.compile(
    r"(?:Error running script \(call to f_[0-9a-f]+\): )?(?:@?user_script: ?\d+: )+(.*)", re.DOTALL
)
# Redis 7 says at the end where in a script an error arose.
_ORIGIN: Final = re.compile(r"\s*script: [0-9a-f]+, on @?\w+:\d+\.?$")
# Redis shows the start of a command that it does not know. It may be a payload, so it is cut off.
_SHOWN_ARGS: Final = re.compile(r",? with args beginning with:.*", re.DOTALL)
# A server without a password was sent one.
_NO_DATABASE: Final = "DB index is out of range"
_NEEDLESS: Final = "AUTH <password> called without any password"
# What a server answers before it closes a connection that is one too many: another try may find room.
_TOO_MANY: Final = "max number of clients reached"


def read(text: str) -> tuple[str, str]:
    """The prefix of an error reply and its whole text without wrapping. The prefix is that of the inner command's
    error when a script stopped at it.

        read("-OOM command not allowed")  # ("OOM", "OOM command not allowed")
    """
    text = _ORIGIN.sub("", _SHOWN_ARGS.sub("", text))
    prefix, rest = _split(text)
    if _NEEDLESS in text:
        return "NOAUTH", "this Redis has no password, and the URL has one: take it out of the URL."
    wrapped = _WRAPPED.match(rest)
    if wrapped is not None:
        inner, _ = _split(wrapped[1])
        return (inner, wrapped[1].removeprefix("-")) if inner else ("ERR", text)
    return (prefix or "ERR"), text.removeprefix("-")


def _split(text: str) -> tuple[str, str]:
    found = _PREFIX.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def text_of(error: Exception) -> str:
    """The error reply as Redis sent it, also when the client library has taken its prefix off."""
    reply = getattr(error, "reply", None)
    if isinstance(reply, str):
        return reply
    for kind, prefix in _CLASSES:
        if isinstance(error, kind):
            return f"{prefix} {error}"
    return str(error)


def is_reply(error: Exception) -> TypeGuard[client.RedisError]:
    """Whether Redis answered. False: the connection failed, and what became of the call is unknown."""
    if _TOO_MANY in str(error):
        return False
    return isinstance(error, client.ResponseError | client.BusyLoadingError | client.AuthenticationError)


def keeps_connection(error: BaseException) -> bool:
    """Whether the connection can be used again after this error: a complete error reply was read from it."""
    return isinstance(error, client.ResponseError) and not isinstance(error, client.ConnectionError)


@contextmanager
def ignoring_refusal() -> Iterator[None]:
    """Continue after an error reply: the connection is in order, and the reply to the next command follows."""
    try:
        yield
    except client.ResponseError as error:
        if not keeps_connection(error):
            raise


def action_for(prefix: str) -> Action:
    return ACTIONS.get(prefix, Action.RAISE)


def action_of(error: Exception) -> Action:
    """What to do about an exception of the client library or of the socket; `RAISE` for any other."""
    if is_reply(error):
        return action_for(read(text_of(error))[0])
    return Action.RECONNECT if isinstance(error, _LOST) or _TOO_MANY in str(error) else Action.RAISE


def was_closed(error: Exception) -> bool:
    """Whether the other end had closed the connection."""
    return isinstance(error, _LOST) and not is_reply(error) and not timed_out(error)


def timed_out(error: Exception) -> bool:
    return isinstance(error, client.TimeoutError | TimeoutError)


def cause_of(error: Exception) -> str:
    """Why an attempt failed, in some words. Nothing that was sent is in them."""
    if is_reply(error):
        return read(text_of(error))[1].rstrip(".")
    return "no reply in time" if timed_out(error) else str(error).rstrip(".") or type(error).__name__


def says_why(error: Exception) -> bool:
    """Whether it tells more than that nothing came, of an attempt that had a connection."""
    return not timed_out(error) and not never_connected(error)


def unreachable(where: str, patience_s: float, last: Exception) -> Unreachable:
    """The error to raise when patience is at its end. `last` is the last failure."""
    why = cause_of(last)
    if is_reply(last):
        return make_error(
            Unreachable,
            f"Redis at {where} gave no good answer for {patience_s:g} s ({why}).",
            _FOR_REPLICAS if read(text_of(last))[0] == "READONLY" else "Try again when it is able to.",
            "It refused, so nothing was done, unless another try of this call had got through.",
        )
    if never_connected(last):
        return make_error(
            Unreachable,
            f"Redis at {where} gave no answer for {patience_s:g} s: there was no connection ({why}).",
            "Check the URL, and that Redis runs and can be reached from here, then try again.",
            "So nothing was done, unless an earlier try of this call had got through.",
        )
    return make_error(
        Unreachable,
        f"Redis at {where} gave no answer for {patience_s:g} s ({why}).",
        f"Check that Redis runs and can be reached from here, then try again.{_about_tls(where, last)}",
        "What was asked for may or may not have been done.",
    )


def _about_tls(where: str, error: Exception) -> str:
    """Who speaks TLS to a port without it, or the other way round, gets silence or a closed connection."""
    if where.startswith("rediss://"):
        return " If this port speaks no TLS, the URL begins with redis://."
    if where.startswith("redis://") and was_closed(error):
        return " If this port speaks TLS, the URL begins with rediss://."
    return ""


def make_error(kind: type[Trouble], found: str, remedy: str, meaning: str = "") -> Trouble:
    """The error that says what was found, what this means for the call, and what to do."""
    error = kind(" ".join(part for part in (found, meaning, remedy) if part))
    error.found, error.remedy = found, remedy
    return error


def never_connected(error: BaseException) -> bool:
    """Whether the connection was refused, or its host or socket is not there: nothing was sent by this attempt."""
    link: BaseException | None = error
    for _ in range(_MAX_LINKS):
        if isinstance(link, _NO_CONNECTION):
            return True
        link = None if link is None else link.__cause__ or link.__context__
    return False


def error_of(error: Exception, where: str, key: str = "") -> LeaseholdError:
    """The error to raise for an error reply. `where` names the server, without a password.

    `key`: the first key of the call, where there is one. In a script the beginning of all its keys: that of a queue.
    """
    prefix, message = read(text_of(error))
    sentence = f"{message.rstrip('.')}."
    match action_for(prefix):
        case Action.FULL:
            disk = "Look at the log of Redis, and at the disk and the rights of its directory."
            memory = "Free memory, or raise its limit (`maxmemory`)."
            found, remedy = f"Redis at {where} refused to write: {sentence}", disk if prefix == "MISCONF" else memory
            return make_error(QueueFull, found, remedy, "Nothing was changed.")
        case Action.DENIED:
            denied = make_error(
                AccessDenied,
                f"Redis at {where} refused access: {sentence}",
                "Check the user name and the password in the URL, and the user's rights (`ACL`).",
            )
            denied.prefix = prefix
            return denied
        case Action.WRONG_TYPE:
            which = f" that begins with {key!r}" if key else ""
            look = f" To find it, list them: {_listing(key)}, and ask for the TYPE of each." if key else ""
            return WrongState(
                f"A key{which} at {where} holds something else than expected: {sentence} Another program may use the "
                f"same names: choose another namespace or database.{look}"
            )
        case Action.CLUSTER:
            return ReplyError(
                prefix,
                f"Redis at {where} is part of a cluster, which is not supported yet: {sentence} Use one of its own.",
            )
        case _ if message.endswith(_NO_DATABASE):
            found, remedy = (
                f"Redis at {where} has no such database.",
                "Name one in the URL that is there, as 0 always is.",
            )
            refusal = ReplyError(prefix, f"{found} {remedy}")
            refusal.found, refusal.remedy = found, remedy
            return refusal
        case _:
            return ReplyError(prefix, message)


def _listing(prefix: str) -> str:
    """A command that lists the keys that begin like this. Redis does not say which of them it was."""
    pattern = "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix)
    return "redis-cli --scan --pattern " + shlex.quote(f"{pattern}*")
