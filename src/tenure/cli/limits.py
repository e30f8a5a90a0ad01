"""The `limits` command: shows limits, and changes their stored numbers."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from tenure.app.app import Tenure
from tenure.cli.errors import note
from tenure.cli.output.tables import Answer, Table
from tenure.cli.output.text import ago
from tenure.cli.reach import reaching
from tenure.client.limits import LISTED_MOST
from tenure.core import limits as bounds
from tenure.core.rates import LimitRule, LimitView, in_words
from tenure.core.values import as_dict


@click.argument("name", required=False)
@click.option("--per-second", type=float, metavar="N", help="Store how many jobs may start in a second.")
@click.option("--per-minute", type=float, metavar="N", help="The same for a minute.")
@click.option("--per-hour", type=float, metavar="N", help="The same for an hour.")
@click.option("--per-day", type=float, metavar="N", help="The same for a day.")
@click.option("--burst", type=int, metavar="N", help="Store how many jobs may start at once, after a pause.")
@click.option("--concurrency", type=int, metavar="N", help="Store how many jobs may run at a time.")
@click.option("is_new", "--new", is_flag=True, help="Store numbers also for a name that no code and no job has.")
@click.option("clears", "--clear", is_flag=True, help="Remove the stored numbers: the code's apply again.")
@click.option("--weight", type=int, metavar="N", help="NAME is a share: how many jobs it starts in each of its turns.")
@reaching()
def limits(
    name: str | None,
    per_second: float | None,
    per_minute: float | None,
    per_hour: float | None,
    per_day: float | None,
    burst: int | None,
    concurrency: int | None,
    is_new: bool,
    clears: bool,
    weight: int | None,
    app: Tenure,
) -> Answer:
    """\b
    tenure limits                           limits with stored numbers or jobs, weights of shares
    tenure limits stripe                    one limit
    tenure limits stripe --per-second 5     store a number; those not named stay
    tenure limits stripe --clear            remove what is stored
    tenure limits tenant:7 --weight 3       the weight of a share

    The code has the default of each limit, as in `Limit("stripe", per_second=10)`. Stored numbers replace it at once,
    also for jobs that wait. `numbers` shows which of them these are: `code` for numbers of jobs that run or wait, or
    else of --app or a worker. `active` are the places that running jobs hold, `waiting` the jobs that wait.

    A name that neither the code of --app or of a living worker nor any job has is refused; --new stores it. If no such
    code has any limit, a note states that the name could not be checked.
    """
    rates = {"per_second": per_second, "per_minute": per_minute, "per_hour": per_hour, "per_day": per_day}
    given = {**rates, "burst": burst, "concurrency": concurrency}
    numbers: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    acts = [*["a number"] * bool(numbers), *["--clear"] * clears, *["--weight"] * (weight is not None)]
    if name is None and acts:
        raise click.UsageError("A change needs the name of the limit, as in `tenure limits stripe --per-second 5`.")
    if len(acts) > 1:
        raise click.UsageError(f"{acts[0]} and {acts[1]} do not go together; expected one of them.")
    cleared = app.limits.clear(name) if name is not None and clears else None
    if name is not None and weight is not None:
        app.limits.set_share(name, weight=weight)
        return Answer({"share": name, "weight": weight}, f"Share {name!r} starts {weight} jobs in each of its turns.")
    if name is not None and numbers:
        _store(app, name, numbers, is_new)
    views = app.limits.list() if name is None else (app.limits.get(name),)
    shares = app.limits.shares() if name is None else {}
    tables = [_table(views), *[_shares(shares)] * bool(shares)]
    document = {"limits": [as_dict(view) for view in views], "cleared": cleared, "shares": shares}
    unused = f"No job, no stored number and no known code has a limit {name!r}. For limits in your code, pass --app."
    notes = [unused] if name is not None and not acts and not _is_found(views[0]) else []
    errors = [f"Limit {name!r} has no stored numbers: the code's apply."] if cleared is False else []
    return Answer(document, tables, notes, errors=errors)


def _store(app: Tenure, name: str, numbers: Mapping[str, Any], is_new: bool) -> None:
    before = app.limits.get(name)
    app.limits.set(name, **numbers, new=is_new)
    if not is_new and not _is_found(before):  # `set` refuses such a name if any code has a limit
        note(
            f"Nothing could check the name {name!r}: neither --app nor a living worker has code with limits. To check "
            f"it, pass --app MODULE:APP. If it is wrong, run `tenure limits {shlex.quote(name)} --clear`."
        )


def _is_found(view: LimitView) -> bool:
    return view.is_known or view.code is not None


def _table(views: Sequence[LimitView]) -> Table:
    now_ms = time.time() * bounds.SECOND
    rows = tuple(_row(view, now_ms) for view in views)
    empty = "No limit has stored numbers or rests, and no job runs or waits under one."
    right = ("burst", "concurrency", "active", "waiting", "lanes")
    below = f"Only {LISTED_MOST:,} are shown." if len(views) >= LISTED_MOST else ""
    table = Table("Limits", rows, right, empty, lists=["queues"], below=below)
    return table.without_empty("rate", "burst", "concurrency", "numbers", "queues", "rests")


def _row(view: LimitView, now_ms: float) -> dict[str, str]:
    """A limit with the numbers that apply: what is stored, in place of what the code gives."""
    code = view.code or LimitRule(view.name)
    interval_us = view.interval_us or code.interval_us
    burst = view.burst if view.burst is not None or interval_us is None or view.code is None else code.burst
    concurrency = view.concurrency or code.concurrency
    sources = [*["stored"] * view.is_stored, *["code"] * (view.code is not None)]
    return {
        "limit": view.name,
        "rate": in_words(interval_us) or "",
        "burst": "" if burst is None else f"{burst:,}",
        "concurrency": "" if concurrency is None else f"{concurrency:,}",
        "numbers": ", ".join(sources),
        "active": f"{view.active:,}",
        "waiting": f"{sum((view.jobs or {}).values()):,}",
        "lanes": f"{sum((view.lanes or {}).values()):,}",
        "queues": ",".join(sorted(view.lanes or {})),
        "rests": "" if view.rests_ms is None else f"{ago(view.rests_ms - now_ms)} more",
    }


def _shares(weights: Mapping[str, int]) -> Table:
    rows = tuple({"share": name, "weight": f"{weight}"} for name, weight in weights.items())
    below = f"Only {LISTED_MOST:,} are shown." if len(rows) >= LISTED_MOST else ""
    return Table("Shares", rows, ("weight",), below=below)
