"""A claim from several queues, when Redis refuses one of them, or the user."""

from __future__ import annotations

import pytest

from tenure.core.errors import AccessDenied, TenureError, WrongState
from tenure.core.job import Leased
from tenure.core.steps import Draw, Nonce
from tenure.engines.native.partitions.engine import PartitionedEngine


def denied(prefix: str) -> AccessDenied:
    error = AccessDenied("Redis refused access.")
    error.prefix = prefix
    return error


def claim(error: TenureError) -> Leased:
    """Claim from the queues a and b, each of which meets the error."""
    steps = PartitionedEngine("shop").lease("w", ["a", "b"], 1)
    call = next(steps)
    try:
        while True:
            call = steps.send(Nonce("s", 1)) if isinstance(call, Draw) else steps.throw(error)
    except StopIteration as stop:
        answer: Leased = stop.value
        return answer


@pytest.mark.parametrize("error", [WrongState("A key holds data of the wrong type."), denied("NOPERM")])
def test_a_refused_queue_leaves_the_others(error: TenureError) -> None:
    assert [refused.queue for refused in claim(error).refused] == ["a", "b"]


def test_a_refused_user_is_refused_as_a_whole() -> None:
    with pytest.raises(AccessDenied):
        claim(denied("WRONGPASS"))
