"""The engine of queue-farm beside original clients."""

from __future__ import annotations

import pytest

from tests.support.engines import QUEUE_FARM, Entry
from tests.support.fixtures import configure, driver, shared_server, world

__all__ = ["driver", "shared_server", "world"]


def pytest_configure(config: pytest.Config) -> None:
    configure(config)


@pytest.fixture
def entry() -> Entry:
    return QUEUE_FARM
