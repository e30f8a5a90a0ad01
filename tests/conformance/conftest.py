"""Every test here runs for each engine in tests/support/engines.py and for each Redis at hand."""

from __future__ import annotations

import pytest

from tests.support.fixtures import configure, deselect, driver, entry, generate, shared_server, world

__all__ = ["driver", "entry", "shared_server", "world"]


def pytest_configure(config: pytest.Config) -> None:
    configure(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    generate(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deselect(config, items)
