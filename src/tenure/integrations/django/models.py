"""The permissions of the dashboard. They need a model, which has no table."""

from __future__ import annotations

from django.db import models


class Dashboard(models.Model):
    """`tenure.view`: see queues and jobs. `tenure.operate`: see payloads, and change jobs."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = (
            ("view", "Can see the jobs of Tenure"),
            ("operate", "Can see and change the jobs of Tenure"),
        )
