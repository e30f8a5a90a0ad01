"""Changes of many jobs (`retry --all`, `purge`, `cancel --all`): finds them, asks, changes them, and reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final, TypeVar

import click

from tenure.app.app import Tenure
from tenure.cli.errors import NotDone, note
from tenure.cli.input import sure
from tenure.cli.output.jobs import job_table
from tenure.cli.output.tables import answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import note_unknown
from tenure.cli.selection import LOOK_NOTE, queues_meant, search, selecting
from tenure.core import limits
from tenure.core.errors import RedisError, Unreachable
from tenure.core.job import JobView, State
from tenure.manage.search import LOOK_MAX, Selection

MANY_MAX: Final = 10_000
"""The most jobs that one command changes one by one, or lists."""
QUEUES_SHOWN: Final = 20
"""Queues of which the number of jobs is printed."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Request:
    """Which jobs are meant. `queue` None: all queues. `state` None: each of `states`, in which a job can be changed."""

    states: tuple[State, ...]
    state: State | None
    selection: Selection
    everything: bool
    dry_run: bool
    yes: bool
    queue: str | None = None
    limit: int = MANY_MAX

    @property
    def wanted(self) -> tuple[State, ...]:
        return self.states if self.state is None else (self.state,)

    @property
    def where(self) -> str:
        queue = "all queues" if self.queue is None else f"queue {self.queue!r}"
        return queue if self.selection.lane is None else f"lane {self.selection.lane!r} of {queue}"

    def named(self, count: int) -> str:
        """Format a number of jobs, as in `2 selected failed jobs of queue 'emails'`."""
        number, _, noun = jobs_text(count).partition(" ")
        selected = "selected" if replace(self.selection, lane=None) else ""
        words = [number, selected, self.state or "", noun, "of", self.where]
        return " ".join(filter(None, words))


@dataclass(frozen=True, slots=True)
class Change:
    """What a command does to jobs, one by one, or if it has `whole` to all of a queue at once.

    `verb` and `then` are the words of the question, as in "Remove 2 jobs of queue 'emails' for good?". `counted`: the
    keys of the numbers in JSON, and their words. `one` returns the key under which a job counts; None: it could not be
    changed, for the reason `why_not`. `may_be_none`: it is no failure if there is no such job. `remark` makes a
    note below the answer from the number of active jobs; it may be empty.
    """

    verb: str
    counted: Mapping[str, str]
    one: Callable[[JobView], str | None]
    whole: Callable[[str], Mapping[str, int]] | None = None
    then: str = ""
    why_not: str = "their state has changed"
    may_be_none: bool = False
    remark: Callable[[int], str] = lambda held: ""

    @property
    def done(self) -> str:
        return next(iter(self.counted.values()))


@dataclass(frozen=True, slots=True)
class _Found:
    """The jobs of one queue. `counts`: how many there are. `is_whole`: the search has left no job out. `held`: how many
    jobs of the queue are active."""

    queue: str
    jobs: tuple[JobView, ...]
    counts: Counter[State] = field(default_factory=Counter)
    is_whole: bool = True
    held: int = 0

    @property
    def total(self) -> int:
        return self.counts.total()


def bulk(*states: State) -> Callable[[F], F]:
    """Add the options to a command, which gets `request`. `states`: those in which it can change a job."""

    def decorate(command: F) -> F:
        @click.option(
            "everything", "--all", is_flag=True, help="All jobs that are selected; without QUEUE in all queues."
        )
        @click.option("--state", type=click.Choice([state.value for state in states]), help="Only jobs in this state.")
        @selecting
        @click.option("--dry-run", is_flag=True, help="Only show the jobs.")
        @click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
        @wraps(command)
        def run(
            *args: Any,
            everything: bool,
            state: str | None,
            selection: Selection,
            dry_run: bool,
            yes: bool,
            **others: Any,
        ) -> Any:
            only = None if state is None else State(state)
            return command(*args, request=Request(states, only, selection, everything, dry_run, yes), **others)

        return run  # type: ignore[return-value]

    return decorate


def change(app: Tenure, request: Request, what: Change, as_json: bool) -> None:
    """Change the jobs of a request. Raises `NotDone` if there are none, or if some could not be changed."""
    request.selection.check(app.engine, request.wanted)
    # Listed before the first change, so that a job that fails again at once is not retried twice.
    queues = queues_meant(app, request.queue)
    found = list(_find(app, request, queues, is_listed=what.whole is None or request.dry_run))
    total = sum(one.total for one in found)
    count = total if what.whole and not request.dry_run else sum(len(one.jobs) for one in found)
    if not request.dry_run:
        part = "" if count == total else f"{count:,} of the "
        meant = f"{part}{request.named(total)}{_by_state(request, found)}{what.then}"
        question = f"{what.verb} {meant}?" if count else ""
        why = f"It would {what.verb.lower()} {meant}"
        sure(question, yes=request.yes, why=why, undone=f"Nothing was {what.done}.")
    done = {one.queue: {} if request.dry_run else _apply(app, one, what) for one in found}
    changed = sum(sum(counts.values()) for counts in done.values())
    _report(request, what, found, done, count, as_json)
    if remark := what.remark(sum(one.held for one in found)):
        note(remark)
    if not all(one.is_whole for one in found) and (what.whole is None or request.dry_run):
        note(LOOK_NOTE)
    if not total and not changed:
        if request.queue is not None:
            note_unknown(app, request.queue)
        if not what.may_be_none:
            none = request.named(0).replace("0", "no", 1)
            none += "" if request.state else f" that are {' or '.join(request.states)}"
            raise NotDone(f"There are {none}; there is nothing to {what.verb.lower()}.")
    if count < total:
        note(f"There were {total:,}. Run it again for the others." if not request.dry_run else f"There are {total:,}.")
    if not request.dry_run and what.whole is None and changed < count:
        left = f"{jobs_text(count - changed)} of {request.where}"
        raise NotDone(f"{left} could not be {what.done}: {what.why_not}.")
    if len(found) < len(queues):
        raise NotDone(f"{len(queues) - len(found):,} of {len(queues):,} queues were left out.")


def _find(app: Tenure, request: Request, queues: Sequence[str], is_listed: bool) -> Iterator[_Found]:
    left = request.limit
    for queue in queues:
        try:
            found = _in_queue(app, queue, request, left, is_listed)
        except Unreachable:
            raise
        except RedisError as error:  # as when another program has a key of this queue
            if request.queue is not None:
                raise
            note(f"Queue {queue!r} was left out: {error}")
            continue
        left -= len(found.jobs)
        yield found


def _in_queue(app: Tenure, queue: str, request: Request, limit: int, is_listed: bool) -> _Found:
    """Count the jobs of a queue and list up to `limit`, of ended ones those that ended first."""
    selection, jobs, is_whole = request.selection, list[JobView](), True
    counts = app.inspect.queue(queue).counts
    for state in request.wanted if is_listed or selection else ():
        # Without a selection, a job after the limit is counted, and not read.
        look, oldest = (LOOK_MAX, selection.older_than is not None) if selection else (limit - len(jobs), True)
        views, has_all = search(app, queue, state, selection, look, oldest=oldest)
        jobs += views
        is_whole = is_whole and (has_all or not selection)
    known = Counter(view.state for view in jobs) if selection else Counter(counts)
    known = Counter({state: known[state] for state in request.wanted})
    return _Found(queue, tuple(jobs[:limit]), known, is_whole, counts.get(State.ACTIVE, 0))


def _apply(app: Tenure, found: _Found, what: Change) -> Mapping[str, int]:
    if what.whole is not None:
        return what.whole(found.queue) if found.total or not found.is_whole else {}
    done = Counter[str]()
    for view in found.jobs:
        # While the user was asked, it may have been retried, or started: then another state would be changed.
        now = app.inspect.job(view.queue, view.id)
        if now is not None and now.state is view.state and (key := what.one(view)) is not None:
            done[key] += 1
    return done


def _report(
    request: Request,
    what: Change,
    found: Sequence[_Found],
    done: Mapping[str, Mapping[str, int]],
    count: int,
    as_json: bool,
) -> None:
    jobs = [view for one in found for view in one.jobs]
    sums = Counter({key: sum(counts.get(key, 0) for counts in done.values()) for key in what.counted})
    rows = [
        {"queue": one.queue, "found": one.total, **{key: done[one.queue].get(key, 0) for key in what.counted}}
        for one in found
        if one.total or done[one.queue]
    ]
    document = {
        "queue": request.queue,
        "state": request.state,
        "lane": request.selection.lane,
        "found": count,
        **sums,
        "left": max(0, sum(one.total for one in found) - sums.total()),
        "queues": rows,
        **({"jobs": [{"queue": view.queue, "id": view.id} for view in jobs]} if request.dry_run else {}),
    }
    if request.dry_run:
        title = f"{request.named(count)} would be {what.done}"
        table = job_table(jobs, time.time() * limits.SECOND, title, "", queues=request.queue is None)
        answer(as_json, document, [table.without("state") if request.state else table] if jobs else None)
        if not as_json and jobs:
            note(f"Nothing was changed. It would be {_by_queue((one.queue, one.total) for one in found)}.")
        return
    parts = [f"{jobs_text(sums[key])} {word}" for key, word in what.counted.items() if sums[key]]
    start = request.where[0].upper() + request.where[1:]
    text = f"{start}: {'; '.join(parts) or f'0 jobs {what.done}'}."
    if request.queue is None and sums.total():
        text += f" {_by_queue((queue, sum(counts.values())) for queue, counts in done.items())}."
    answer(as_json, document, text if sums.total() or what.may_be_none else None)


def _by_state(request: Request, found: Sequence[_Found]) -> str:
    counts = sum((one.counts for one in found), Counter[State]())
    shown = ", ".join(f"{counts[state]:,} {state}" for state in request.wanted if counts[state])
    return f" ({shown})" if shown and request.state is None else ""


def _by_queue(counts: Iterable[tuple[str, int]]) -> str:
    shown = [f"{jobs_text(count)} of {queue!r}" for queue, count in counts if count]
    more = f" and of {len(shown) - QUEUES_SHOWN:,} more queues" if len(shown) > QUEUES_SHOWN else ""
    return ", ".join(shown[:QUEUES_SHOWN]) + more
