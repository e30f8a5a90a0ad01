"""The meaning of each error reply of Redis: one table, and the only code that reads error texts.

>>> prefix, message = read("ERR Error running script (call to f_0): @user_script:1: WRONGTYPE Operation against")
>>> prefix, action_for(prefix)
('WRONGTYPE', <Reaction.WRONG_TYPE: 'wrong type'>)
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final, TypeVar

from tenure.core.errors import (
    AccessDenied,
    QueueFull,
    RedisError,
    ReplyError,
    TenureError,
    Unreachable,
    WrongState,
)
from tenure.core.hints import in_a_test
from tenure.redis.credentials import NoCredentials
from tenure.redis.failures import ErrorReply

Trouble = TypeVar("Trouble", bound=RedisError)


class Reaction(Enum):
    """What a driver does after a failed attempt. It never repeats a command that blocks: see `WaitLost`."""

    RESEND = "resend"
    """Wait, then repeat the call."""
    RECONNECT = "reconnect"
    """Drop the connection, wait, then repeat the call on a new one."""
    FULL = "full"
    DENIED = "denied"
    WRONG_TYPE = "wrong type"
    NOSCRIPT = "noscript"
    """Send the script's text."""
    CLUSTER = "cluster"
    """The key belongs to another node of a cluster. Only a driver of a cluster can follow."""
    RAISE = "raise"
    """Raise an error. Also for prefixes that are not in the table."""


class Redirected(ReplyError):
    """A node of a cluster has refused a call about keys that are not its own: MOVED, ASK or CROSSSLOT.

    `address`: the node that the reply names; None for CROSSSLOT. Its host is empty if it is the refusing node.
    """

    def __init__(self, prefix: str, message: str, where: str) -> None:
        remedy = "Use the URL of the cluster: redis+cluster://host:port,host:port/."
        super().__init__(prefix, f"Redis at {where} is part of a cluster: {message.rstrip('.')}. {remedy}")
        host, _, port = message.rpartition(" ")[2].rpartition(":")
        self.address = (host, int(port)) if port.isdigit() else None


ACTIONS: Final = {
    "LOADING": Reaction.RESEND,
    "BUSY": Reaction.RESEND,
    "TRYAGAIN": Reaction.RESEND,
    "CLUSTERDOWN": Reaction.RESEND,
    # A replica, or a master without its replicas. With sentinels, the next search may find another master.
    "MASTERDOWN": Reaction.RECONNECT,
    "NOREPLICAS": Reaction.RECONNECT,
    "READONLY": Reaction.RECONNECT,
    "UNBLOCKED": Reaction.RECONNECT,
    "OOM": Reaction.FULL,
    "MISCONF": Reaction.FULL,
    "NOAUTH": Reaction.DENIED,
    "WRONGPASS": Reaction.DENIED,
    "NOPERM": Reaction.DENIED,
    "WRONGTYPE": Reaction.WRONG_TYPE,
    "NOSCRIPT": Reaction.NOSCRIPT,
    "MOVED": Reaction.CLUSTER,
    "ASK": Reaction.CLUSTER,
    "CROSSSLOT": Reaction.CLUSTER,
    # Tenure sends no MULTI: a proxy does, or something is badly wrong.
    "EXECABORT": Reaction.RAISE,
}

# A client of the user (see tenure.compat) removes the prefix of these errors. They are found by name, so that programs
# without such a client do not import its package. Subclasses come first.
_CLASSES: Final = {
    "BusyLoadingError": "LOADING",
    "NoScriptError": "NOSCRIPT",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "NoPermissionError": "NOPERM",
    "ExecAbortError": "EXECABORT",
    "AuthenticationWrongNumberOfArgsError": "ERR",
    "AuthenticationError": "WRONGPASS",
    "MasterDownError": "MASTERDOWN",
    "ClusterDownError": "CLUSTERDOWN",
    "TryAgainError": "TRYAGAIN",
    "ClusterCrossSlotError": "CROSSSLOT",
    "MovedError": "MOVED",
    "AskError": "ASK",
    "ModuleError": "ERR",
}
_REFUSALS: Final = frozenset({"ResponseError", "BusyLoadingError", "AuthenticationError"})
"""Errors of a client after an error reply."""
_LOSSES: Final = frozenset({"ConnectionError", "TimeoutError", "InvalidResponse"})
"""Errors of a client after a lost connection, or after something that was no reply."""

# These occur before the first byte of a call is sent.
_NO_CONNECTION: Final = (ConnectionRefusedError, socket.gaierror, FileNotFoundError)
_MAX_LINKS: Final = 5
_WRONG_TYPE: Final = "WRONGTYPE Operation against a key holding the wrong kind of value."
_OTHER_PROGRAM: Final = "Another program may use the same names: choose another namespace or database."
_FOR_REPLICAS: Final = "It is a replica: use the URL of the master, or of the sentinels (redis+sentinel://...)."

_PREFIX: Final = re.compile(r"-?([A-Z][A-Z0-9_]*)(?: |$)")
# An error inside a script. Redis 6.2: "Error running script (call to f_<sha>): @user_script:12: ...". Redis 7, for an
# error that Lua itself raised: "user_script:12: ...".
_WRAPPED: Final = re.compile(
    r"(?:Error running script \(call to f_[0-9a-f]+\): )?(?:@?user_script: ?\d+: )+(.*)", re.DOTALL
)
# Redis 7 appends the place in the script; Valkey 9.1 leaves out the SHA-1. Without the look behind, a reply of many
# spaces would take quadratic time.
_ORIGIN: Final = re.compile(r"(?<!\s)\s*script: (?:[0-9a-f]+, )?on @?\w+:\d+\.?$")
# Redis quotes the start of an unknown command. It may be a payload, so it is removed.
_SHOWN_ARGS: Final = re.compile(r",? with args beginning with:.*", re.DOTALL)
# The URL has a password, and the server has none.
_NO_DATABASE: Final = "DB index is out of range"
_NEEDLESS: Final = "AUTH <password> called without any password"
# The server closes the connection after this reply. A later attempt may find room.
_TOO_MANY: Final = "max number of clients reached"
_ENDING: Final = frozenset({"LOADING", "NOAUTH", "WRONGPASS"})
"""After these error replies a new connection is made."""


def read(text: str) -> tuple[str, str]:
    """Return the prefix and the text of an error reply, unwrapped. If a script stopped at an error of a command, the
    prefix is the command's.

        read("-OOM command not allowed")  # ("OOM", "OOM command not allowed")
    """
    text = _ORIGIN.sub("", _SHOWN_ARGS.sub("", text))
    prefix, rest = _split(text)
    if _NEEDLESS in text:
        return "NOAUTH", "this Redis has no password, but the URL has one: remove it from the URL."
    wrapped = _WRAPPED.match(rest)
    if wrapped is not None:
        inner, _ = _split(wrapped[1])
        return (inner, wrapped[1].removeprefix("-")) if inner else ("ERR", text)
    return (prefix or "ERR"), text.removeprefix("-")


def _split(text: str) -> tuple[str, str]:
    found = _PREFIX.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def _of_client(error: BaseException) -> list[str]:
    """Return the names of the classes of an error that a client of the redis package raised; none for other errors."""
    return [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "redis.exceptions"]


def text_of(error: BaseException) -> str:
    """Return the error reply as Redis sent it, even if a client of the user has removed its prefix."""
    prefix = next((f"{_CLASSES[name]} " for name in _of_client(error) if name in _CLASSES), "")
    return f"{prefix}{error}"


def is_passing(error: Exception) -> bool:
    """Return whether another attempt may succeed."""
    return action_of(error) in (Reaction.RESEND, Reaction.RECONNECT)


def is_reply(error: BaseException) -> bool:
    """Return whether Redis replied. If not, the connection failed, and the outcome of the call is unknown."""
    return (isinstance(error, ErrorReply) or not _REFUSALS.isdisjoint(_of_client(error))) and not has_no_room(error)


def is_loading(error: BaseException) -> bool:
    """Return whether Redis has been restarted and still reads its data."""
    return is_reply(error) and read(text_of(error))[0] == "LOADING"


def keeps_connection(error: BaseException) -> bool:
    """Return whether the connection is still usable: a complete error reply was read from it, not about the login."""
    return isinstance(error, ErrorReply) and not has_no_room(error) and read(str(error))[0] not in _ENDING


@contextmanager
def ignoring_refusal() -> Iterator[None]:
    """Continue after an error reply: the connection is in order, and the reply to the next command follows."""
    try:
        yield
    except ErrorReply as error:
        if not keeps_connection(error):
            raise


def has_no_room(error: BaseException) -> bool:
    """Return whether the server refuses a connection because it has too many."""
    return _TOO_MANY in str(error)


def action_for(prefix: str) -> Reaction:
    return ACTIONS.get(prefix, Reaction.RAISE)


def action_of(error: Exception) -> Reaction:
    """Return what to do about an exception of a connection; `RAISE` for any other."""
    if is_reply(error):
        return action_for(read(text_of(error))[0])
    return Reaction.RECONNECT if _is_loss(error) or has_no_room(error) else Reaction.RAISE


def _is_loss(error: Exception) -> bool:
    return isinstance(error, OSError | EOFError) or not _LOSSES.isdisjoint(_of_client(error))


def was_closed(error: Exception) -> bool:
    """Return whether the other end closed the connection."""
    return _is_loss(error) and not is_reply(error) and not timed_out(error)


def timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or "TimeoutError" in _of_client(error)


def cause_of(error: Exception) -> str:
    """Return why an attempt failed, in a few words, without any of the data that was sent."""
    if is_reply(error):
        return read(text_of(error))[1].rstrip(".")
    return "no reply in time" if timed_out(error) else str(error).rstrip(".") or type(error).__name__


def says_why(error: Exception) -> bool:
    """Return whether the error has a reason besides a timeout or a missing connection."""
    return not timed_out(error) and not never_connected(error)


def nothing_there(where: str, hint: str) -> Unreachable:
    """Return the error to raise when no server has ever listened there."""
    return make_error(Unreachable, f"No Redis listens at {where}.", hint, "Nothing was done.")


def unreachable(where: str, patience_s: float, last: Exception) -> Unreachable:
    """Return the error to raise when the time for retries is over. `last`: the last failure."""
    why = cause_of(last)
    if is_reply(last):
        return make_error(
            Unreachable,
            f"Redis at {where} did not respond successfully for {patience_s:g} s ({why}).",
            _FOR_REPLICAS if read(text_of(last))[0] == "READONLY" else "Try again later.",
            "It refused the call, so nothing was done, unless an earlier attempt got through.",
        )
    if never_connected(last):
        return make_error(
            Unreachable,
            f"Redis at {where} did not respond for {patience_s:g} s: there was no connection ({why}).",
            f"Check the URL, and that Redis runs and is reachable from this machine, then try again.{in_a_test()}",
            "Nothing was done, unless an earlier attempt got through.",
        )
    nothing_sent = "Nothing was done, unless an earlier attempt got through."
    if isinstance(last, NoCredentials):
        return make_error(
            Unreachable,
            f"There was no password for Redis at {where} for {patience_s:g} s ({why}).",
            "Check the function that is given as `credentials`.",
            nothing_sent,
        )
    if has_no_room(last):
        return make_error(
            Unreachable,
            f"Redis at {where} had no room for another connection for {patience_s:g} s ({why}).",
            "Close connections of other clients, raise `maxclients` of Redis, or set TENURE_MAX_CONNECTIONS.",
            nothing_sent,
        )
    return make_error(
        Unreachable,
        f"Redis at {where} did not respond for {patience_s:g} s ({why}).",
        f"Check that Redis runs and is reachable from this machine, then try again.{_about_tls(where, last)}",
        nothing_sent if getattr(last, "is_unsent", False) else "The call may or may not have been executed.",
    )


def all_in_use(where: str, most: int | None) -> Unreachable:
    """Return the error to raise when a call has waited in vain for one of the connections that may be open."""
    return make_error(
        Unreachable,
        f"All {most} connections to Redis at {where} were in use.",
        "Raise TENURE_MAX_CONNECTIONS, or `max_connections` in the URL.",
        "Nothing was done, unless an earlier attempt got through.",
    )


def _about_tls(where: str, error: Exception) -> str:
    """Advise about TLS: a client with TLS on a port without it, or the reverse, gets silence or a closed connection."""
    if where.startswith("rediss://"):
        return " If this port has no TLS, write redis:// in the URL."
    if where.startswith("redis://") and was_closed(error):
        return " If this port has TLS, write rediss:// in the URL."
    return ""


def make_error(kind: type[Trouble], found: str, remedy: str, meaning: str = "") -> Trouble:
    """Return an error with the problem, its effect on the call, and the fix."""
    error = kind(" ".join(part for part in (found, meaning, remedy) if part))
    error.found, error.remedy = found, remedy
    return error


def never_connected(error: BaseException) -> bool:
    """Return whether there was no connection (refused, or no such host or socket), so that nothing was sent."""
    return any(isinstance(link, _NO_CONNECTION) for link in chain(error))


def refused(error: BaseException) -> bool:
    """Return whether the connection was refused: no server listens there."""
    return any(isinstance(link, ConnectionRefusedError) for link in chain(error))


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and up to four of its causes."""
    link: BaseException | None = error
    for _ in range(_MAX_LINKS):
        if link is not None:
            yield link
            link = link.__cause__ or link.__context__


def error_of(error: Exception, where: str, key: str = "") -> TenureError:
    """Return the error to raise for an error reply. `where`: the server, without its password.

    `key`: the first key of the call, if it has one. In a script it is the prefix of all its keys: the queue's.
    """
    prefix, message = read(text_of(error))
    sentence = f"{message.rstrip('.')}."
    match action_for(prefix):
        case Reaction.FULL:
            disk = "Check the log of Redis, its disk, and the rights of its directory."
            memory = "Free memory, or raise its limit (`maxmemory`)."
            found, remedy = f"Redis at {where} refused to write: {sentence}", disk if prefix == "MISCONF" else memory
            return make_error(QueueFull, found, remedy, "Nothing changed.")
        case Reaction.DENIED:
            denied = make_error(
                AccessDenied,
                f"Redis at {where} refused access: {sentence}",
                "Check the user name and the password in the URL, and the user's rights (`ACL`).",
            )
            denied.prefix = prefix
            return denied
        case Reaction.WRONG_TYPE:
            which = f" that begins with {key!r}" if key else ""
            look = f" To find the key, run {_listing(key)} and ask for the TYPE of each key." if key else ""
            return WrongState(
                f"A key{which} at {where} holds data of the wrong type: {sentence} {_OTHER_PROGRAM}{look}"
            )
        case Reaction.CLUSTER:
            return Redirected(prefix, message, where)
        case _ if message.endswith(_NO_DATABASE):
            found, remedy = (
                f"Redis at {where} has no such database.",
                "Use another database in the URL; 0 always exists.",
            )
            refusal = ReplyError(prefix, f"{found} {remedy}")
            refusal.found, refusal.remedy = found, remedy
            return refusal
        case _:
            return ReplyError(prefix, message)


def wrong_type(where: str, key: str) -> WrongState:
    """Return the error for a key of the wrong type that is known."""
    return WrongState(f"The key {key!r} at {where} holds data of the wrong type: {_WRONG_TYPE} {_OTHER_PROGRAM}")


def _listing(prefix: str) -> str:
    """Return a command that lists the keys with this prefix. Redis does not name the key."""
    pattern = "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix)
    return "redis-cli --scan --pattern " + shlex.quote(f"{pattern}*")
