"""What workers do. `manage.py tenure worker` finds this module."""

import time

from orders.models import Order
from tenure import progress
from tenure.integrations.django import task


@task(queue_name="orders", timeout=60, retries=5)
def pack(key: int) -> str:
    """Pack an order. It continues where an earlier attempt has stopped."""
    order = Order.objects.get(pk=key)
    while order.packed < order.items:
        take(order)
        order.packed += 1
        order.save(update_fields=["packed"])
        progress(order.packed, order.items, f"item {order.packed} is packed")
    return f"parcel for {order.address}"


def take(order: Order) -> None:
    """Take an item from its shelf."""
    time.sleep(1)
