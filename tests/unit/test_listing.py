"""Pages of jobs are put together while jobs come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.cli.listing import find_jobs
from leasehold.core.job import JobView, Page, State


def queue_in_which(*new: str) -> Any:
    """An app with 250 ended jobs, the newest first; before each further page of them these are new."""
    jobs = [JobView(f"j{n}", "q", State.COMPLETED) for n in range(250)]
    asked: list[int] = []

    def page(queue: str, state: State, offset: int, limit: int, *, lane: str | None) -> Page:
        if asked:
            jobs[:0] = [JobView(f"{id}{len(asked)}", queue, state) for id in new]
        asked.append(offset)
        return Page(tuple(jobs[offset : offset + limit]), len(jobs))

    return SimpleNamespace(inspect=SimpleNamespace(page=page))


@pytest.mark.parametrize("new", [(), ("a",), ("a", "b", "c")])
def test_jobs_that_end_between_two_pages_make_none_appear_twice(new: tuple[str, ...]) -> None:
    found = find_jobs(queue_in_which(*new), "q", State.COMPLETED, None, 0, 220)
    assert [view.id for view in found.jobs] == [f"j{n}" for n in range(220)]
    assert found.more


def test_the_last_page_has_no_next_one() -> None:
    found = find_jobs(queue_in_which(), "q", State.COMPLETED, None, 200, 50)
    assert ([view.id for view in found.jobs], found.more) == ([f"j{n}" for n in range(200, 250)], False)
