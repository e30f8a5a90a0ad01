"""The dashboard: pages for people and JSON for programs, as an ASGI app. Needs `pip install 'tenure[web]'`."""

from __future__ import annotations

from importlib.util import find_spec

from tenure.core.errors import NotConfigured

for _package in ("starlette", "jinja2"):
    if find_spec(_package) is None:
        raise NotConfigured(
            f"The dashboard needs the package {_package}, which is not installed. Install it with "
            "`pip install 'tenure[web]'`."
        )

from tenure.web.site import dashboard as dashboard  # noqa: E402

__all__ = ["dashboard"]
