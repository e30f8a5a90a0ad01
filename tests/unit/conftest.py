"""An app on a fake engine and a fake driver: no Redis."""

from __future__ import annotations

import pytest

from tenure import Tenure
from tests.support.fakes import FakeEngine, FakeRunner, recorder


@pytest.fixture
def engine() -> FakeEngine:
    return recorder()


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def app(engine: FakeEngine, runner: FakeRunner) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine, runner=runner)


@pytest.fixture(autouse=True)
def blocking_calls_on_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allowed: tests of a method and of its async version call both on one event loop."""
    monkeypatch.setenv("TENURE_SYNC_ON_LOOP", "allow")
