"""Schedules in Redis: a tick has one job at most, also if many workers try; policies; sources that come and go."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace as replaced

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import QueueFull, TenureError
from tenure.core.job import State
from tenure.core.outcome import Completed, Unroutable
from tenure.core.rates import LimitRule
from tenure.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec, Ticked
from tenure.core.shape import Shape, UniqueRule
from tenure.core.values import replace
from tenure.engines.kit.config import PRESENCE_TTL_MS
from tests.support.schedules import (
    STEP,
    announce,
    deploy,
    digest_of,
    due,
    make,
    make_trigger,
    now_of,
    put,
    spec,
    stored,
    tick,
    tick_of,
)
from tests.support.world import World

pytestmark = pytest.mark.needs(Feature.SCHEDULES)

DECADE: Final = 3_650 * limits.DAY


def rare(name: str = "s", **changes: Any) -> ScheduleSpec:
    """A schedule whose tick that a test has put is the latest one: no other comes while the test runs."""
    return spec(name, every_ms=DECADE, **changes)


def test_a_due_tick_becomes_a_job_that_knows_its_planned_time(world: World) -> None:
    planned = now_of(world) - 1_000
    assert put(world, rare(headers={"a": "b"}, timeout_ms=5_000, retries=2), planned)
    assert due(world) == ["s"]
    assert tick(world, "a") is Ticked.ENQUEUED
    record = world.take_one().record
    assert (record.id, record.payload, record.scheduled_ms, record.task) == ("a", b"p", planned, None)
    assert (record.headers, record.timeout_ms, record.retries) == ({"a": "b"}, 5_000, 2)
    state = stored(world).state
    assert state.planned_ms == planned // DECADE * DECADE + DECADE
    assert (state.runs, state.missed, state.last_id) == (1, 0, "a")
    assert state.last_planned_ms == planned
    world.audit()


def test_a_schedule_is_added_once(world: World) -> None:
    planned = now_of(world) + 60_000
    assert put(world, spec(), planned)
    assert not put(world, spec(payload=b"other"), planned)
    assert stored(world).spec == spec()
    assert put(world, spec(payload=b"other"), planned, digest_of(spec()))
    assert stored(world).spec == spec(payload=b"other")
    assert not put(world, spec(), planned, digest_of(spec()))


def test_of_two_workers_that_saw_the_same_tick_one_enqueues_it(world: World) -> None:
    put(world, spec(), now_of(world) - 1_000)
    found, now = stored(world), now_of(world)
    answers = [make(world, tick_of(found, now, id)) for id in ("a", "b", "c")]
    assert answers == [Ticked.ENQUEUED, Ticked.STALE, Ticked.STALE]
    assert world.drain() == ["a"]


def test_one_call_makes_many_ticks_and_answers_for_each(world: World) -> None:
    now = now_of(world) - 1_000
    only, ended = Shape(unique=UniqueRule("k:x")), rare("ended", end_ms=now)
    for one in (
        rare("a"),
        rare("in lane", shape=Shape(lane="l")),
        rare("first", shape=only),
        rare("second", shape=only),
    ):
        put(world, one, now)
    put(world, ended, now)
    put(world, spec("early"), now + limits.HOUR)
    read = ("a", "early", "in lane", "first", "gone", "second", "ended")
    ticks = [tick_of(stored(world, name if name != "gone" else "a"), now + 500, f"j{n}") for n, name in enumerate(read)]
    ticks[4] = replace(ticks[4], name="gone")
    ticks[1] = replace(ticks[1], run_fire_ms=now + limits.HOUR)
    assert world.run(world.engine.schedules.tick("q", ticks)) == [
        Ticked.ENQUEUED,
        Ticked.EARLY,
        Ticked.ENQUEUED,
        Ticked.ENQUEUED,
        Ticked.STALE,
        Ticked.JOINED,
        Ticked.ENQUEUED,
    ]
    assert world.in_lane("l") == ["j2"]
    assert [stored(world, name).state.last_id for name in read[:4]] == ["j0", None, "j2", "j3"]
    assert stored(world, "second").state.last_id == "j3"
    assert [stored(world, name).state.planned_ms for name in ("early", "ended")] == [now + limits.HOUR, 0]
    assert due(world) == []
    assert sorted(world.drain()) == ["j0", "j2", "j3", "j6"]
    world.audit()


def test_ticks_take_the_room_that_a_full_queue_has_left(world: World) -> None:
    world.configure(max_length=2)
    now = now_of(world) - 1_000
    for name in "abc":
        put(world, rare(name), now)
    before = stored(world, "c").state
    answers = world.run(world.engine.schedules.tick("q", [tick_of(stored(world, name), now, name) for name in "abc"]))
    assert answers[:2] == [Ticked.ENQUEUED] * 2
    assert "it has 2 of at most 2 jobs" in str(answers[2])
    assert stored(world, "c").state == before
    assert sorted(world.drain()) == ["a", "b"]
    assert tick(world, "c", "c") is Ticked.ENQUEUED


def test_one_call_reads_a_limited_number_of_previous_records(world: World) -> None:
    now = now_of(world) - 5 * STEP
    for name in "abc":
        put(world, spec(name, catch_up=CatchUp.ALL, payload=bytes(200_000)), now)
        assert tick(world, name, name) is Ticked.ENQUEUED
    ticks = [tick_of(stored(world, name), now_of(world), name * 2) for name in "abc"]
    assert world.run(world.engine.schedules.tick("q", ticks)) == [Ticked.SKIPPED, Ticked.SKIPPED, Ticked.EARLY]
    assert make(world, ticks[2]) is Ticked.SKIPPED


def test_a_worker_whose_clock_is_ahead_enqueues_nothing(world: World) -> None:
    put(world, spec(), now_of(world) + 300_000)
    assert due(world) == []
    ahead = tick_of(stored(world), now_of(world) + 600_000, "a")
    assert make(world, ahead) is Ticked.EARLY
    assert world.counts() == {}


def test_a_tick_after_the_planned_one_is_early_too(world: World) -> None:
    put(world, spec(catch_up=CatchUp.ALL), now_of(world) - 1_000)
    later = replace(tick_of(stored(world), now_of(world), "a"), run_fire_ms=now_of(world) + 300_000)
    assert make(world, later) is Ticked.EARLY
    assert stored(world).state.runs == 0


def test_a_schedule_with_another_definition_is_not_moved_on(world: World) -> None:
    planned = now_of(world) - 1_000
    put(world, spec(), planned)
    old = tick_of(stored(world), now_of(world), "a")
    put(world, spec(payload=b"new"), planned, digest_of(spec()))
    assert make(world, old) is Ticked.STALE
    assert world.counts() == {}


def test_a_schedule_that_one_worker_reads_is_kept_from_others_for_a_while(world: World) -> None:
    put(world, spec(), now_of(world) - 1_000)
    first = world.run(world.engine.schedules.due_schedules("q", 100))
    assert [one.name for one in first.schedules] == ["s"]
    again = world.run(world.engine.schedules.due_schedules("q", 100))
    assert again.schedules == ()
    assert again.next_ms <= 1_000
    world.until(lambda: due(world) == ["s"])  # the first worker has died


def test_due_schedules_come_in_order_and_limited(world: World) -> None:
    now = now_of(world)
    for n in range(5):
        put(world, spec(f"s{n}"), now - 1_000 * n - 1_000)
    assert [one.name for one in world.run(world.engine.schedules.due_schedules("q", 2)).schedules] == ["s4", "s3"]
    assert due(world) == ["s2", "s1", "s0"]


@pytest.mark.parametrize(
    ("catch_up", "planned", "missed"),
    [(CatchUp.ONE, [5], 4), (CatchUp.ALL, [1, 2, 3, 4, 5], 0), (CatchUp.SKIP, [5], 4)],
)
def test_missed_ticks(world: World, catch_up: CatchUp, planned: list[int], missed: int) -> None:
    """Five ticks are due; `skip` runs only the last, which is less than a minute late."""
    begin = now_of(world) // STEP * STEP - 4 * STEP
    put(world, spec(catch_up=catch_up, overlap=Overlap.ALLOW), begin)
    ran: list[int] = []
    while stored(world).state.planned_ms <= now_of(world):
        assert tick(world, f"j{len(ran)}") is Ticked.ENQUEUED
        ran.append(world.take_one().record.scheduled_ms or 0)
    expected = [begin + (n - 1) * STEP for n in planned]
    if ran[-1] == expected[-1] + STEP:  # a minute began meanwhile
        pytest.skip("the minute ended during the test")
    assert ran == expected
    assert stored(world).state.missed == missed


def test_ticks_beyond_the_window_are_left_out_and_counted(world: World) -> None:
    now = now_of(world)
    hour = spec(catch_up=CatchUp.ALL, overlap=Overlap.ALLOW)
    hour = replaced(hour, every_ms=limits.HOUR, window_ms=90 * limits.MINUTE)
    begin = now // limits.HOUR * limits.HOUR - 5 * limits.HOUR
    put(world, hour, begin)
    answers: list[Ticked | TenureError] = []
    while stored(world).state.planned_ms <= now:
        answers.append(tick(world, f"j{len(answers)}"))
    state = stored(world).state
    assert answers[0] is Ticked.MOVED
    assert state.missed + state.runs == 6
    assert state.runs in (1, 2)


def test_overlap_skip_leaves_a_tick_out_while_the_previous_job_has_not_ended(world: World) -> None:
    put(world, spec(), now_of(world) - 1_000)
    assert tick(world, "a") is Ticked.ENQUEUED
    lease = world.take_one()
    world.pass_time(STEP)
    assert tick(world, "b") is Ticked.SKIPPED
    assert stored(world).state.skipped == 1
    world.settle(lease)
    world.pass_time(STEP)
    assert tick(world, "c") is Ticked.ENQUEUED
    assert world.drain() == ["c"]


def test_overlap_cancel_ends_a_job_that_waits_and_asks_the_worker_of_one_that_runs(world: World) -> None:
    put(world, spec(overlap=Overlap.CANCEL), now_of(world) - 1_000)
    assert tick(world, "a") is Ticked.ENQUEUED
    world.pass_time(STEP)
    assert tick(world, "b") is Ticked.ENQUEUED
    assert world.state("a") is State.CANCELLED
    lease = world.take_one()
    world.pass_time(STEP)
    assert tick(world, "c") is Ticked.ENQUEUED
    assert world.view("b").cancelling is not None
    world.settle(lease)
    assert world.drain() == ["c"]


@pytest.mark.parametrize(("task", "answer"), [("new", Ticked.ENQUEUED), ("old", Ticked.SKIPPED)])
def test_a_parked_job_holds_back_the_ticks_of_its_own_task_only(world: World, task: str, answer: Ticked) -> None:
    """After a rename, no worker may ever have the earlier task again."""
    put(world, spec(task="old"), now_of(world) - 1_000)
    assert tick(world, "a") is Ticked.ENQUEUED
    assert world.settle(world.take_one(), Unroutable())
    assert world.state("a") is State.UNROUTABLE
    assert put(world, spec(task=task), now_of(world), digest_of(spec(task="old")))
    world.pass_time(STEP)
    assert tick(world, "b") is answer
    assert world.state("a") is State.UNROUTABLE
    world.audit()


def test_overlap_cancel_ends_a_parked_job_of_another_task(world: World) -> None:
    old, new = spec(task="old", overlap=Overlap.CANCEL), spec(task="new", overlap=Overlap.CANCEL)
    put(world, old, now_of(world) - 1_000)
    assert tick(world, "a") is Ticked.ENQUEUED
    assert world.settle(world.take_one(), Unroutable())
    assert put(world, new, now_of(world), digest_of(old))
    world.pass_time(STEP)
    assert tick(world, "b") is Ticked.ENQUEUED
    assert world.state("a") is State.CANCELLED
    assert world.drain() == ["b"]


def test_jobs_have_lanes_priorities_and_unique_keys(world: World) -> None:
    now = now_of(world) - 1_000
    put(world, spec("lane", shape=Shape(lane="l")), now)
    put(world, spec("high", shape=Shape(priority=5)), now)
    put(world, spec("only", shape=Shape(unique=UniqueRule("k:x")), overlap=Overlap.ALLOW), now)
    assert [tick(world, name, name) for name in ("lane", "high", "only")] == [Ticked.ENQUEUED] * 3
    assert world.in_lane("l") == ["lane"]
    world.pass_time(STEP)
    assert tick(world, "another", "only") is Ticked.JOINED
    assert stored(world, "only").state.last_id == "only"
    assert world.take_ids(1) == ["high"]
    world.audit()


@pytest.mark.needs(Feature.LIMITS)
def test_jobs_of_schedules_have_limits(world: World) -> None:
    shape = Shape(limits=(LimitRule("one", concurrency=1),), share="a")
    put(world, spec(shape=shape, overlap=Overlap.ALLOW), now_of(world) - 1_000)
    assert stored(world).spec == spec(shape=shape, overlap=Overlap.ALLOW)
    assert tick(world, "a") is Ticked.ENQUEUED
    world.pass_time(STEP)
    assert tick(world, "b") is Ticked.ENQUEUED
    first = world.take_one()
    assert world.take_ids() == []
    assert world.settle(first)
    assert world.drain() == ["b"]


def test_a_full_queue_refuses_a_tick_and_changes_nothing(world: World) -> None:
    world.put("x")
    world.configure(max_length=1)
    put(world, spec(), now_of(world) - 1_000)
    before = world.dump()
    assert isinstance(tick(world, "a"), QueueFull)
    assert world.dump() == before
    world.drain()
    assert tick(world, "a") is Ticked.ENQUEUED


def test_a_pause_stops_the_ticks_and_keeps_its_reason(world: World) -> None:
    put(world, spec(), now_of(world) - 1_000)
    one = tick_of(stored(world), now_of(world), "a")
    assert world.run(world.engine.schedules.pause_schedule("q", "s", "disk\nfull"))
    assert due(world) == []
    assert make(world, one) is Ticked.STALE
    state = stored(world).state
    assert state.reason == "disk\nfull"
    assert state.paused_ms > 0
    # A new definition does not resume it.
    put(world, spec(payload=b"x"), now_of(world) - 500, digest_of(spec()))
    assert due(world) == []
    planned = now_of(world) - 100
    digest = digest_of(spec(payload=b"x"))
    assert not world.run(world.engine.schedules.resume_schedule("q", "s", "other", planned, planned))
    assert world.run(world.engine.schedules.resume_schedule("q", "s", digest, planned, planned))
    assert stored(world).state.paused_ms == 0
    assert tick(world, "a") is Ticked.ENQUEUED
    assert not world.run(world.engine.schedules.pause_schedule("q", "none", ""))


def test_trigger_enqueues_now_and_keeps_the_next_tick(world: World) -> None:
    planned = now_of(world) + 60_000
    put(world, spec(), planned)
    assert make_trigger(world, "a") is Ticked.ENQUEUED
    lease = world.take_one()
    assert (lease.record.scheduled_ms, world.view("a").scheduled_for_ms) == (5, 5)
    world.run(world.engine.settle([(lease, Completed(b"1"))]))
    assert world.view("a").scheduled_for_ms == 5  # kept after its end
    state = stored(world).state
    assert (state.planned_ms, state.last_id, state.runs) == (planned, "a", 1)
    assert make_trigger(world, "b", name="none") is Ticked.STALE


def test_the_jobs_of_the_last_five_runs_are_known(world: World) -> None:
    put(world, spec(), now_of(world) + 60_000)
    for id in "abcdefg":
        assert make_trigger(world, id) is Ticked.ENQUEUED
    assert world.run(
        world.engine.schedules.pause_schedule("q", "s", "f g\nh")
    )  # which writes the state anew, with its reason
    state = stored(world).state
    assert (state.last_id, [id for _, id in state.before], state.reason) == ("g", ["f", "e", "d", "c"], "f g\nh")
    times = [state.ran_ms, *(at for at, _ in state.before)]
    assert times == sorted(times, reverse=True)
    assert 0 not in times


def test_an_id_of_a_user_with_spaces_does_not_stop_a_schedule(world: World) -> None:
    now, only = now_of(world) - 1_000, Shape(unique=UniqueRule("k:x"))
    put(world, spec("only", shape=only, overlap=Overlap.ALLOW), now)
    world.put("nightly job 1", shape=only)
    assert tick(world, "a", "only") is Ticked.JOINED
    state = stored(world, "only").state
    assert (state.last_id, state.paused_ms, state.runs) == (None, 0, 1)
    world.pass_time(STEP)
    assert tick(world, "b", "only") is Ticked.JOINED


def test_a_schedule_without_a_next_tick_stays_listed(world: World) -> None:
    now = now_of(world)
    put(world, spec(end_ms=now), now - 1_000)
    tick(world, "a")
    assert stored(world).state.planned_ms == 0
    assert due(world) == []
    world.audit()


def test_remove_leaves_nothing(world: World) -> None:
    before = world.left()
    put(world, spec(), now_of(world) + 60_000)
    deploy(world, spec("code"))
    assert world.run(world.engine.schedules.remove_schedule("q", "s"))
    assert world.run(world.engine.schedules.remove_schedule("q", "code"))
    assert not world.run(world.engine.schedules.remove_schedule("q", "s"))
    assert {name for name in world.left() if not name.startswith(b"call:")} == before


def test_pages_have_every_schedule_once(world: World) -> None:
    planned = now_of(world) + 60_000
    for n in range(250):
        put(world, spec(f"s {n}/ü"), planned)
    names, cursor = [], 0
    for _ in range(1_000):
        page = world.run(world.engine.schedules.schedule_page("q", cursor))
        names += [one.name for one in page.schedules]
        cursor = page.cursor
        if not cursor:
            break
    assert sorted(names) == sorted(f"s {n}/ü" for n in range(250))


def test_maintenance_answers_when_the_next_tick_is(world: World) -> None:
    assert world.maintain().tick_ms is None
    put(world, spec(), now_of(world) + 60_000)
    tick_ms = world.maintain().tick_ms
    assert tick_ms is not None
    assert 0 < tick_ms <= 60_000
    world.run(world.engine.schedules.pause_schedule("q", "s", ""))
    assert world.maintain().tick_ms is not None


# Schedules in code.


def test_code_adds_its_schedules_once(world: World) -> None:
    assert [wanted.name for wanted in deploy(world, spec("a"), spec("b")).wanted] == ["a", "b"]
    assert deploy(world, spec("a"), spec("b")).wanted == ()
    assert stored(world, "a").spec == spec("a", source="m:app")


def test_a_schedule_ends_when_no_worker_of_its_source_announces_it(world: World) -> None:
    put(world, spec("user"), now_of(world) + 60_000)
    deploy(world, spec("a"), spec("b"))
    for _ in range(4):
        world.pass_time(PRESENCE_TTL_MS // 2)
        reply = deploy(world, spec("a"))
        if reply.ended:
            break
    assert reply.ended == ("b",)
    assert world.run(world.engine.schedules.schedule("q", "b"))[1] is None
    assert stored(world, "a").spec is not None
    assert stored(world, "user").spec is not None
    world.audit()


def test_other_workers_do_not_end_it(world: World) -> None:
    deploy(world, spec("a"))
    for _ in range(4):
        world.pass_time(PRESENCE_TTL_MS // 2 + 1)
        assert announce(world, source="other:app").ended == ()
    assert stored(world, "a").spec is not None


def test_after_an_absence_of_its_workers_a_schedule_has_time_to_be_announced(world: World) -> None:
    deploy(world, spec("a"), spec("b"))
    world.pass_time(100 * PRESENCE_TTL_MS)
    assert deploy(world, spec("a")).ended == ()
    deploy(world, spec("a"), spec("b"))
    world.pass_time(PRESENCE_TTL_MS - 1_000)
    assert deploy(world, spec("a"), spec("b")).ended == ()


def test_a_name_of_another_source_or_of_a_user_is_refused(world: World) -> None:
    put(world, spec("user"), now_of(world) + 60_000)
    deploy(world, spec("code"))
    reply = announce(world, spec("user"), spec("code"), source="other:app")
    assert reply.refused == ("user", "code")
    assert reply.wanted == ()


def test_of_two_versions_of_the_code_the_later_one_stays(world: World) -> None:
    old, new = spec("a"), spec("a", payload=b"new")
    deploy(world, old)
    assert len(deploy(world, new).wanted) == 1
    for _ in range(3):
        assert deploy(world, old).wanted == ()
        assert deploy(world, new).wanted == ()
        world.pass_time(10_000)
    assert stored(world, "a").spec == replaced(new, source="m:app")
    # The old version returns, as after a rollback: the new one is gone.
    world.pass_time(2 * PRESENCE_TTL_MS)
    assert len(deploy(world, old).wanted) == 1
    assert stored(world, "a").spec == replaced(old, source="m:app")


def test_when_the_workers_of_the_new_version_end_the_old_version_returns_and_nothing_is_forgotten(world: World) -> None:
    old, new = spec("a"), spec("a", payload=b"new")
    deploy(world, old)
    deploy(world, new)
    make_trigger(world, "j", name="a")
    wanted = 0
    for _ in range(6):
        world.pass_time(PRESENCE_TTL_MS // 2)
        reply = deploy(world, old)
        wanted += len(reply.wanted)
        assert reply.ended == ()
    assert wanted == 1
    found = stored(world, "a")
    assert found.spec == replaced(old, source="m:app")
    assert found.state.runs == 1


def test_a_new_definition_takes_over_a_tick_that_is_due(world: World) -> None:
    begin = now_of(world) // STEP * STEP
    old, new = spec("a"), spec("a", payload=b"new")
    put(world, replaced(old, source="m:app"), begin)
    deploy(world, new)
    assert stored(world, "a").state.planned_ms == begin
    assert tick(world, "j", "a") is Ticked.ENQUEUED
    # The tick has run: no version runs it again.
    deploy(world, spec("a", payload=b"newest"))
    assert stored(world, "a").state.planned_ms > begin


# Sources and tasks that are renamed.


def names_of(world: World) -> list[str]:
    return sorted(one.name for one in world.run(world.engine.schedules.schedule_page("q")).schedules)


def test_a_source_without_workers_gives_its_names_to_one_that_has_them(world: World) -> None:
    deploy(world, spec("a"))
    make_trigger(world, "j", name="a")
    new = spec("a", payload=b"new")
    assert deploy(world, new, source="m.worker:app").refused == ("a",)
    world.pass_time(PRESENCE_TTL_MS + 1)
    assert [wanted.name for wanted in deploy(world, new, source="m.worker:app").wanted] == ["a"]
    found = stored(world, "a")
    assert (found.spec, found.state.runs) == (replaced(new, source="m.worker:app"), 1)
    assert deploy(world, spec("a")).refused == ("a",)  # the earlier source returns too late
    world.audit()


def test_a_living_source_and_a_user_keep_their_names(world: World) -> None:
    put(world, spec("user"), now_of(world) + 60_000)
    deploy(world, spec("code"))
    for _ in range(3):
        world.pass_time(PRESENCE_TTL_MS // 2)
        deploy(world, spec("code"))
        assert deploy(world, spec("user"), spec("code"), source="other:app").refused == ("user", "code")
    one = replaced(spec("code", payload=b"x"), source="other:app")
    assert not put(world, one, now_of(world) + 60_000, stored(world, "code").digest)


def test_a_schedule_moves_to_its_new_name_in_one_step(world: World) -> None:
    begin = now_of(world) - 1_000
    old, new = rare("old"), rare("new", earlier=("older", "old"))
    put(world, replaced(old, source="m:app"), begin)
    deploy(world, old)
    assert tick(world, "j", "old") is Ticked.ENQUEUED
    deploy(world, new)
    assert names_of(world) == ["new"]
    state = stored(world, "new").state
    assert (state.runs, state.last_id, state.last_planned_ms) == (1, "j", begin)
    assert state.planned_ms > begin
    for _ in range(4):  # workers of the earlier code live on
        world.pass_time(PRESENCE_TTL_MS // 2)
        assert deploy(world, old).wanted == ()
        assert deploy(world, new).wanted == ()
        assert names_of(world) == ["new"]
    world.audit()


def test_a_worker_of_the_earlier_code_cannot_put_the_earlier_name_beside_the_new_one(world: World) -> None:
    old = replaced(spec("old"), source="m:app")
    asked = announce(world, old)
    assert [wanted.name for wanted in asked.wanted] == ["old"]
    deploy(world, spec("new", earlier=("old",)))
    assert not put(world, old, now_of(world) + 60_000)
    assert names_of(world) == ["new"]


def test_an_earlier_source_does_not_put_the_earlier_name_beside_the_new_one(world: World) -> None:
    """A rollback to an app with another target, whose workers start before those of the new app stop."""
    old, new = spec("old"), spec("new", earlier=("old",))
    deploy(world, old)
    world.pass_time(PRESENCE_TTL_MS + 1)
    for _ in range(3):
        deploy(world, new, source="m.worker:app")
        assert announce(world, old).refused == ("old",)
        assert not put(world, replaced(old, source="m:app"), now_of(world) + 60_000)
        assert names_of(world) == ["new"]
        world.pass_time(PRESENCE_TTL_MS // 2)
    world.pass_time(PRESENCE_TTL_MS)
    deploy(world, old)
    assert names_of(world) == ["new", "old"]
    world.audit()


def test_a_user_may_add_a_schedule_with_an_earlier_name_of_code(world: World) -> None:
    deploy(world, spec("new", earlier=("old",)))
    assert put(world, spec("old"), now_of(world) + 60_000)


def test_after_a_rollback_the_earlier_name_returns_when_the_new_one_ends(world: World) -> None:
    old, new = spec("old"), spec("new", earlier=("old",))
    deploy(world, old)
    deploy(world, new)
    for _ in range(4):
        world.pass_time(PRESENCE_TTL_MS // 2)
        deploy(world, old)
        assert len(names_of(world)) == 1
    assert names_of(world) == ["old"]


def test_a_schedule_that_another_source_has_under_the_earlier_name_waits_for_it(world: World) -> None:
    new = spec("new", earlier=("old",))
    deploy(world, spec("old"))
    assert deploy(world, new, source="m.worker:app").refused == ("new",)
    assert names_of(world) == ["old"]
    world.pass_time(PRESENCE_TTL_MS + 1)
    deploy(world, new, source="m.worker:app")
    assert names_of(world) == ["new"]


def test_a_removed_schedule_leaves_no_announcements_of_earlier_names(world: World) -> None:
    before = world.left()
    deploy(world, spec("new", earlier=("old",)))
    assert world.run(world.engine.schedules.remove_schedule("q", "new"))
    world.expire(PRESENCE_TTL_MS)
    assert {name for name in world.left() if not name.startswith(b"call:")} == before


def test_a_definition_that_arrives_after_a_tick_does_not_repeat_it(world: World) -> None:
    """The worker read the planned time before another worker made its tick."""
    begin, old, new = now_of(world) - 1_000, rare(), rare(payload=b"new")
    put(world, old, begin)
    assert tick(world, "a") is Ticked.ENQUEUED
    assert not put(world, new, begin, digest_of(old))
    assert put(world, new, begin + STEP, digest_of(old))


def test_a_trigger_is_no_tick(world: World) -> None:
    """The tick that is due afterwards runs, also by a definition that takes over."""
    planned = now_of(world) - 1_000
    put(world, rare(overlap=Overlap.ALLOW), planned)
    assert make_trigger(world, "a", now_of(world)) is Ticked.ENQUEUED
    state = stored(world).state
    assert (state.planned_ms, state.last_planned_ms, state.missed, state.skipped) == (planned, 0, 0, 0)
    assert put(world, rare(payload=b"new", overlap=Overlap.ALLOW), planned, stored(world).digest)
    assert tick(world, "b") is Ticked.ENQUEUED
    assert stored(world).state.last_planned_ms == planned
