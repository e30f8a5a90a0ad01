"""What a worker may be told: its options."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.task import TaskSpec
from leasehold.working import WorkerOptions, _granted


def test_queues_with_weights():
    options = WorkerOptions(("critical", "default"), weights={"critical": 5})
    assert options.weights == {"critical": 5}


@pytest.mark.parametrize("weights", [{"q": 0}, {"q": 101}, {"q": 1.5}, {"q": True}, {"": 1}, {"q": None}])
def test_weights_that_cannot_be_right(weights: dict[str, Any]):
    with pytest.raises(InvalidArgument):
        WorkerOptions(("q",), weights=weights)


def spec(name: str | None, timeout_ms: int | None, persistent: bool = False) -> TaskSpec:
    return TaskSpec(name, "q", print, False, str.encode, timeout_ms=timeout_ms, persistent=persistent)


@pytest.mark.parametrize(
    ("specs", "granted"),
    [
        ([], (limits.DEFAULT_TIMEOUT_MS, {})),
        ([spec("a", 1_000)], (limits.DEFAULT_TIMEOUT_MS, {})),
        ([spec("a", 2 * limits.DEFAULT_TIMEOUT_MS), spec("b", 1)], (2 * limits.DEFAULT_TIMEOUT_MS, {})),
        ([spec("a", None), spec("b", 1)], (0, {})),
        ([spec("a", None, persistent=True)], (limits.DEFAULT_TIMEOUT_MS, {})),
        ([spec(None, 1_000)], (limits.DEFAULT_TIMEOUT_MS, {"q": 1_000})),
        ([spec(None, None)], (limits.DEFAULT_TIMEOUT_MS, {"q": 0})),
    ],
)
def test_for_how_long_jobs_are_granted_that_say_nothing(specs, granted):
    assert _granted(specs) == granted
