"""What `tenure worker tenure.integrations.django.worker:app` loads: Django is set up, and every task is known.

`app` is the app of the setting `TENURE`, `of.ALIAS` the app of a backend with `OPTIONS`.
"""

from __future__ import annotations

import django
from django.apps import apps

from tenure.integrations.django import registry
from tenure.integrations.django.project import DjangoApp

if not apps.ready:
    django.setup()
registry.discover()


def app() -> DjangoApp:
    """Return the app of the project."""
    return registry.project_app()


class _Of:
    def __getattr__(self, alias: str) -> DjangoApp:
        from tenure.integrations.django.framework import task_backends

        found: DjangoApp = task_backends[alias].app
        return found


of = _Of()
