"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order. `packed`: how many of its items are in the parcel. `job`: the id of the job that packs it."""

    address = models.EmailField()
    items = models.PositiveSmallIntegerField(default=3)
    packed = models.PositiveSmallIntegerField(default=0, editable=False)
    job = models.CharField(max_length=64, default="", editable=False)
