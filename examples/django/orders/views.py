"""A form, and the page of an order."""

from django.db import transaction
from django.forms import modelform_factory
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from orders.models import Order
from orders.tasks import pack
from tenure.integrations.django import app, enqueue_on_commit

OrderForm = modelform_factory(Order, fields=["address", "items"])


def order(request: HttpRequest) -> HttpResponse:
    """Store an order, and let a worker pack it once the order is committed."""
    form = OrderForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return render(request, "orders/form.html", {"form": form})
    with transaction.atomic():
        new = form.save()
        enqueue_on_commit(pack.using(id=new.job), new.pk)
    return redirect("progress", new.pk)


def progress(request: HttpRequest, key: int) -> HttpResponse:
    """Show how far the job of an order is."""
    order = get_object_or_404(Order, pk=key)
    return render(request, "orders/progress.html", {"order": order, "job": app.inspect.job("orders", order.job)})
