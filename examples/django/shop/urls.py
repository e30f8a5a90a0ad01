"""The URLs of the project."""

from django.contrib import admin
from django.urls import include, path
from orders import views

urlpatterns = [
    path("", views.order, name="order"),
    path("orders/<int:key>/", views.progress, name="progress"),
    path("ops/", include("tenure.integrations.django.urls")),
    path("admin/", admin.site.urls),
]
