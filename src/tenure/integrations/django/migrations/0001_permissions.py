"""The permissions of the dashboard."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes no table."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Dashboard",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "managed": False,
                "default_permissions": (),
                "permissions": (
                    ("view", "Can see the jobs of Tenure"),
                    ("operate", "Can see and change the jobs of Tenure"),
                ),
            },
        ),
    )
