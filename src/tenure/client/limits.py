"""Limits that are stored in Redis (`app.limits`): they replace the numbers of the code, for the whole fleet."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from tenure.client.client import asynchronous, blocking
from tenure.client.limit import MAX_BURST, MAX_CONCURRENCY, Limit, interval_of
from tenure.core import limits as bounds
from tenure.core import names
from tenure.core.engine import Feature
from tenure.core.errors import invalid
from tenure.core.rates import LimitPort, LimitRule, LimitView, names_limit
from tenure.core.steps import Steps
from tenure.core.values import replace

if TYPE_CHECKING:
    from tenure.client.client import Client

LISTED_MOST: Final = 1_000
"""The most limits that `list` returns."""
SHOWN_MOST: Final = 3
"""The most names that an error lists."""
PAGES_MOST: Final = 10_000
"""The most pages of names that `list` reads."""


class LimitedTask(Protocol):
    """A task of the app."""

    @property
    def limits(self) -> tuple[Limit, ...]: ...


class Limits:
    """Reads and changes limits. Every method has an async version with an `a` before its name.

    app.limits.set("stripe", per_second=5)
    """

    def __init__(self, client: Client, tasks: Mapping[str, LimitedTask]) -> None:
        self._client = client
        self._tasks = tasks

    def declared(self) -> tuple[LimitRule, ...]:
        """Return the limits that the code of this app names for its tasks and queues: up to 1,000, with these names."""
        found = [limit for task in self._tasks.values() for limit in task.limits]
        found += [limit for queue in self._client.queue_limits.values() for limit in queue]
        rules = {rule.template: rule for limit in found for rule in limit.unfilled}
        return tuple(islice(rules.values(), LISTED_MOST))

    @blocking
    def set(
        self,
        name: str,
        *,
        per_second: float | None = None,
        per_minute: float | None = None,
        per_hour: float | None = None,
        per_day: float | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        new: bool = False,
    ) -> Steps[LimitView]:
        """Store numbers of a limit: they replace the code's numbers at once, for all workers. Returns the limit.

            app.limits.set("stripe", per_second=5)
            app.limits.set("tenant:7", concurrency=1)

        `name`: as in the jobs, its braces filled; a limit with several rates has one more name for each further one,
        such as "mail per day". Numbers left out stay as they are. A job with a cost
        above a number starts when all of the limit is free. `new`: store also for a name that is in the code of
        neither this app nor a living worker, and that no job has. Raises `InvalidArgument` for such a name (on a Redis
        Cluster also for a limit that no queue has used), and `UnsupportedFeature`.
        """
        name = names.limit_name(name, "name")
        rates = {"per_second": per_second, "per_minute": per_minute, "per_hour": per_hour, "per_day": per_day}
        interval_us = interval_of(rates)
        if burst is not None:
            names.count(burst, "burst", least=1, most=MAX_BURST)
        if concurrency is not None:
            names.count(concurrency, "concurrency", least=1, most=MAX_CONCURRENCY)
        if interval_us is None and burst is None and concurrency is None:
            given = f"{', '.join(rates)}, burst or concurrency"
            raise invalid(f"limit {name!r}", f"given with {given}", "none of them")
        port = self._port
        if not new:
            yield from self._refuse_unknown(name)
        yield from port.set_limit(name, concurrency=concurrency, interval_us=interval_us, burst=burst)
        return (yield from self._view(name))

    aset = asynchronous(set)

    @blocking
    def get(self, name: str) -> Steps[LimitView]:
        """Return a limit: its numbers, how many places are taken, and in which queues jobs wait for it.

            app.limits.get("tenant:7").active

        Raises `InvalidArgument` and `UnsupportedFeature`.
        """
        name = names.limit_name(name, "name")
        return (yield from self._view(name))

    aget = asynchronous(get)

    @blocking
    def list(self, *, after: str = "", limit: int = LISTED_MOST) -> Steps[tuple[LimitView, ...]]:
        """Return the limits that have stored numbers, of which jobs run or wait, or that rest: up to 1,000, by name.

            for limit in app.limits.list():
                print(limit.name, limit.active)

        `after`: without the names up to this one. `limit`: the most limits; each takes a call to Redis. Raises
        `UnsupportedFeature`.
        """
        found: dict[str, None] = {}
        cursor = ""
        for _ in range(PAGES_MOST):
            page = yield from self._port.limit_names(cursor)
            found.update(dict.fromkeys(page.names))
            cursor = page.cursor
            if not cursor or len(found) >= LISTED_MOST:
                break
        views = []
        for name in sorted(name for name in [*found][:LISTED_MOST] if name > after)[:limit]:
            views.append((yield from self._port.limit(name)))
        return tuple(views)

    alist = asynchronous(list)

    @blocking
    def resting(self) -> Steps[tuple[str, ...]]:
        """Return some names of limits that rest because of `RateLimited`, at most 100 on one server.

            app.limits.resting()

        Raises `UnsupportedFeature`.
        """
        return tuple(sorted((yield from self._port.resting_limits())))

    aresting = asynchronous(resting)

    @blocking
    def clear(self, name: str) -> Steps[bool]:
        """Remove the stored numbers of a limit: the code's numbers apply again, at once.

            app.limits.clear("stripe")

        Returns False if none are stored. Raises `InvalidArgument` and `UnsupportedFeature`.
        """
        name = names.limit_name(name, "name")
        return (yield from self._port.clear_limit(name))

    aclear = asynchronous(clear)

    @blocking
    def set_share(self, name: str, *, weight: int) -> Steps[None]:
        """Set how many jobs of a share are claimed in each of its turns (1 to 100; 1 for shares without a weight).

            app.limits.set_share("tenant:7", weight=3)

        `name`: as in the jobs, its braces filled. Raises `InvalidArgument` and `UnsupportedFeature`.
        """
        name = names.limit_name(name, "name")
        weight = names.count(weight, "weight", least=1, most=bounds.MAX_WEIGHT)
        self._client.require(Feature.SHARES)
        yield from self._port.set_share(name, weight)

    aset_share = asynchronous(set_share)

    @blocking
    def shares(self) -> Steps[dict[str, int]]:
        """Return the shares with a stored weight: up to 1,000, by name. All others have the weight 1.

            app.limits.shares()["tenant:7"]

        Raises `UnsupportedFeature`.
        """
        self._client.require(Feature.SHARES)
        found: dict[str, int] = {}
        cursor = 0
        for _ in range(PAGES_MOST):
            page = yield from self._port.shares(cursor)
            found.update(page.weights)
            cursor = page.cursor
            if not cursor or len(found) >= LISTED_MOST:
                break
        return dict(sorted(found.items())[:LISTED_MOST])

    ashares = asynchronous(shares)

    @property
    def _port(self) -> LimitPort:
        """Raises `UnsupportedFeature` where the protocol has no limits."""
        return self._client.needed(self._client.engine.limits, Feature.LIMITS)

    def _view(self, name: str) -> Steps[LimitView]:
        """A limit, with the numbers of the code where no job shows them."""
        view = yield from self._port.limit(name)
        if view.code is not None:
            return view
        code = next((rule for rule in (yield from self._in_code()) if names_limit(rule.template, name)), None)
        return view if code is None else replace(view, code=replace(code, name=name))

    def _in_code(self) -> Steps[tuple[LimitRule, ...]]:
        """The limits in the code of this app and of the living workers."""
        workers = yield from self._client.engine.workers()
        return (*self.declared(), *(rule for worker in workers for rule in worker.limits))

    def _refuse_unknown(self, name: str) -> Steps[None]:
        """Refuse a name that is probably mistyped. Where no code names a limit, no name is known to be wrong."""
        code = yield from self._in_code()
        if not code or any(names_limit(rule.template, name) for rule in code):
            return
        if not (yield from self._port.limit(name)).is_known:
            known = sorted({rule.template for rule in code})
            near = get_close_matches(name[: bounds.MAX_NAME], known, 1) or known[:SHOWN_MOST]
            rule = f"the name of a limit in the code of this app or of a worker, such as {', '.join(map(repr, near))}"
            raise invalid("name", rule, names.shown(name), "To store numbers for a new limit, pass new=True or --new.")
