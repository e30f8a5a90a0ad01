"""Bad schedules and limits, line by line as docs/reference/bad-inputs.md has them: refused where they are written."""
# Much of what is passed here is of the wrong type, which is the point.
# mypy: disable-error-code="misc,arg-type,typeddict-item"

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import tenure as product
from tenure import Cron, Every, Limit, RateLimited, Schedule, Tenure
from tenure.client.limit import MAX_LIMITS
from tests.acceptance.test_bad_inputs import lines, words
from tests.support.fakes import FakeRunner, recorder

HEADING = "Schedules and limits"
HOUR = Every(hours=1)
ONE = Limit("one", concurrency=1)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
Acts = Callable[[Tenure], list[Callable[[], object]]]


def sync(tenant: str, tags: list[str] | None = None) -> None: ...


def each(act: Callable[..., object], *given: Any) -> Acts:
    return lambda app: [lambda value=value: act(value) for value in given]


def tasks(*options: dict[str, Any]) -> Acts:
    """Tasks with these options, and a call of each, as limits and shares may depend on its arguments."""
    return lambda app: [
        lambda given=given, n=n: app.task(name=f"t{n}", **given)(sync).enqueue("a") for n, given in enumerate(options)
    ]


def schedules(*options: dict[str, Any]) -> Acts:
    """Schedules with these options, in code and at run time."""
    return lambda app: [
        act
        for given in options
        for act in (
            lambda given=given: Schedule(HOUR, **given),
            lambda given=given: app.schedules.add("s", b"p", HOUR, queue="q", **given),
            lambda given=given: app.schedules.update("q", "s", **given),
        )
    ]


def added(*options: dict[str, Any], using: Any = None) -> Acts:
    return lambda app: [
        lambda given=given: app.schedules.add("s", b"p", HOUR, queue="q", using=using, **given) for given in options
    ]


REFUSED: dict[str, Acts] = {
    "a schedule that is neither `Cron` nor `Every`": tasks({"schedule": "0 9 * * *"}, {"schedule": 60}),
    "an expression of four or seven fields, or of other words": each(Cron, "* * * *", "* * * * * * *", "0 9 * * x y"),
    "an expression of 201 characters": each(Cron, "0 9 * * " + "1," * 100),
    "an expression for the 30th of February": each(Cron, "0 0 30 2 *"),
    "a step that is longer than its field": each(Cron, "*/61 * * * *"),
    "a time zone that does not exist": each(lambda tz: Cron("@daily", tz=tz), "Europe/Atlantis", "", "../zone"),
    "an interval below a second or above ten years": each(lambda n: Every(seconds=n), 0, 0.5, -1, 10**12),
    "a schedule without an argument that its task needs": lambda app: [
        lambda: app.task(name="shop.sync", schedule=HOUR)(sync)
    ],
    "several schedules of a task without names": tasks({"schedule": [HOUR, Cron("@daily")]}),
    "a schedule name of 151 characters": each(lambda name: Schedule(HOUR, name=name), "x" * 151),
    "a start or an end without a time zone": schedules({"start": datetime(2030, 1, 1)}, {"end": datetime(2030, 1, 1)}),
    "an end before the start": added({"start": NOON, "end": NOON.replace(hour=11)}),
    "an end before the first tick": lambda app: [
        lambda: app.schedules.add("s", b"p", Cron("@daily"), queue="q", start=NOON, end=NOON)
    ],
    "a jitter above the interval": added({"jitter": 3_601}),
    "a window of 0 seconds": schedules({"window": 0}),
    "a policy that does not exist": schedules({"catch_up": "every"}, {"overlap": "every"}),
    'overlap="queue" and a priority': added({"overlap": "queue"}, using={"priority": 5}),
    "an id or a delay for the jobs of a schedule": lambda app: [
        lambda: Schedule(HOUR, using={"id": "x"}),
        lambda: Schedule(HOUR, using={"delay": 5}),
    ],
    "a persistent job in a schedule": added({}, using={"persistent": True}),
    "a backfill that ends before it begins": lambda app: [
        lambda: app.schedules.backfill("q", "s", NOON, NOON.replace(hour=11))
    ],
    "a limit of 0 or -1": lambda app: [
        lambda name=name, n=n: Limit("x", **{name: n})
        for name in ("per_second", "per_minute", "per_hour", "per_day")
        for n in (0, -1, 1e10, float("nan"))
    ],
    "a concurrency of 0 or 1.5": lambda app: [lambda n=n: Limit("x", concurrency=n) for n in (0, 1.5)],
    "a limit without a number": each(Limit, "x"),
    "a change of two rates at once": lambda app: [lambda: app.limits.set("x", per_second=1, per_hour=1)],
    "a burst without a rate": lambda app: [lambda: Limit("x", concurrency=1, burst=5)],
    "a cost that never fits": lambda app: [
        lambda: Limit("x", concurrency=2, cost=3),
        lambda: Limit("x", per_second=9, cost=2),
    ],
    "a name with braces that hold no name": each(lambda name: Limit(name, concurrency=1), "x{", "{}", "{a.b}", "{{a}}"),
    "a name with an argument that the task does not have": tasks(
        {"limits": [Limit("{user}", concurrency=1)]}, {"share": "{user}"}
    ),
    "an argument for a name that is no text, number or bool": lambda app: [
        lambda: app.task(limits=[Limit("{tags}", concurrency=1)])(sync).enqueue("a", ["b"])
    ],
    "a name with braces in `app.limits` or `RateLimited`": lambda app: [
        lambda: app.limits.set("x:{tenant}", concurrency=1),
        lambda: app.limits.get("x:{tenant}"),
        lambda: app.limits.clear("x:{tenant}"),
        lambda: app.limits.set_share("x:{tenant}", weight=2),
        lambda: RateLimited(retry_after=1, limit="x:{tenant}"),
    ],
    "a limit in place of a list": tasks({"limits": ONE}, {"limits": "one"}),
    "nine limits": tasks({"limits": [Limit(f"x{n}", concurrency=1) for n in range(MAX_LIMITS + 1)]}),
    "two limits with one name": tasks({"limits": [ONE, Limit("one", per_second=1)]}),
    "limits and a priority": tasks({"limits": [ONE], "priority": 1}),
    "a share and a lane, or a priority": tasks({"share": "a", "lane": "b"}, {"share": "a", "priority": 1}),
    "a change of a limit without a number": lambda app: [lambda: app.limits.set("x")],
    "a weight of 0 or 101": lambda app: [lambda n=n: app.limits.set_share("x", weight=n) for n in (0, 101)],
    "a rest of 0 seconds or of more than a day": each(lambda n: RateLimited(retry_after=n), 0, -1, 86_401),
}


def test_the_page_and_the_tests_have_the_same_lines() -> None:
    assert list(lines(HEADING)) == list(REFUSED)


@pytest.mark.parametrize("line", REFUSED)
def test_it_is_refused_before_anything_is_sent(line: str) -> None:
    error, says = lines(HEADING)[line]
    (kind,) = words(error)
    engine = recorder()
    app = Tenure("redis://nowhere.invalid", protocol=engine, runner=FakeRunner())
    for act in REFUSED[line](app):
        with pytest.raises(getattr(product, kind)) as caught:
            act()
        message = str(caught.value)
        assert [word for word in words(says) if word not in message] == [], message
        assert len(message) < 600
        assert message.isprintable()
    assert engine.enqueued == []
