"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order. `packed`: how many of its items are in the parcel."""

    address = models.EmailField()
    items = models.PositiveSmallIntegerField(default=3)
    packed = models.PositiveSmallIntegerField(default=0, editable=False)

    @property
    def job(self) -> str:
        """The id of the job that packs it: known before the job exists, and one job for each order."""
        return f"order-{self.pk}"
