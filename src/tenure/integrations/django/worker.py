"""What `tenure worker tenure.integrations.django.worker:app` loads: Django is set up, and every task is known.

`app` is the app of the setting `TENURE`, `of.ALIAS` the app of a backend with `OPTIONS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import django
from django.apps import apps

from tenure.integrations.django import registry
from tenure.integrations.django.project import DjangoApp

if TYPE_CHECKING:
    from tenure.outbox import Outbox

if not apps.ready:
    django.setup()
registry.discover()


def app() -> DjangoApp:
    """Return the app of the project."""
    return registry.project_app()


def outbox() -> Outbox:
    """Return the outbox of the project, for `manage.py tenure relay`."""
    from tenure.integrations.django.outbox import relayed_outbox

    return relayed_outbox()


class _Of:
    def __getattr__(self, alias: str) -> DjangoApp:
        from tenure.integrations.django.framework import task_backends

        found: DjangoApp = task_backends[alias].app
        return found


of = _Of()
