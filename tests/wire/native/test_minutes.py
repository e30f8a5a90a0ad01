"""The history of a queue by the minute: what workers report adds up, for 24 hours, within 32 kB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple

import pytest

from tenure.core import limits
from tenure.core.latency import Percentiles, Times, bucket_of
from tenure.core.minutes import Ends, Minutes
from tenure.core.steps import Command, Invoke, Reply
from tenure.engines.native.config import CELL_BYTES, QUARTER_CELLS, QUARTERS
from tests.support.stepping import Send, Session, send_with, sent_again, step
from tests.support.world import World

HIGHEST = 2**24 - 1


def note(world: World, ends: Ends, queue: str = "q") -> None:
    world.run(world.engine.history.note_ends(queue, ends))


def minutes(world: World, queue: str = "q") -> Minutes:
    found: Minutes = world.run(world.engine.history.minutes(queue))
    return found


def sums(world: World, queue: str = "q") -> tuple[int, ...]:
    """Completed, failed, retried, cancelled. The minute may change between two reports."""
    return tuple(map(sum, zip(*(astuple(one)[1:] for one in minutes(world, queue).counts), strict=True)))


def age(world: World, quarters: int) -> None:
    """Let the reports so far be this many quarters of an hour older, in the places where they are."""
    for place in range(world.command("STRLEN", world.key("minutes")) // (QUARTER_CELLS * CELL_BYTES)):
        cell = ("u24", f"#{place * QUARTER_CELLS}")
        if world.command("BITFIELD", world.key("minutes"), "GET", *cell) != [0]:
            world.command("BITFIELD", world.key("minutes"), "INCRBY", *cell, -quarters)


def test_the_reports_of_several_workers_add_up(world: World) -> None:
    now_ms = int(world.command("TIME")[0]) * limits.SECOND
    note(world, Ends(completed=3, failed=1))
    note(world, Ends(completed=2, retried=4, cancelled=5))
    assert sums(world) == (5, 1, 4, 5)
    for one in minutes(world).counts:
        assert one.at_ms % limits.MINUTE == 0
        assert one.at_ms > now_ms - limits.MINUTE
    assert minutes(world, "other") == Minutes()


def test_the_bytes_are_those_of_the_layout_page(world: World) -> None:
    """Other programs may read them."""
    times = Times({bucket_of(0.0015): 5, bucket_of(1e6): 6}, {bucket_of(0.0001): 7})
    note(world, Ends(1, 2, 3, 4, times))
    data = world.command("GET", world.key("minutes"))
    (minute,) = (one.at_ms // limits.MINUTE for one in minutes(world).counts)
    quarter, number = divmod(minute, 15)
    record = data[quarter % 96 * 333 :]
    cells = {at // 3: int.from_bytes(record[at : at + 3], "big") for at in range(0, 333, 3) if any(record[at : at + 3])}
    first = 1 + 4 * number
    ends = {first: 1, first + 1: 2, first + 2: 3, first + 3: 4}
    assert cells == {0: quarter, **ends, 62: 5, 85: 6, 86: 7}


def test_percentiles_are_at_most_twice_the_time(world: World) -> None:
    runs = Times(run={bucket_of(0.0001): 90, bucket_of(3.0): 6, bucket_of(1e6): 4})
    waits = Times(wait={bucket_of(0.5): 1, bucket_of(0.3): 1}, run={bucket_of(0.0001): 1})
    note(world, Ends(completed=100, times=runs))
    (seen,) = minutes(world).latency
    assert seen.at_ms % (15 * limits.MINUTE) == 0
    assert (seen.wait, seen.run) == (None, Percentiles(100, 0.001, 4.096, 16777.216))
    note(world, Ends(completed=2, times=waits), "other")
    (seen,) = minutes(world, "other").latency
    assert seen.wait == Percentiles(2, 0.512, 0.512, 0.512)


def test_a_report_that_is_sent_again_counts_once(world: World) -> None:
    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        assert sent_again(call, reply, send) == reply
        return reply

    step(world.engine.history.note_ends("q", Ends(completed=7)), Session("s"), send_with(world.driver), twice)
    assert sums(world) == (7, 0, 0, 0)


def test_what_is_older_than_a_day_is_neither_shown_nor_added_to(world: World) -> None:
    note(world, Ends(completed=7, times=Times(run={0: 7})))
    age(world, QUARTERS)
    assert minutes(world) == Minutes()
    note(world, Ends(failed=1))
    assert (sums(world), minutes(world).latency) == ((0, 1, 0, 0), ())


@pytest.mark.parametrize("jobs", [HIGHEST, HIGHEST * 1_000])
def test_a_number_stays_at_its_highest(world: World, jobs: int) -> None:
    for _ in range(2):
        note(world, Ends(completed=jobs, failed=1))
    assert {one.completed for one in minutes(world).counts} == {HIGHEST}
    assert sums(world)[1:] == (2, 0, 0)


def test_a_history_is_small_and_ends_a_day_after_the_last_job(world: World) -> None:
    assert QUARTERS * QUARTER_CELLS * CELL_BYTES <= 32_000
    highest = Times({bucket_of(1e9): 1}, {bucket_of(1e9): 1})
    note(world, Ends(1, 1, 1, 1, highest))
    assert world.command("STRLEN", world.key("minutes")) % (QUARTER_CELLS * CELL_BYTES) == 0
    assert 0 < world.command("PTTL", world.key("minutes")) <= limits.DAY
    note(world, Ends(completed=1))
    world.audit()


@pytest.fixture
def full(world: World) -> Iterator[World]:
    world.put("a")
    world.command("CONFIG", "SET", "maxmemory", 1)
    yield world
    world.command("CONFIG", "SET", "maxmemory", 0)


def test_a_report_is_kept_also_when_memory_is_full(full: World) -> None:
    note(full, Ends(completed=1))
    assert sums(full) == (1, 0, 0, 0)


@pytest.mark.parametrize("text", ["x", "x" * 1_000, "\0" * 1_000])
def test_what_another_program_wrote_there_is_not_shown(world: World, text: str) -> None:
    world.command("SET", world.key("minutes"), text, "EX", 60)
    assert minutes(world) == Minutes()
