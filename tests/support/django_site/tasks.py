"""Tasks of the project."""

from __future__ import annotations

import django
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection

from tenure.integrations.django import task

if django.VERSION >= (6, 0):
    from django.tasks import task as django_task
else:
    from django_tasks import task as django_task

seen: list[object] = []
"""What tasks have noted in this process."""


@django_task
def add(first: int, second: int = 1) -> int:
    return first + second


@task
async def add_async(first: int, second: int = 1) -> int:
    return first + second


@django_task(takes_context=True)
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
def echo(*texts: str) -> list[str]:
    return list(texts)


@task
def count_users() -> int:
    return User.objects.count()


@task
def connections() -> list[bool]:
    """Return whether the thread had a connection before the first query, and after it."""
    before = connection.connection is not None
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return [before, connection.connection is not None]


@task
async def connections_async() -> list[bool]:
    return await sync_to_async(connections.func)()
