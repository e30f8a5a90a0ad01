"""The number of workers for a sample and a policy: bounds, order, calm, and the sentence that explains it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.errors import InvalidArgument
from tenure.core.values import replace
from tenure.scale import Decision, Narrow, Policy, QueueLoad, Sample, Tier, beginning, desired

FEW = settings(max_examples=150, deadline=None)
COUNTS = st.integers(0, 5) | st.integers(0, 100_000)
NARROW = st.builds(Narrow, COUNTS, st.integers(0, 20), st.integers(1, 20))
LOADS = st.builds(
    QueueLoad,
    st.just("q"),
    COUNTS,
    st.lists(NARROW, max_size=4).map(tuple),
    st.integers(0, 5) | st.integers(0, 2_000),
    st.integers(0, 50),
    st.just(0),
    st.floats(0, 500),
    st.none() | st.floats(0.001, 5_000),
    st.lists(st.floats(0, 10_000), max_size=5).map(tuple),
)
POLICIES = st.builds(
    Policy,
    st.floats(0.01, 3_600),
    st.integers(0, 5),
    st.integers(5, 200),
    st.integers(1, 40),
    step_up=st.none() | st.integers(1, 10),
    step_down=st.none() | st.integers(1, 10),
    calm_down=st.integers(0, 400),
    feeds=st.sampled_from([{}, {"q": 3}]),
)


def sample(*loads: QueueLoad, at_s: float = 0.0, workers: int = 0) -> Sample:
    return Sample(at_s, loads, workers)


def workers(policy: Policy, *loads: QueueLoad) -> int:
    return desired(sample(*loads), policy).workers


class TestProperties:
    @FEW
    @given(LOADS, POLICIES, COUNTS, st.integers(0, 100), st.floats(0, 100), st.integers(0, 9))
    def test_more_work_never_gives_fewer_workers(self, load, policy, waiting, held, arrivals, due):
        more = replace(
            load,
            waiting=load.waiting + waiting,
            held=load.held + held,
            due=load.due + due,
            arrivals=load.arrivals + arrivals,
            narrow=tuple(replace(one, waiting=one.waiting + waiting) for one in load.narrow),
        )
        assert workers(policy, more) >= workers(policy, load)

    @FEW
    @given(st.lists(LOADS, min_size=1, max_size=8), POLICIES, st.integers(0, 1_000))
    def test_it_is_bounded_at_every_moment(self, loads, policy, live):
        last = beginning(sample(loads[0], workers=live), policy)
        for at_s, load in enumerate(loads):
            last = desired(sample(load, at_s=at_s), policy, last)
            held = math.ceil(load.held / policy.slots)
            assert max(policy.min, min(held, policy.most)) <= last.workers <= policy.most
            assert last.workers > 0 or not load.at_once

    @FEW
    @given(LOADS, POLICIES)
    def test_there_are_no_more_slots_than_jobs_that_may_run_at_one_time(self, load, policy):
        at_once, held = load.at_once * (1 + policy.feeds.get("q", 0)), load.held
        places = math.ceil(max(at_once, held) / policy.slots)
        assert workers(policy, load) <= max(policy.min, places, int(load.due > 0))

    @FEW
    @given(st.lists(st.tuples(COUNTS, st.integers(1, 60)), min_size=2, max_size=30), POLICIES)
    def test_no_worker_goes_within_the_calm_down_after_it_was_needed(self, looks, policy):
        at_s, last, had = 0.0, None, list[tuple[float, int]]()
        for waiting, pause_s in looks:
            at_s += pause_s
            now = sample(QueueLoad("q", waiting, run_s=1.0), at_s=at_s)
            need = desired(now, policy).workers
            before = last or beginning(now, policy)
            last = desired(now, policy, before)
            had.append((at_s, need))
            calm = max(need for when, need in had if at_s - when < policy.calm_down or when == at_s)
            if policy.step_up is None:
                assert last.workers >= calm
            else:
                assert last.workers >= min(calm, before.workers)
                assert last.workers <= max(need, before.workers), "no worker starts for what was needed before"

    @FEW
    @given(st.lists(COUNTS, min_size=2, max_size=30), POLICIES)
    def test_it_changes_in_steps(self, waitings, policy):
        last = beginning(sample(), policy)
        for at_s, waiting in enumerate(waitings):
            before, last = last, desired(sample(QueueLoad("q", waiting), at_s=at_s), policy, last)
            assert last.workers - before.workers <= (policy.step_up or policy.most)
            assert before.workers - last.workers <= (policy.step_down or policy.most)


class TestRules:
    def test_work_by_time(self):
        policy = Policy(drain_within=30, max=50, slots=1, min=0)
        assert workers(policy, QueueLoad("q", waiting=300, run_s=1.0)) == 10
        assert workers(policy, QueueLoad("q", waiting=300, run_s=0.001)) == 1
        # Each of these takes longer than the target, so that each needs a slot now.
        assert workers(policy, QueueLoad("q", waiting=20, held=10, run_s=600.0)) == 30
        assert workers(policy, QueueLoad("q")) == 0

    def test_a_million_jobs_in_five_lanes_need_five_slots(self):
        lanes = tuple(Narrow(200_000, held, 1) for held in (1, 1, 0, 0, 1))
        load = QueueLoad("q", narrow=lanes, held=3, run_s=1.0)
        assert workers(Policy(slots=1, max=100), load) == 5
        assert desired(sample(load), Policy(slots=1, max=100)).limits == ("places",)
        assert workers(Policy(slots=16, max=100), load) == 1

    def test_what_arrives_is_held(self):
        load = QueueLoad("q", waiting=0, held=40, arrivals=20.0, run_s=2.0)
        assert workers(Policy(slots=4, max=100), load) == 10
        assert "20 jobs a second arrive" in desired(sample(load), Policy(slots=4, max=100)).reason

    def test_unknown_run_times_are_assumed(self):
        load = QueueLoad("q", waiting=300)
        assert workers(Policy(slots=1, max=100, assume=3), load) == 30
        assert workers(Policy(slots=1, max=100, assume=3), replace(load, run_s=1.0)) == 10

    def test_running_jobs_count_by_their_age(self):
        policy = Policy(drain_within=30, slots=1, max=100)
        assert workers(policy, QueueLoad("q", waiting=60, held=10, run_s=1.0, ages=(600.0,) * 10)) == 12
        assert workers(policy, QueueLoad("q", waiting=600, held=10, run_s=1.0, ages=(600.0, 0.0))) == 25
        # Until one has ended, they show that `assume` is too short for the others.
        assert workers(policy, QueueLoad("q", waiting=10, held=10, ages=(600.0,))) == 20

    def test_jobs_that_make_others(self):
        loads = QueueLoad("ocr", waiting=300, run_s=1.0), QueueLoad("index", run_s=2.0)
        assert workers(Policy(slots=1, max=100), *loads) == 10
        assert workers(Policy(slots=1, max=100, feeds={"ocr": 3}), *loads) == 10 + 60

    def test_zero_only_while_nothing_is_due(self):
        policy = Policy(min=0)
        assert workers(policy, QueueLoad("q")) == 0
        assert workers(policy, QueueLoad("q", due=1, run_s=0.001)) == 1
        assert workers(policy, QueueLoad("q", held=1, run_s=0.001)) == 1
        assert workers(Policy(604_800, 0, slots=500), QueueLoad("q", waiting=1, run_s=0.001)) == 1

    def test_running_jobs_keep_their_workers_whatever_the_steps_are(self):
        policy = Policy(min=0, max=100, slots=1, step_up=1)
        last = beginning(sample(), policy)
        assert desired(sample(QueueLoad("q", held=50)), policy, last).workers == 50

    def test_jobs_claimed_ahead_need_no_workers_of_their_own(self):
        load, policy = QueueLoad("q", waiting=10, held=400, run_s=0.001, ages=(0.1,)), Policy(max=100, slots=16)
        assert desired(sample(load), policy).workers == 25, "other programs may hold them"
        assert desired(Sample(0.0, (load,), workers=2, slots=32), policy).workers == 2
        assert desired(Sample(0.0, (load,), workers=0, slots=0), policy).workers == 1

    def test_a_batch_takes_one_slot(self):
        policy = Policy(max=100, slots=2)
        load = QueueLoad("q", waiting=3_000, held=100, run_s=3.0, batch=50, ages=(3.0,))
        decision = desired(sample(load), policy)
        assert (decision.workers, decision.reason.split(",")[2]) == (4, " 0.06 s each")
        assert workers(policy, replace(load, waiting=0)) == 1
        assert workers(policy, QueueLoad("q", arrivals=100.0, held=100, run_s=3.0, batch=50)) == 1
        lanes = tuple(Narrow(10_000, 0, 1) for _ in range(5))
        assert workers(Policy(max=100, slots=1), QueueLoad("q", narrow=lanes, run_s=30.0, batch=50)) == 5
        fed = QueueLoad("ocr", waiting=300, run_s=1.0), QueueLoad("index", run_s=2.0, batch=10)
        assert workers(Policy(slots=1, max=100, feeds={"ocr": 3}), *fed) == 10 + 6

    def test_tiers_grow_one_after_the_other(self):
        policy = Policy(slots=1, tiers=(Tier("spot", 4), Tier("on-demand", 3)))
        load = QueueLoad("q", waiting=150, run_s=1.0)
        assert desired(sample(load), policy).tiers == {"spot": 4, "on-demand": 1}
        assert (policy.most, Policy(max=5, tiers=policy.tiers).most, Policy().most) == (7, 5, 10)

    def test_it_begins_with_the_workers_that_live(self):
        policy = Policy(max=20, calm_down=100)
        last = beginning(sample(workers=8), policy)
        kept = desired(sample(at_s=99), policy, last)
        assert (kept.workers, kept.limits) == (8, ("min", "calm_down"))
        assert desired(sample(at_s=101), policy, last).workers == 1

    def test_a_worker_of_the_policy_may_be_several_processes(self):
        assert beginning(Sample(0.0, (), workers=8, slots=32), Policy(max=20, slots=16)).workers == 2

    def test_the_reason_is_one_sentence(self):
        load = QueueLoad("q", waiting=1_240, held=3, due=2, run_s=0.5)
        assert desired(sample(load), Policy(max=1, slots=16)) == Decision(
            1,
            "1,240 jobs waiting, 0.5 s each, to start within 30 s, 3 held, 2 due within 20 s: 1 worker of 16 slots "
            "(the most)",
            ("max",),
            {},
            ((0.0, 1),),
        )


class TestArrivals:
    def test_they_are_counted_between_two_samples(self):
        first = sample(QueueLoad("q", come=1_000, run_s=2.0))
        later = first
        for n in range(1, 100):
            later = sample(QueueLoad("q", come=1_000 + 50 * n), at_s=5.0 * n).after(later)
        (load,) = later.queues
        assert load.arrivals == pytest.approx(10.0, rel=0.01)
        assert load.run_s == 2.0, "the last one that was known"

    def test_purged_jobs_are_no_arrivals(self):
        first = sample(QueueLoad("q", come=1_000))
        assert sample(QueueLoad("q", come=10), at_s=5.0).after(first).queues[0].arrivals == 0.0

    def test_a_queue_that_is_new_in_a_sample_has_none_yet(self):
        assert sample(QueueLoad("new", come=10), at_s=5.0).after(sample()).queues[0].arrivals == 0.0


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"min": 3, "max": 2}, "min must be at most max, which is 2, got 3"),
        ({"min": 11}, "at most max, which is 10"),
        ({"drain_within": 0}, "drain_within must be 0.001 to"),
        ({"drain_within": math.nan}, "drain_within"),
        ({"max": 0}, "max must be a whole number from 1"),
        ({"slots": 0}, "slots must be"),
        ({"step_up": 0}, "step_up must be"),
        ({"calm_down": -1}, "calm_down must be"),
        ({"assume": 0}, "assume must be"),
        ({"feeds": {"q": 0}}, "feeds: q must be"),
        ({"tiers": (Tier("a", 1), Tier("a", 2))}, "tiers must be of different names"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(wrong, text):
    with pytest.raises(InvalidArgument, match=text):
        Policy(**wrong)


def test_a_tier_has_a_name_and_a_maximum():
    for name, most in (("", 1), ("spot", 0)):
        with pytest.raises(InvalidArgument):
            Tier(name, most)
