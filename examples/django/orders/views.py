"""A form, and the page of an order."""

from django.db import transaction
from django.forms import modelform_factory
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from orders.models import Order
from orders.tasks import pack
from tenure.integrations.django import app, enqueue_in_transaction

OrderForm = modelform_factory(Order, fields=["address", "items"])


def order(request: HttpRequest) -> HttpResponse:
    """Store an order, and in the same transaction the call that packs it: both are there, or neither."""
    form = OrderForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return render(request, "orders/form.html", {"form": form})
    with transaction.atomic():
        new = form.save()
        new.job = enqueue_in_transaction(pack, new.pk).id
        new.save(update_fields=["job"])
    return redirect("progress", new.pk)


def progress(request: HttpRequest, key: int) -> HttpResponse:
    """Show how far the job of an order is. Until a relay has enqueued it, Redis does not know it."""
    order = get_object_or_404(Order, pk=key)
    return render(request, "orders/progress.html", {"order": order, "job": app.inspect.job("orders", order.job)})
