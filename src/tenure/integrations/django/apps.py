"""The entry in INSTALLED_APPS: system checks, permissions of the dashboard, and `manage.py tenure`."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class TenureConfig(AppConfig):
    """`tenure.integrations.django`, with the label of the permissions `tenure.view` and `tenure.operate`."""

    name = "tenure.integrations.django"
    label = "tenure"
    verbose_name = "Tenure"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenure.integrations.django.checks import check_tenure

        checks.register(check_tenure)
