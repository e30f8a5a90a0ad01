"""The user and the password of a new connection, from the URL or from a function of the user.

The function is called for each new connection, so that passwords may change: tokens of a cloud, secrets of a vault.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

from tenure.redis.failures import ConnectionLost

# Blocking programs load asyncio only for such a function.

Login: TypeAlias = tuple[str, ...]
"""The arguments of AUTH: a password, or a user and a password; empty: none."""


class NoCredentials(ConnectionLost):
    """The function has returned none. The call is repeated, as after any other failure to connect."""


CALLS_MOST: Final = 64
"""Calls of such functions that run in threads of this process at once: one that hangs keeps its thread."""

_EXPECTED: Final = "a user and a password, or (password,)"
_THREAD: Final = "tenure credentials"


def login(username: str | None, password: str | None) -> Login:
    """Return the arguments of AUTH for a user and a password."""
    if not username and not password:
        return ()
    return (username, password or "") if username else (password or "",)


def blocking_login(source: object, timeout_s: float) -> Login:
    """Call a function for credentials, or a `CredentialProvider` of the redis package. Raises `NoCredentials`."""
    import asyncio

    function = _function(source)

    def call() -> Any:
        found = function()
        return asyncio.run(_within(found, timeout_s)) if inspect.isawaitable(found) else found

    answer, why = None, ""
    running: Future[Any] | None = None
    try:
        running = _in_thread(call)
        answer = running.result(timeout_s)
    except Exception as error:
        why = _reason(error, None if running is None or running.done() else timeout_s)
    return _checked(answer, why)


async def asyncio_login(source: object, timeout_s: float) -> Login:
    """Call it on an event loop: what is not a coroutine function may block, so a thread calls it."""
    import asyncio

    function = _function(source)
    answer, why, limit = None, "", asyncio.timeout(timeout_s)
    try:
        async with limit:
            is_async = inspect.iscoroutinefunction(function)
            answer = function() if is_async else await asyncio.wrap_future(_in_thread(function))
            if inspect.isawaitable(answer):
                answer = await answer
    except Exception as error:
        why = _reason(error, timeout_s if limit.expired() else None)
    return _checked(answer, why)


async def _within(found: Awaitable[Any], timeout_s: float) -> Any:
    """Await what a function returned, in a thread. The caller gives up before this limit, which ends the thread; on a
    busy machine the caller may see the limit first."""
    import asyncio

    limit = asyncio.timeout(2 * timeout_s)
    try:
        async with limit:
            return await found
    except TimeoutError:
        if limit.expired():
            raise NoCredentials(_late(timeout_s)) from None
        raise


def is_source(value: object) -> bool:
    """Return whether this may give credentials."""
    return callable(_function(value))


def _function(source: Any) -> Callable[[], Any]:
    """The function to call. A provider of the redis package has a method, and its async twin may block the loop."""
    function: Callable[[], Any] = getattr(source, "get_credentials", source)
    return function


def _in_thread(function: Callable[[], Any]) -> Future[Any]:
    """Call it in a thread of its own, so that the caller can give up. A program that ends does not wait for it."""
    if sum(thread.name == _THREAD for thread in threading.enumerate()) >= CALLS_MOST:
        raise NoCredentials(f"{CALLS_MOST} calls of the function for credentials have not returned")
    running: Future[Any] = Future()
    running.set_running_or_notify_cancel()  # so that it takes the outcome also if its caller was cancelled

    def call() -> None:
        try:
            running.set_result(function())
        except BaseException as error:
            running.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=[call], name=_THREAD, daemon=True).start()
    return running


def _checked(answer: Any, why: str) -> Login:
    """Return the user and the password. Raises `NoCredentials`. `why`: the call failed for this reason.

    Call it outside of `except`: the error would have the function's as its context, and tracebacks would show a secret
    in the text.
    """
    if why:
        raise NoCredentials(why)
    if not isinstance(answer, (tuple, list)) or not 1 <= len(answer) <= 2 or not isinstance(answer[-1], str):
        raise NoCredentials(f"credentials must return {_EXPECTED}, got {type(answer).__name__}")
    user = answer[0] if len(answer) == 2 else None
    if user is not None and not isinstance(user, str):
        raise NoCredentials(f"credentials must return {_EXPECTED}, got a user of type {type(user).__name__}")
    return login(user, answer[-1])


def _reason(error: Exception, late_s: float | None) -> str:
    """Why a call failed, or has not returned after `late_s`. The function's error is named without its text."""
    if isinstance(error, NoCredentials):
        return str(error)
    if late_s is not None:
        return _late(late_s)
    return f"the function for credentials failed ({type(error).__name__})"


def _late(seconds: float) -> str:
    return f"the function for credentials did not return within {round(seconds, 1):g} s"
