"""Tasks of the project."""

from __future__ import annotations

import django
from django.contrib.auth.models import User
from django.db import connection

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task

seen: list[object] = []
"""What tasks have noted in this process."""


@task
def add(first: int, second: int = 1) -> int:
    return first + second


@task
async def add_async(first: int, second: int = 1) -> int:
    return first + second


@task(takes_context=True)
def attempt_of(context, fails: int) -> int:
    seen.append(context.task_result)
    if context.attempt <= fails:
        raise ConnectionError("not yet")
    return context.attempt


@task(retries=0)
def fails(text: str) -> None:
    raise ValueError(text)


@task(retries=0, timeout=5)
def returns_a_set() -> object:
    seen.append("ran")
    return {1}


@task(queue_name="mails", lane="outgoing", unique=True)
def mail(address: str) -> str:
    return address


@task
def echo(*args: object, **kwargs: object) -> list[object]:
    return [args, kwargs]


@task
def count_users() -> int:
    return User.objects.count()


@task
async def count_users_async() -> int:
    return await User.objects.acount()


@task
def connections() -> list[bool]:
    """Return whether the thread had a connection before the first query, and after it."""
    before = connection.connection is not None
    User.objects.count()
    return [before, connection.connection is not None]
