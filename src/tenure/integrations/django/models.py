"""The tables of the SQL outbox, and the permissions of the dashboard.

The tables are managed: migrations make them. Their columns are declared in `tenure.outbox.tables`, which Django can do
without; a test compares the tables that both make.
"""

from __future__ import annotations

from typing import Final

from django.db import models

from tenure.core.limits import MAX_ID

_NAME: Final = 255


class Dashboard(models.Model):
    """`tenure.view`: see queues and jobs. `tenure.operate`: see payloads, and change jobs. It has no table."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = (
            ("view", "Can see the jobs of Tenure"),
            ("operate", "Can see and change the jobs of Tenure"),
        )


class OutboxRow(models.Model):
    """A job that is not in Redis yet: a row of `Outbox(app)`. `error`: why it cannot be enqueued."""

    row = models.BigAutoField(primary_key=True)
    job_id = models.CharField(max_length=MAX_ID, db_column="id")
    namespace = models.CharField(max_length=_NAME)
    queue = models.CharField(max_length=_NAME)
    task = models.CharField(max_length=_NAME, null=True)
    job = models.BinaryField()
    made_ms = models.BigIntegerField()
    slot = models.IntegerField(null=True, db_index=True)
    number = models.BigIntegerField(null=True)
    error = models.TextField(null=True)

    class Meta:
        db_table = "tenure_outbox"
        default_permissions = ()


class OutboxSource(models.Model):
    """A source under which relays number the rows of a batch."""

    slot = models.IntegerField(primary_key=True)
    source = models.CharField(max_length=64)
    number = models.BigIntegerField()
    busy_ms = models.BigIntegerField()

    class Meta:
        db_table = "tenure_outbox_source"
        default_permissions = ()


class Done(models.Model):
    """A job with a committed effect: see `once`. `result`: JSON, see `First.save`."""

    pk = models.CompositePrimaryKey("queue", "job_id")
    queue = models.CharField(max_length=_NAME)
    job_id = models.CharField(max_length=MAX_ID, db_column="id")
    done_ms = models.BigIntegerField(db_index=True)
    result = models.BinaryField(null=True)

    class Meta:
        db_table = "tenure_done"
        default_permissions = ()
