"""What the simulation shares with the other engine suites: a server of its own, and broken scripts on demand."""

from __future__ import annotations

import pytest

from tests.support.fixtures import configure, shared_server

__all__ = ["shared_server"]


def pytest_configure(config: pytest.Config) -> None:
    configure(config)
