"""All checks of one server as one operation, as a worker and `tenure check` run them."""

from __future__ import annotations

from typing import Any

from tenure.core.steps import Steps
from tenure.manage.preflight import Inspection, inspect_server, inspect_use
from tenure.protocols.spec import Rights


def inspection(rights: Rights, **clocks: Any) -> Steps[Inspection]:
    found = yield from inspect_server(clustered=False)
    more = (yield from inspect_use(rights, **clocks)) if found.is_usable else ()
    return Inspection((*found.findings, *more))
