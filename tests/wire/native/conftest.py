"""Tests that read or write the keys of the native layout: the suites of all engines use the engine interface only."""

from __future__ import annotations

import pytest

from tests.support.fixtures import configure, driver, shared_server, world
from tests.support.fixtures import native_entry as entry

__all__ = ["driver", "entry", "shared_server", "world"]


def pytest_configure(config: pytest.Config) -> None:
    configure(config)
