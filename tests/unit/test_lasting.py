"""A persistent job with a unique key: only one that lasts as long as the job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenure import Debounce, InvalidArgument, Shape, Tenure, Throttle, Unique
from tenure.core.shape import Conflict, UniqueRule
from tests.support.fakes import FakeEngine, FakeRunner, double, recorder

SHORT = [
    (Unique(until="started"), "started"),
    (Unique("x", until="started", on_conflict="existing"), "started"),
    (Unique("x", until=60), "for a time"),
    (Unique("x", until=timedelta(days=1), on_conflict="replace"), "for a time"),
    (Throttle(60), "Throttle"),
    (Debounce(5, "x"), "Debounce"),
    (Unique("x", on_conflict="rerun"), "rerun"),
]


@pytest.fixture
def engine() -> FakeEngine:
    return recorder()


@pytest.fixture
def app(engine: FakeEngine) -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=engine, runner=FakeRunner())


@pytest.mark.parametrize(("unique", "named"), SHORT)
def test_a_key_that_ends_before_the_job(app: Tenure, engine: FakeEngine, unique: Any, named: str) -> None:
    plain, always = app.task(name="plain")(double), app.task(name="always", persistent=True)(double)
    for act in (
        lambda: plain.using(unique=unique, persistent=True),
        lambda: plain.using(unique=unique).using(persistent=True),
        lambda: always.using(unique=unique),
        lambda: plain.using(persistent=True).enqueue_many([plain.call(1), plain.using(unique=unique).call(2)]),
        lambda: app.task(name="both", persistent=True, unique=unique)(double),
        lambda: app.queue("q").enqueue(b"", unique=unique, persistent=True),
        lambda: app.queue("q").enqueue_many([b""], unique=unique, persistent=True),
    ):
        with pytest.raises(InvalidArgument, match=f"persistent cannot go with .*{named}"):
            act()
    assert engine.enqueued == []
    assert "both" not in app.tasks
    always.using(unique=unique, persistent=False).enqueue(1)
    plain.using(unique=unique).enqueue(1)
    assert len(engine.enqueued) == 2


@pytest.mark.parametrize("on_conflict", ["reject", "existing", "replace"])
def test_a_key_that_lasts(app: Tenure, engine: FakeEngine, on_conflict: Any) -> None:
    app.task(persistent=True, unique=Unique("x", on_conflict=on_conflict))(double).enqueue(1)
    rule = UniqueRule("k:x", conflict=Conflict(on_conflict))
    assert engine.enqueued[0].shape == Shape(unique=rule, persistent=True)
