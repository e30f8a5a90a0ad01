"""For the tests of users: what `app.testing()` returns, a pytest plugin, and real Redis servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.app.drain import Drained
    from tenure.app.testing import Testing

__all__ = ["Drained", "Testing"]


def __getattr__(name: str) -> Any:
    # On first use: pytest imports this package wherever the plugin is installed.
    if name == "Drained":
        from tenure.app.drain import Drained

        return Drained
    if name == "Testing":
        from tenure.app.testing import Testing

        return Testing
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
