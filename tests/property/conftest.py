"""What the property tests share with the other engine suites."""

from __future__ import annotations

import pytest

from tests.support.fixtures import configure, driver, shared_server, world
from tests.support.fixtures import native_entry as entry

__all__ = ["driver", "entry", "shared_server", "world"]


def pytest_configure(config: pytest.Config) -> None:
    configure(config)
