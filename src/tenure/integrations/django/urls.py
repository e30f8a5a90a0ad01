"""The dashboard: `path("ops/", include("tenure.integrations.django.urls"))`."""

from __future__ import annotations

from django.urls import re_path

from tenure.integrations.django.dashboard import show

app_name = "tenure"
urlpatterns = [re_path(r"^(?P<page>.*)\Z", show, name="dashboard")]
