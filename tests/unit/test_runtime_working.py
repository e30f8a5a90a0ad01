"""What a worker may be told: its options."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.core.errors import InvalidArgument
from leasehold.working import WorkerOptions


def test_queues_with_weights():
    options = WorkerOptions(("critical", "default"), weights={"critical": 5})
    assert options.weights == {"critical": 5}


@pytest.mark.parametrize("weights", [{"q": 0}, {"q": 101}, {"q": 1.5}, {"q": True}, {"": 1}, {"q": None}])
def test_weights_that_cannot_be_right(weights: dict[str, Any]):
    with pytest.raises(InvalidArgument):
        WorkerOptions(("q",), weights=weights)
