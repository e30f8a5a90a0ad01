"""Limits: how many jobs start in a time and run at a time, by name, across the queues of a namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.engine import Feature, Timing
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Crashed, Failed, Retried, Unroutable
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape
from tests.support.gates import shift_limits
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.LIMITS)

HOUR_US = 3_600_000_000
GPU = LimitRule("gpu", concurrency=1)
PAIR = LimitRule("pair", concurrency=2)
RATE = LimitRule("api", interval_us=HOUR_US, burst=2)


def put(world: World, rule: LimitRule | tuple[LimitRule, ...], *ids: str, queue: str = "q", **shape: Any) -> None:
    rules = (rule,) if isinstance(rule, LimitRule) else rule
    jobs = [NewJob(queue, id, b"p", shape=Shape(limits=rules, **shape)) for id in ids]
    assert all(answer.created for answer in world.enqueue(jobs))


def ids_of(leases: list[Lease]) -> list[str]:
    return [lease.record.id for lease in leases]


def test_no_more_jobs_run_than_the_limit_allows(world: World) -> None:
    put(world, PAIR, *"abcd")
    first, second = world.take()
    assert ids_of([first, second]) == ["a", "b"]
    assert world.take(10, "other") == []
    world.finish(first)
    assert world.take_ids(10, "other") == ["c"]
    world.finish(second)
    assert world.take_ids() == ["d"]


def test_a_limit_holds_for_all_queues(world: World) -> None:
    put(world, GPU, "a", "b")
    put(world, GPU, "c", queue="r")
    (lease,) = world.take()
    assert world.take(10, "other", ("r", "q")) == []
    world.finish(lease)
    (lease,) = world.take(10, "other", ("r", "q"))
    assert lease.record.id == "c", "the queue that asks first"
    assert world.take() == []
    world.finish(lease)
    assert world.take_ids() == ["b"]


def test_jobs_of_a_full_limit_do_not_delay_others(world: World) -> None:
    put(world, GPU, *"abc")
    put(world, LimitRule("other", concurrency=1), "x", "y")
    world.put("plain")
    assert sorted(world.take_ids()) == ["a", "plain", "x"]


def test_a_rate_lets_its_burst_start_and_then_one_after_the_other(world: World) -> None:
    put(world, RATE, *"abcd")
    leased = world.lease(10)
    assert ids_of(list(leased.leases)) == ["a", "b"]
    assert 0 < (leased.next_ms or 0) <= HOUR_US // 1000 + 1
    world.finish(*leased.leases)
    assert world.take() == []
    pass_hour(world)
    assert world.take_ids() == ["c"]
    assert world.take() == []
    pass_hour(world)
    assert world.take_ids() == ["d"]


def test_claims_alone_notice_that_a_rate_allows_the_next_job(world: World) -> None:
    put(world, LimitRule("often", interval_us=50_000), "a", "b")
    assert world.take_ids() == ["a"]
    assert world.until(world.take_ids, 5) == ["b"], "before an outage of so long would be noticed"


def test_a_job_above_a_lowered_burst_still_uses_its_whole_cost(world: World) -> None:
    put(world, LimitRule("dear", cost=3, interval_us=HOUR_US, burst=3), *"abc")
    world.run(world.engine.limits.set_limit("dear", burst=1))
    leased = world.lease(10).leases
    assert ids_of(list(leased)) == ["a"]
    world.finish(*leased)
    for _ in range(2):
        pass_hour(world)
        assert world.take_ids() == []
    pass_hour(world)
    assert world.take_ids() == ["b"]


def test_a_rest_ends_when_the_limit_is_cleared(world: World) -> None:
    put(world, GPU, "a", "b")
    (lease,) = world.take(1)
    world.settle(lease, Retried(BOOM, 60_000, deferred=True, limit="gpu"))
    assert world.take() == []
    assert world.run(world.engine.limits.clear_limit("gpu"))
    assert world.take_ids() != []
    assert not world.run(world.engine.limits.clear_limit("gpu"))


def pass_hour(world: World) -> None:
    pass_ms(world, HOUR_US // 1000 + 2)


def pass_ms(world: World, ms: int) -> None:
    shift_limits(world.server, world.engine.shared(), ms)
    world.pass_time(ms)


def test_a_job_takes_all_of_its_limits_or_none(world: World) -> None:
    put(world, GPU, "a")
    put(world, (PAIR, GPU), "b", "c")
    put(world, PAIR, "d", "e", "f")
    first, second, third = world.take()
    assert ids_of([first, second, third]) == ["a", "d", "e"], "b has no place of pair"
    world.finish(first)
    assert world.take() == [], "there is no place of pair for b"
    world.finish(second)
    assert world.take_ids() == ["b"]


def test_a_cost_takes_several_places(world: World) -> None:
    put(world, LimitRule("gpu", cost=2, concurrency=3), "a", "b")
    put(world, LimitRule("gpu", cost=1, concurrency=3), "c", "d")
    leases = world.take()
    assert ids_of(leases) == ["a", "c"]
    world.finish(leases[1])
    assert world.take() == [], "b comes first and needs two"
    world.finish(leases[0])
    assert world.take_ids() == ["b", "d"]


@pytest.mark.parametrize(
    "outcome",
    [Completed(b"", 0), Failed(BOOM), Retried(BOOM, 60_000), Unroutable(), Crashed()],
    ids=lambda one: type(one).__name__,
)
def test_every_end_of_a_lease_gives_its_place_back(world: World, outcome: Any) -> None:
    put(world, GPU, "a", "b")
    (lease,) = world.take()
    assert world.settle(lease, outcome)
    assert not world.settle(lease, outcome), "once"
    assert world.run(world.engine.limits.limit("gpu")).active == 0
    (lease,) = world.take()
    assert lease.record.id == ("a" if isinstance(outcome, Crashed) else "b")


def test_the_place_of_a_dead_worker_comes_back_with_its_job(world: World) -> None:
    put(world, GPU, "a", "b")
    (lease,) = world.take(10, "dead")
    assert world.take() == []
    assert world.silence() == 1
    assert world.run(world.engine.limits.limit("gpu")).active == 0
    assert world.take_ids(10, "alive") == ["a"]
    assert not world.settle(lease)
    assert world.run(world.engine.limits.limit("gpu")).active == 1, "the late verdict frees nothing"


def test_a_lease_by_hand_counts_until_it_expires(world: World) -> None:
    put(world, GPU, "a", "b")
    world.take(1, "hand", lease_ms=30_000)
    assert world.take() == []
    world.pass_time(31_000)
    world.silence()
    assert world.take_ids() == ["a"]


def test_leaving_gives_places_back(world: World) -> None:
    put(world, GPU, "a", "b")
    world.take()
    assert world.leave() == 1
    assert world.take_ids(10, "other") == ["a"]


def test_a_cancelled_job_does_not_keep_those_behind_it(world: World) -> None:
    put(world, GPU, *"abc")
    (lease,) = world.take()
    world.cancel("b")
    world.finish(lease)
    assert world.take_ids() == ["c"]


@pytest.mark.parametrize("act", ["cancel", "discard", "purge"])
def test_what_waits_at_a_gate_can_be_removed(world: World, act: str) -> None:
    put(world, GPU, *"abc")
    (lease,) = world.take()
    world.remove(act, "b")
    if act != "purge":
        world.remove(act, "c")
    world.finish(lease)
    assert world.take() == []
    assert world.counts().get("ready") is None
    put(world, GPU, "d")
    assert world.take_ids() == ["d"]


def test_stored_numbers_replace_those_of_the_code_at_once(world: World) -> None:
    put(world, GPU, *"abcde")
    put(world, GPU, "z", queue="r")
    assert world.take_ids() == ["a"]
    world.run(world.engine.limits.set_limit("gpu", concurrency=3))
    assert world.take_ids() == ["b", "c"]
    assert world.take(10, "other", ("r",)) == []
    view = world.run(world.engine.limits.limit("gpu"))
    assert (view.concurrency, view.active, view.is_stored) == (3, 3, True)
    assert view.lanes == {"q": 1, "r": 1}
    assert [(one.queue, one.id, one.worker) for one in view.holders] == [("q", id, "w") for id in "abc"]
    assert world.run(world.engine.limits.clear_limit("gpu"))
    assert not world.run(world.engine.limits.clear_limit("gpu"))
    assert world.run(world.engine.limits.limit("gpu")).is_stored is False


def test_a_slow_rate_that_becomes_fast_lets_jobs_start(world: World) -> None:
    put(world, RATE, *"abcd")
    assert world.take_ids() == ["a", "b"]
    world.run(world.engine.limits.set_limit("api", interval_us=1))
    assert world.until(world.take_ids) == ["c", "d"]


def test_a_rate_that_new_code_makes_faster_is_used_up_for_seconds_at_most(world: World) -> None:
    put(world, LimitRule("api", interval_us=HOUR_US), "a")
    assert world.take_ids() == ["a"]
    put(world, LimitRule("api", interval_us=1_000), "b")
    assert world.take_ids() == []
    pass_ms(world, 1_100)
    assert world.take_ids() == ["b"]


def test_a_rate_limited_job_lets_its_limit_rest(world: World) -> None:
    put(world, PAIR, *"abc")
    first, second = world.take()
    world.settle(first, Retried(BOOM, 60_000, deferred=True, limit="pair"))
    world.settle(second, Completed(b"", 0))
    leased = world.lease(10)
    assert leased.leases == ()
    assert 0 < (leased.next_ms or 0) <= 60_000
    assert world.view("a").state is State.READY
    assert world.view("a").failures == 0, "the attempt does not count"
    assert "pair" in (world.view("a").waits or "")
    pass_ms(world, 61_000)
    assert world.take_ids() == ["a", "c"], "the job that was deferred comes first"


def test_a_limit_rests_also_when_no_job_of_the_queue_has_one(world: World) -> None:
    put(world, (), *"ab")
    first, second = world.take()
    settled = [(first, Retried(BOOM, 60_000, deferred=True, limit="api")), (second, Completed(b"", 0))]
    assert world.run(world.engine.settle(settled)) == [True, True]
    assert world.view("a").state is State.SCHEDULED
    assert world.run(world.engine.limits.limit("api")).rests_ms is not None
    put(world, RATE, "c")
    assert world.take_ids() == []


def test_without_a_limit_only_the_job_rests(world: World) -> None:
    put(world, PAIR, *"abc")
    first, second = world.take()
    world.settle(first, Retried(BOOM, 60_000, deferred=True))
    assert world.view("a").state is State.SCHEDULED
    assert world.view("a").failures == 0
    assert world.take_ids() == ["c"]
    assert second.record.id == "b"


def test_a_lane_keeps_its_order_under_a_limit(world: World) -> None:
    put(world, GPU, "a1", "a2", lane="A")
    put(world, GPU, "b1", "b2", lane="B")
    order = []
    while leases := world.take():
        (lease,) = leases
        order.append(lease.record.id)
        world.finish(lease)
    assert order == ["a1", "b1", "a2", "b2"]


def test_a_parked_lane_does_not_keep_a_place(world: World) -> None:
    put(world, GPU, "a1", lane="A")
    put(world, GPU, "b1", lane="B")
    put(world, GPU, "x")
    (lease,) = world.take()
    world.run(world.engine.lanes.park_lane("q", "B"))
    world.finish(lease)
    assert world.take_ids() == ["x"]
    world.resume_lane("B")


def test_an_opened_lane_that_is_parked_passes_its_chance_on(world: World) -> None:
    for n in range(3):
        put(world, GPU, f"{n}", lane=f"L{n}")
    (lease,) = world.take()
    world.finish(lease)
    world.run(world.engine.lanes.park_lane("q", "L1"))
    assert world.take_ids() == ["2"]
    world.resume_lane("L1")


def test_a_full_queue_beside_a_paused_one_gets_the_place(world: World) -> None:
    put(world, GPU, "a", "b")
    put(world, GPU, "c", queue="r")
    (lease,) = world.take()
    assert world.take(10, "w", ("r",)) == []
    world.configure(paused=True)
    world.finish(lease)
    assert world.take_ids(10, queues=("r",)) == ["c"]


def test_a_waiting_job_names_its_limit(world: World) -> None:
    put(world, GPU, "a", "b")
    world.take()
    assert world.view("b").waits == "waits for limit 'gpu': jobs that run hold 1 place of it"
    assert world.run(world.engine.queue("q")).limited == 1
    assert world.view("b").shape.limits == (GPU,)


def test_names_of_limits_are_any_text(world: World) -> None:
    rule = LimitRule("tenant:é {x},@y/z", cost=2, concurrency=4, interval_us=1, burst=7)
    put(world, rule, "a")
    lease = world.take_one()
    assert lease.record.shape.limits == (rule,)
    world.finish(lease)


def test_jobs_of_different_shares_take_turns(world: World) -> None:
    for n in range(6):
        put(world, (), f"big{n}", share="big")
    put(world, (), "small0", "small1", share="small")
    assert world.take_ids(4) == ["big0", "small0", "big1", "small1"]


def test_a_share_with_a_weight_has_more_of_each_turn(world: World) -> None:
    world.run(world.engine.limits.set_share("big", 3))
    put(world, (), *(f"big{n}" for n in range(6)), share="big")
    put(world, (), "small0", "small1", share="small")
    assert world.take_ids(8) == ["big0", "big1", "big2", "small0", "big3", "big4", "big5", "small1"]
    world.run(world.engine.limits.set_share("big", 1))


def test_the_first_job_of_a_queue_with_shares_is_on_the_first_page(world: World) -> None:
    put(world, (), "a", share="one")
    put(world, (), "b", share="two")
    page = world.run(world.engine.page("q", State.READY, limit=1))
    assert [view.id for view in page.jobs] == ["a"]


def test_a_share_keeps_its_turn_over_claims_of_one_job(world: World) -> None:
    world.run(world.engine.limits.set_share("big", 3))
    put(world, (), *(f"big{n}" for n in range(6)), share="big")
    put(world, (), "small0", "small1", share="small")
    claimed = [id for _ in range(8) for id in world.take_ids(1)]
    assert claimed == ["big0", "big1", "big2", "small0", "big3", "big4", "big5", "small1"]
    world.run(world.engine.limits.set_share("big", 1))


def test_all_limits_of_a_share_have_one_turn(world: World) -> None:
    for n in range(4):
        put(world, LimitRule(f"user:{n}", concurrency=1), f"big{n}", share="big")
    put(world, (), "small0", "small1", share="small")
    assert world.take_ids(4) == ["big0", "small0", "big1", "small1"]


def test_all_that_waits_for_limits_is_listed_page_by_page(world: World) -> None:
    put(world, GPU, *"abcd")
    put(world, (), "s1", "s2", share="small")
    put(world, PAIR, "l1", "l2", lane="L")
    put(world, PAIR, "x", "y", "z")
    put(world, (), "t", share="other")
    world.take(3)
    waiting = {id for id in (*"abcd", "s1", "s2", "l1", *"xyz", "t") if world.view(id).state is State.READY}
    shown: list[str] = []
    after = None
    for _ in range(40):
        page = world.run(world.engine.page("q", State.READY, limit=2, after=after))
        shown += [job.id for job in page.jobs]
        after = page.next
        if after is None:
            break
    assert len(shown) == len(set(shown))
    assert set(shown) >= waiting - {"l1"}


def test_many_keys_cost_a_claim_no_more_than_few(world: World) -> None:
    # No lease ends meanwhile, however slow the machine is.
    world = world.with_options(timing=Timing(lease_ms=600_000))
    costs = []
    for count in (10, 1_000):
        for n in range(count):
            put(world, LimitRule(f"{count}:{n}", concurrency=1), f"{count}-{n}-a", f"{count}-{n}-b")
        workers = (f"w{count}-{number}" for number in range(1_000))
        while (leased := world.lease(100, next(workers))).leases or leased.next_ms == 0:
            assert all(lease.record.id.endswith("a") for lease in leased.leases)
        put(world, LimitRule(f"{count}:new", concurrency=1), f"{count}-new")
        costs.append(world.calls_of(world.engine.lease(f"w{count}", ["q"], 1)))
        costs.append(world.calls_of(world.engine.lease(f"v{count}", ["q"], 1)))
    few, idle_few, many, idle_many = costs
    assert many <= few + 2
    assert idle_many <= idle_few + 2


def test_jobs_without_limits_cost_no_more_beside_limits_of_another_queue(world: World) -> None:
    world.put("first")
    (lease,) = world.take()
    alone = world.calls_of(world.engine.settle([(lease, Completed(b"", 0))]))
    put(world, GPU, "a", "b", queue="r")
    world.take(10, queues=("r",))
    world.put("second")
    (lease,) = world.take()
    assert world.calls_of(world.engine.settle([(lease, Completed(b"", 0))])) <= alone


def test_a_small_share_does_not_wait_for_a_big_one(world: World) -> None:
    put(world, (), *(f"big{n}" for n in range(300)), share="big")
    put(world, (), *(f"small{n}" for n in range(10)), share="small")
    claimed: list[str] = []
    while sum(id.startswith("small") for id in claimed) < 10:
        leases = world.take(4)
        claimed += ids_of(leases)
        world.finish(*leases)
    assert len(claimed) <= 2 * 10, "twice what it waits alone"


def test_a_lane_that_another_limit_stops_passes_its_chance_on(world: World) -> None:
    put(world, GPU, "a")
    put(world, PAIR, "p1", "p2")
    leases = world.take()
    assert ids_of(leases) == ["a", "p1", "p2"]
    put(world, (GPU, PAIR), "b")
    put(world, GPU, "x", lane="X")
    assert world.take() == []
    world.finish(leases[0])
    assert world.take_ids() == ["x"], "b has no place of pair"


def test_each_lane_at_a_rate_has_its_moment(world: World) -> None:
    for lane in "ABCD":
        put(world, LimitRule("api", interval_us=HOUR_US), lane.lower(), lane=lane)
    for id in "abcd":
        assert world.take_ids() == [id]
        assert world.take() == []
        pass_hour(world)


def test_a_cheap_job_does_not_overtake_a_dear_one(world: World) -> None:
    put(world, PAIR, "a")
    (lease,) = world.take()
    put(world, LimitRule("pair", cost=2, concurrency=2), "dear")
    assert world.take() == []
    put(world, PAIR, "cheap")
    assert world.take() == []
    world.finish(lease)
    assert world.take_ids() == ["dear"]


def test_a_lane_that_opens_in_the_turn_of_its_share_gives_it_no_second_turn(world: World) -> None:
    for n in range(4):
        put(world, (PAIR, LimitRule(f"user:{n}", concurrency=1)), f"{n}", share="s")
    leases = world.take()
    assert ids_of(leases) == ["0", "1"]
    world.finish(*leases)
    assert world.take_ids(1) == ["2"]
    world.audit()
    assert world.take_ids(1) == ["3"]
