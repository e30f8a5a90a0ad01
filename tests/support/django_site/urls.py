"""The URLs of the project."""

from django.urls import include, path

urlpatterns = [path("ops/", include("tenure.integrations.django.urls"))]
