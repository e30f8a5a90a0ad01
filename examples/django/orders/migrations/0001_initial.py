"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes the table."""

    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("address", models.EmailField(max_length=254)),
                ("items", models.PositiveSmallIntegerField(default=3)),
                ("packed", models.PositiveSmallIntegerField(default=0, editable=False)),
                ("job", models.CharField(default="", editable=False, max_length=64)),
            ],
        ),
    ]
