"""Django: a backend for its tasks, `manage.py tenure`, an app from the settings, and the dashboard.

    INSTALLED_APPS = [..., "tenure.integrations.django"]
    TENURE = {"url": "redis://redis.example.org/0"}
    TASKS = {"default": {"BACKEND": "tenure.integrations.django.TenureBackend"}}

For Django 5.2 with the package django-tasks, and for Django 6 with `django.tasks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.integrations.django.backend import TenureBackend as TenureBackend
    from tenure.integrations.django.commit import enqueue_on_commit as enqueue_on_commit
    from tenure.integrations.django.options import task as task
    from tenure.integrations.django.outbox import enqueue_in_transaction as enqueue_in_transaction
    from tenure.integrations.django.project import DjangoApp

    app: DjangoApp

__all__ = ["TenureBackend", "app", "enqueue_in_transaction", "enqueue_on_commit", "task"]


def __getattr__(name: str) -> Any:
    # Each at its first use: the settings are not read before, and a backend needs the task framework.
    match name:
        case "app":
            from tenure.integrations.django.registry import project_app

            return project_app()
        case "TenureBackend":
            from tenure.integrations.django.backend import TenureBackend

            return TenureBackend
        case "enqueue_on_commit":
            from tenure.integrations.django.commit import enqueue_on_commit

            return enqueue_on_commit
        case "enqueue_in_transaction":
            from tenure.integrations.django.outbox import enqueue_in_transaction

            return enqueue_in_transaction
        case "task":
            from tenure.integrations.django.options import task

            return task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
