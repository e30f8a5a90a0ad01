"""The user and the password of a new connection: those of the URL, or those that a function of the user returns.

The function is called for each new connection, so that passwords may change: tokens of a cloud, secrets of a vault.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

import redis.exceptions as client

Login: TypeAlias = tuple[str, ...]
"""The arguments of AUTH: a password, or a user and a password; empty: none."""


class NoCredentials(client.ConnectionError):
    """The function has returned none. The call is repeated, as after any other failure to connect."""


_EXPECTED: Final = "a user and a password, or (password,)"


def login(username: str | None, password: str | None) -> Login:
    """Return the arguments of AUTH for a user and a password."""
    if not username and not password:
        return ()
    return (username, password or "") if username else (password or "",)


def blocking_login(source: object) -> Login:
    """Call a function for credentials, or a `CredentialProvider` of the redis package. Raises `NoCredentials`."""
    return _checked(lambda: _awaited(_function(source)()))


async def asyncio_login(source: object) -> Login:
    """Call it on an event loop: what is not a coroutine function may block, so a thread calls it."""
    function = _function(source)
    try:
        found = function() if inspect.iscoroutinefunction(function) else await asyncio.to_thread(function)
        answer = await found if inspect.isawaitable(found) else found
    except Exception as error:
        raise _failed(error) from error
    return _checked(lambda: answer)


def is_source(value: object) -> bool:
    """Return whether this may give credentials."""
    return callable(_function(value))


def _function(source: Any) -> Callable[[], Any]:
    """The function to call. A provider of the redis package has a method, and its async twin may block the loop."""
    function: Callable[[], Any] = getattr(source, "get_credentials", source)
    return function


def _awaited(found: Any) -> Any:
    if not inspect.isawaitable(found):
        return found

    async def result(awaitable: Awaitable[Any]) -> Any:
        return await awaitable

    # In a thread of its own: in this one, an event loop may be running.
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, result(found)).result()


def _checked(answer: Callable[[], Any]) -> Login:
    try:
        found = answer()
    except Exception as error:
        raise _failed(error) from error
    if not isinstance(found, (tuple, list)) or not 1 <= len(found) <= 2 or not isinstance(found[-1], str):
        raise NoCredentials(f"credentials must return {_EXPECTED}, got {type(found).__name__}")
    user = found[0] if len(found) == 2 else None
    if user is not None and not isinstance(user, str):
        raise NoCredentials(f"credentials must return {_EXPECTED}, got a user of type {type(user).__name__}")
    return login(user, found[-1])


def _failed(error: Exception) -> NoCredentials:
    """The error to raise; its text is not the function's, which may have a secret."""
    return NoCredentials(f"the function for credentials failed ({type(error).__name__})")
