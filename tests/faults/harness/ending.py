"""When all is over: what Redis says of every job and of its counters, and which keys are left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tenure import Tenure
from tenure.core.job import ENDS, State
from tenure.testing.server import RedisServer, keys_of
from tests.faults.harness.history import Diary, Event, Op


class Stuck(AssertionError):
    """The run did not come to its end in time."""


def write_ends(
    app: Tenure, queue: str, diary: Diary, is_known: Callable[[str], bool] = lambda id: True
) -> dict[str, int]:
    """Write down the end of every known job of the queue. Answers what was counted meanwhile."""
    for state in sorted(ENDS):
        found = [one for one in _ended(app, queue, state) if is_known(one[0])]
        diary.write_all([Event(Op.FINAL, job=id, token=token, note=state.value) for id, token in found])
    return app.inspect.queue(queue).totals


def write_totals(totals: dict[str, int], diary: Diary) -> None:
    diary.write_all([Event(Op.TOTAL, note=name, n=value) for name, value in totals.items()])


def write_keys(server: RedisServer, diary: Diary) -> None:
    """Write down which keys there are, and for how long."""
    diary.write_all(
        [Event(Op.KEY, note=name.decode(errors="replace"), n=ttl_ms) for name, ttl_ms in keys_of(server).items()]
    )


def left(app: Tenure, queue: str) -> int:
    """How many jobs have not ended."""
    return sum(count for state, count in app.inspect.queue(queue).counts.items() if state not in ENDS)


def _ended(app: Tenure, queue: str, state: State) -> Iterator[tuple[str, int]]:
    page = app.inspect.page(queue, state)
    yield from ((view.id, int(view.token or 0)) for view in page.jobs)
    while page.next:
        page = app.inspect.page(queue, state, after=page.next)
        yield from ((view.id, int(view.token or 0)) for view in page.jobs)
