"""The settings `TENURE`, and the `OPTIONS` of a backend: the same names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenure.app.app import Tenure
from tenure.app.policy import OF_RUN, TaskDefaults
from tenure.client.options import check_names
from tenure.core.errors import InvalidArgument, invalid

_NOT_SET: Final = frozenset({"self", "runner", "defaults", "lifespan"})
"""Parameters of `Tenure` that no setting gives."""
OF_APP: Final = frozenset(inspect.signature(Tenure.__init__).parameters) - _NOT_SET
OPTIONS: Final = OF_APP | OF_RUN - {"on_failure", "on_success"}
"""What `OPTIONS` may have: the arguments of `Tenure`, and the defaults of tasks."""
DASHBOARD: Final = "dashboard"
OF_DASHBOARD: Final = frozenset({"title", "redact"})


@dataclass(frozen=True, slots=True)
class Configuration:
    """The checked names of one app: the arguments of `Tenure`, and the defaults of its tasks."""

    arguments: Mapping[str, Any]
    defaults: TaskDefaults
    dashboard: Mapping[str, Any]

    @classmethod
    def of(cls, setting: str, given: object, *, of_project: bool = False) -> Configuration:
        """Check a dictionary of the settings. Raises `InvalidArgument`, which names the setting."""
        if not isinstance(given, Mapping):
            raise invalid(setting, "a dict", type(given).__name__)
        pages = given.get(DASHBOARD, {}) if of_project else {}
        if not isinstance(pages, Mapping):
            raise invalid(f"{setting}: {DASHBOARD}", "a dict", type(pages).__name__)
        known = OPTIONS | {DASHBOARD} if of_project else OPTIONS
        try:
            check_names(given, known)
            check_names(pages, OF_DASHBOARD)
            defaults = TaskDefaults(**{name: value for name, value in given.items() if name in OF_RUN})
        except InvalidArgument as error:
            raise InvalidArgument(f"{setting}: {error}") from None
        return cls({name: value for name, value in given.items() if name in OF_APP}, defaults, pages)
