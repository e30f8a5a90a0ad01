"""Changes of many jobs (`retry --all`, `purge`, `cancel --all`): their options, the question, and what they print."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar

import click

from tenure.app.app import Tenure
from tenure.cli.errors import note
from tenure.cli.input import sure
from tenure.cli.output.jobs import job_table
from tenure.cli.output.tables import Answer, Table
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import note_left_out, unknown
from tenure.cli.units import Age
from tenure.core import limits
from tenure.core.job import State
from tenure.core.values import as_dict, replace
from tenure.manage.bulk import BulkChange
from tenure.manage.documents import change_document
from tenure.manage.search import LOOK_MAX, Selection

QUEUES_SHOWN: Final = 20
"""Queues of which the number of jobs is printed."""

F = TypeVar("F", bound=Callable[..., Any])


def selecting(command: F) -> F:
    """Add the options to a command, which gets `selection`."""

    @click.option("--lane", metavar="NAME", help="Only jobs of this lane; `jobs` lists ready ones in its order.")
    @click.option("--task", metavar="NAME", help="Only jobs of this task.")
    @click.option("--error", metavar="TYPE", help="Only jobs with a last error of this type, as in ConnectionError.")
    @click.option(
        "--older-than", type=Age(), metavar="AGE",
        help="Only jobs that ended, or else were enqueued, longer ago than AGE: 90s, 15m, 2h, 7d.",
    )  # fmt: skip
    @click.option("--newer-than", type=Age(), metavar="AGE", help="The same, for jobs less long ago.")
    @wraps(command)
    def run(
        *args: Any,
        task: str | None,
        error: str | None,
        older_than: float | None,
        newer_than: float | None,
        lane: str | None,
        **others: Any,
    ) -> Any:
        return command(*args, selection=Selection(task, error, older_than, newer_than, lane), **others)

    return run  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which jobs are meant. `queue` None: all queues. `state` None: each of `states`, in which a job can be changed."""

    states: tuple[State, ...]
    state: State | None
    selection: Selection
    everything: bool
    dry_run: bool
    yes: bool
    queue: str | None = None

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
class BulkWords:
    """What a command does to jobs: the bulk change `call` of `app.control`, and its words.

    `verb` and `then` are the words of the question, as in "Remove 2 jobs of queue 'emails' for good?". `counted`: the
    numbers of the change, and their words. `may_be_none`: it is no failure if there is no such job. `remark` makes a
    note below the answer from the number of active jobs; it may be empty.
    """

    call: Callable[..., BulkChange]
    verb: str
    counted: Mapping[str, str]
    then: str = ""
    may_be_none: bool = False
    remark: Callable[[int], str] = lambda held: ""

    @property
    def done(self) -> str:
        return next(iter(self.counted.values()))


def bulk(*states: State) -> Callable[[F], F]:
    """Add the options to a command, which gets `asked`. `states`: those in which it can change a job."""

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
            return command(*args, asked=Asked(states, only, selection, everything, dry_run, yes), **others)

        return run  # type: ignore[return-value]

    return decorate


def change(app: Tenure, asked: Asked, action: BulkWords) -> Answer:
    """Change the jobs that are meant, after a question."""
    is_asked = False

    def ask(plan: BulkChange) -> None:
        nonlocal is_asked
        if not is_asked:
            is_asked = True
            _note_unread(plan)
            _ask(asked, action, plan)

    done = action.call(asked.queue, state=asked.state, dry_run=asked.dry_run, progress=ask, **as_dict(asked.selection))
    if asked.dry_run:
        _note_unread(done)
    document = {
        "queue": asked.queue,
        "state": asked.state,
        "lane": asked.selection.lane,
        **change_document(done, dry_run=asked.dry_run),
    }
    shown = _listed(asked, action, done) if asked.dry_run else _counted(asked, action, done)
    would = f"Nothing was changed. It would be {_by_queue((one.queue, one.found) for one in done.queues)}."
    hints = [would] if asked.dry_run and done.jobs else []
    is_nothing = not done.found and not any(done.done.values())
    notes = _notes(asked, action, done) + (unknown(app, asked.queue) if is_nothing else [])
    return Answer(document, shown, notes, hints, _errors(asked, action, done))


def _note_unread(plan: BulkChange) -> None:
    note_left_out(plan.left_out)
    for queue, error in plan.refused.items():
        note(f"Queue {queue!r} was left out: {error}")


def _ask(asked: Asked, action: BulkWords, plan: BulkChange) -> None:
    count = plan.meant
    part = "" if count == plan.found else f"{count:,} of the "
    meant = f"{part}{asked.named(plan.found)}{_by_state(asked, plan)}{action.then}"
    question = f"{action.verb} {meant}?" if count else ""
    why = f"It would {action.verb.lower()} {meant}"
    sure(question, yes=asked.yes, why=why, undone=f"Nothing was {action.done}.")


def _listed(asked: Asked, action: BulkWords, plan: BulkChange) -> list[Table] | str | None:
    title = f"{asked.named(plan.meant)} would be {action.done}"
    if not plan.jobs:
        return f"{title}." if action.may_be_none else None
    table = job_table(plan.jobs, time.time() * limits.SECOND, title, "", queues=asked.queue is None)
    return [table.without("state") if asked.state else table]


def _counted(asked: Asked, action: BulkWords, change: BulkChange) -> str | None:
    sums = change.done
    if not any(sums.values()) and not action.may_be_none:
        return None
    parts = [f"{jobs_text(sums[key])} {word}" for key, word in action.counted.items() if sums[key]]
    start = asked.where[0].upper() + asked.where[1:]
    text = f"{start}: {'; '.join(parts) or f'0 jobs {action.done}'}."
    if asked.queue is None and any(sums.values()):
        text += f" {_by_queue((one.queue, one.done.total()) for one in change.queues)}."
    return text


def _notes(asked: Asked, action: BulkWords, done: BulkChange) -> list[str]:
    notes = [action.remark(sum(one.active for one in done.queues))]
    if done.is_cut:
        notes.append(
            f"Only {LOOK_MAX:,} jobs of a queue were looked through: the newest, or the oldest with --older-than."
        )
    if done.meant < done.found:
        found = f"{done.found:,}."
        notes.append(f"There are {found}" if asked.dry_run else f"There were {found} Run it again for the others.")
    return list(filter(None, notes))


def _errors(asked: Asked, action: BulkWords, done: BulkChange) -> list[str]:
    """Return why it is not done, or not wholly."""
    changed = sum(done.done.values())
    if not done.found and not changed and not action.may_be_none:
        none = asked.named(0).replace("0", "no", 1)
        none += "" if asked.state else f" that are {' or '.join(asked.states)}"
        return [f"There are {none}; there is nothing to {action.verb.lower()}."]
    if not asked.dry_run and not done.at_once and changed < done.meant:
        left = done.meant - changed
        lines = [f"{jobs_text(left)} of {asked.where} could not be {action.done}:"]
        lines += [f"{one.id!r} of {one.queue!r}: {one.reason}" for one in done.unchanged]
        return ["\n  ".join(lines + ["..."] * (left > len(done.unchanged)))]
    queues = len(done.queues) + len(done.refused)
    return [f"{len(done.refused):,} of {queues:,} queues were left out."] if done.refused else []


def _by_state(asked: Asked, plan: BulkChange) -> str:
    counts = plan.states
    shown = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    return f" ({shown})" if shown and asked.state is None else ""


def _by_queue(counts: Iterable[tuple[str, int]]) -> str:
    shown = [f"{jobs_text(count)} of {queue!r}" for queue, count in counts if count]
    more = f" and of {len(shown) - QUEUES_SHOWN:,} more queues" if len(shown) > QUEUES_SHOWN else ""
    return ", ".join(shown[:QUEUES_SHOWN]) + more
