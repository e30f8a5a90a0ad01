"""A call for many jobs: its ids, the jobs that are made like the first, and what is packed while Redis works."""

from __future__ import annotations

import pytest

from tenure.client.client import new_ids
from tenure.core.errors import InvalidArgument
from tenure.core.job import NewJob
from tenure.core.shape import Shape
from tenure.core.steps import Draw, Invoke, Nonce, Steps, T, working
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.engines.queue_farm.engine import QueueFarmEngine


def test_ids_drawn_together_are_letters_and_digits_and_differ() -> None:
    ids = [id for id, _ in zip(new_ids(), range(1_000), strict=False)]
    assert len(set(ids)) == 1_000
    assert all(len(id) == 14 and id.isascii() and id.isalnum() for id in ids)
    assert ids[0] != next(new_ids())


def ids_in(call: Invoke) -> list[str]:
    return [arg.decode() for arg in call.args if isinstance(arg, bytes) and arg.startswith(b"id-")]


def answered(steps: Steps[T], *, does_meanwhile: bool) -> tuple[T, list[Invoke]]:
    """Answer every job with 1, as a Redis would; return the answer and the calls."""
    calls: list[Invoke] = []
    try:
        call = next(steps)
        while True:
            if isinstance(call, Draw):
                call = steps.send(Nonce("s", len(calls)))
                continue
            assert isinstance(call, Invoke)
            calls.append(call)
            for _ in range(2):  # as for a call that is sent again
                if does_meanwhile and call.meanwhile is not None:
                    call.meanwhile()
            call = steps.send(b"1" * len(ids_in(call)))
    except StopIteration as stop:
        return stop.value, calls


@pytest.mark.parametrize("does_meanwhile", [True, False])
def test_calls_are_the_same_whether_the_driver_prepares_the_next_one_or_not(does_meanwhile: bool) -> None:
    jobs = [NewJob(f"q{number % 2}", f"id-{number}", b"x") for number in range(1_500)]
    answers, calls = answered(PartitionedEngine("tenure").enqueue(jobs), does_meanwhile=does_meanwhile)
    assert [answer.id for answer in answers] == [job.id for job in jobs]
    sent = [ids for call in calls if (ids := ids_in(call))]
    assert len(sent) > 2
    assert [id for ids in sent for id in ids] == [f"id-{n}" for n in (*range(0, 1_500, 2), *range(1, 1_500, 2))]


def test_a_job_that_the_format_cannot_hold_is_refused_before_any_is_sent() -> None:
    laned = [NewJob("q", str(number), b"1", shape=Shape(lane="a")) for number in range(2_000)]
    with pytest.raises(InvalidArgument, match="must name its queue"):
        next(QueueFarmEngine().enqueue([*laned, NewJob("q", "last", b"1")]))


def test_an_error_of_the_driver_reaches_the_operation() -> None:
    def operation() -> Steps[str]:
        try:
            yield Draw()
        except ValueError:
            return "handled"
        return "missed"

    steps = working(operation(), lambda: None)
    next(steps)
    with pytest.raises(StopIteration) as stop:
        steps.throw(ValueError())
    assert stop.value.value == "handled"
