"""The tables of the SQL outbox and of effects once."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes the tables that `Outbox.create` makes elsewhere."""

    dependencies = (("tenure", "0001_permissions"),)
    operations = (
        migrations.CreateModel(
            name="Done",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "queue", "job_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("queue", models.CharField(max_length=255)),
                ("job_id", models.CharField(db_column="id", max_length=255)),
                ("done_ms", models.BigIntegerField(db_index=True)),
                ("result", models.BinaryField(null=True)),
            ],
            options={"db_table": "tenure_done", "default_permissions": ()},
        ),
        migrations.CreateModel(
            name="OutboxRow",
            fields=[
                ("row", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.CharField(db_column="id", max_length=255)),
                ("namespace", models.CharField(max_length=255)),
                ("queue", models.CharField(max_length=255)),
                ("task", models.CharField(max_length=255, null=True)),
                ("job", models.BinaryField()),
                ("made_ms", models.BigIntegerField()),
                ("slot", models.IntegerField(db_index=True, null=True)),
                ("number", models.BigIntegerField(null=True)),
                ("error", models.TextField(null=True)),
            ],
            options={"db_table": "tenure_outbox", "default_permissions": ()},
        ),
        migrations.CreateModel(
            name="OutboxSource",
            fields=[
                ("slot", models.IntegerField(primary_key=True, serialize=False)),
                ("source", models.CharField(max_length=64)),
                ("number", models.BigIntegerField()),
                ("busy_ms", models.BigIntegerField()),
            ],
            options={"db_table": "tenure_outbox_source", "default_permissions": ()},
        ),
    )
