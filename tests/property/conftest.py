"""What the property tests share with the other engine suites."""

from __future__ import annotations

import pytest

from tests.support.fixtures import configure, driver, entry, world

__all__ = ["driver", "entry", "world"]


def pytest_configure(config: pytest.Config) -> None:
    configure(config)
