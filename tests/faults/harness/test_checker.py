"""The checker sees what it is there for: a good history passes, and one that breaks a rule is told by that rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from tests.faults.harness.history import Diary, Event, Op, Tail, read
from tests.faults.harness.story import SECOND, W1, W2, Story
from tests.faults.harness.verdict import Bounds, Policy, Rule

WANTED = Bounds({"held kills": 1, "stale": 1, "cut": 1, "held restarts": 1})


def good() -> Story:
    """Three jobs of a lane: one is retried, one is taken over from a killed worker, one from a stopped one."""
    story = Story().job(0).job(1).job(2)
    story.run(1, "a0", 1, "retry").run(2, "a0", 2).final("a0", 2)
    story.start(3, "a1", 3).tell(3.2, Op.KILL, target=W1).run(6, "a1", 4, pid=W2).final("a1", 4)
    story.start(7, "a2", 5, W2).tell(7.1, Op.STOP, target=W2).run(10, "a2", 6, pid=13).end(11.1, "a2", 5, pid=W2)
    story.tell(11, Op.CONT, target=W2).final("a2", 6)
    story.tell(12, Op.RESTART, phase="invoke", n=3).tell(12.5, Op.RESTART, phase="ok").tell(
        13, Op.FAULT, note="cut", n=4
    )
    return story.total(3)


def blocked(kind: str = "discard") -> Story:
    """The first of two jobs fails for good; somebody sees it and acts."""
    story = Story().job(0, "failed").job(1).run(1, "a0", 1, "fail").stand(2, "a0", 1).act(3, "a0", kind)
    if kind == "retry":
        story.run(4, "a0", 2).final("a0", 2)
    elif kind == "resume":
        story.final("a0", 1, "failed")
    return story.run(5, "a1", 3).final("a1", 3).total(2 if kind == "retry" else 1, failed=1)


def test_a_good_history_is_good_and_counted():
    report = good().judge(bounds=WANTED)
    assert report.violations == ()
    score = report.score
    assert (score.lanes, score.jobs, score.runs, score.completed) == (1, 3, 6, 3)
    assert (score.kills, score.held_kills, score.stops, score.stale) == (1, 1, 1, 1)
    assert (score.faults["cut"], score.restarts, score.held_at_restart) == (4, 1, 3)
    assert score.worst_recovery_s == pytest.approx(2.9)


@pytest.mark.parametrize(("policy", "kind"), [("block", "discard"), ("block", "retry"), ("park", "resume")])
def test_a_lane_that_stands_still_is_good(policy, kind):
    report = blocked(kind).judge(Policy(policy))
    assert report.violations == ()
    assert report.score.stands == 1


def test_a_skipped_failure_is_good():
    story = Story().job(0, "failed").job(1).run(1, "a0", 1, "fail").final("a0", 1, "failed")
    assert story.run(2, "a1", 2).final("a1", 2).total(1, failed=1).judge().violations == ()


def two() -> Story:
    return Story().job(0).job(1).run(1, "a0", 1).final("a0", 1).run(2, "a1", 2).final("a1", 2).total(2)


def without(story: Story, wanted: Callable[[Event], bool]) -> Story:
    story.events = [event for event in story.events if not wanted(event)]
    return story


def changed(story: Story, wanted: Callable[[Event], bool], **values: object) -> Story:
    story.events = [replace(event, **values) if wanted(event) else event for event in story.events]  # type: ignore[arg-type]
    return story


def is_(op: Op, job: str = "") -> Callable[[Event], bool]:
    return lambda event: event.op is op and event.job == job


BAD: dict[str, tuple[Rule, Story, Policy]] = {
    "no end": (Rule.LOST, without(two(), is_(Op.FINAL, "a1")).total(1), Policy.SKIP),
    "failed and was not meant to": (Rule.LOST, changed(two(), is_(Op.FINAL, "a1"), note="broken"), Policy.SKIP),
    "two ends": (Rule.DOUBLED, two().final("a0", 1, "failed"), Policy.SKIP),
    "more completions than jobs": (Rule.DOUBLED, two().total(3), Policy.SKIP),
    "more failures than were seen": (Rule.DOUBLED, two().total(2, failed=1), Policy.SKIP),
    "run after its end": (Rule.DOUBLED, two().run(3, "a1", 3), Policy.SKIP),
    "discarded and completed": (Rule.DOUBLED, blocked().final("a0", 1, "failed"), Policy.BLOCK),
    "never enqueued": (Rule.PHANTOM, two().run(3, "b0", 3), Policy.SKIP),
    "began before its enqueue": (Rule.PHANTOM, changed(two(), is_(Op.ENQUEUE, "a0"), mono_ns=2 * SECOND), Policy.SKIP),
    "ended by nobody": (Rule.PHANTOM, changed(two(), is_(Op.FINAL, "a1"), token=9), Policy.SKIP),
    "completed, the handler said retry": (Rule.PHANTOM, changed(two(), is_(Op.END, "a1"), phase="retry"), Policy.SKIP),
    "two at a time": (Rule.OVERLAP, two().job(2).run(2.2, "a2", 3).final("a2", 3), Policy.SKIP),
    "two of one job": (Rule.OVERLAP, two().start(1.8, "a1", 1, W2).end(2.1, "a1", 1, "cancelled", W2), Policy.SKIP),
    "before the end": (Rule.ORDER, changed(two(), is_(Op.END, "a0"), mono_ns=3 * SECOND), Policy.SKIP),
    "order turned": (
        Rule.ORDER,
        Story().job(0).job(1).run(1, "a1", 1).run(2, "a0", 2).final("a0", 2).final("a1", 1).total(2),
        Policy.SKIP,
    ),
    "a zombie before its turn": (
        Rule.ORDER,
        two().tell(0.4, Op.STOP, target=W2).tell(0.5, Op.CONT, target=W2).start(0.6, "a1", 2, W2),
        Policy.SKIP,
    ),
    "went on behind a blocked job": (
        Rule.STOOD,
        changed(blocked(), is_(Op.ACT, "a0"), mono_ns=6 * SECOND),
        Policy.BLOCK,
    ),
    "went on behind a parked job": (
        Rule.STOOD,
        changed(blocked("resume"), is_(Op.ACT, "a0"), mono_ns=6 * SECOND),
        Policy.PARK,
    ),
    "nobody saw it stand": (Rule.STOOD, without(blocked("resume"), is_(Op.STAND, "a0")), Policy.PARK),
    "back too late": (
        Rule.SLOW,
        Story().job(0).start(1, "a0", 1).tell(1.1, Op.KILL, target=W1).run(31, "a0", 2, pid=W2).final("a0", 2).total(1),
        Policy.SKIP,
    ),
    "died by itself": (Rule.DIED, two().tell(3, Op.DIED, target=W1), Policy.SKIP),
    "a token twice": (Rule.TOKENS, two().start(1.6, "a0", 1, W2), Policy.SKIP),
    "a token for two jobs": (Rule.TOKENS, two().job(0, lane="b").run(3, "b0", 1).final("b0", 1).total(3), Policy.SKIP),
    "tokens that fall in a lane": (
        Rule.TOKENS,
        Story().job(0).job(1).run(1, "a0", 5).final("a0", 5).run(2, "a1", 4).final("a1", 4).total(2),
        Policy.SKIP,
    ),
    "tokens that fall in a job": (
        Rule.TOKENS,
        Story().job(0).run(1, "a0", 5, "retry").run(2, "a0", 4, "retry").run(3, "a0", 6).final("a0", 6).total(1),
        Policy.SKIP,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_rule_is_told(name):
    rule, story, policy = BAD[name]
    assert rule in story.judge(policy).broken()


def hand(story: Story, at: float, job: str, token: int, lasts: float = 1.0) -> Story:
    """A lease by hand."""
    return story.tell(at, Op.START, W1, job=job, token=token, ms=round(lasts * 1000), note="hand")


def settle(story: Story, at: float, job: str, token: int, kind: str = "complete", yes: bool = True) -> Story:
    story.tell(at, Op.SETTLE, W1, job=job, token=token, note=kind, phase="invoke")
    story.tell(at + 0.1, Op.SETTLE, W1, job=job, token=token, note=kind, n=int(yes), phase="ok")
    return story.end(at + 0.1, job, token, "ok" if yes else "lost")


def by_hand(taken: float = 3.0) -> Story:
    """A lease by hand lapses, another one completes the job, the first is refused."""
    story = hand(hand(Story().job(0), 1, "a0", 1), taken, "a0", 2)
    return settle(settle(story, taken + 0.5, "a0", 2), taken + 0.7, "a0", 1, yes=False).final("a0", 2).total(1)


def healed(at: float = 2.0) -> Story:
    return two().tell(at, Op.HEAL).tell(3.0, Op.DRAINED)


def refused() -> Story:
    """The second of two jobs was refused."""
    return two().tell(1, Op.ENQUEUE, phase="invoke", job="a2", n=2).tell(1.1, Op.ENQUEUE, phase="fail", job="a2", n=2)


def gone(spared: str = "") -> Story:
    """The second of two jobs is gone with a failover; the first was claimed in the last moment, and again."""
    story = Story().job(0).job(1).start(1, "a0", 1).start(2, "a0", 2, W2).end(3, "a0", 2, pid=W2).end(4, "a0", 1)
    return story.final("a0", 2).total(1).tell(1.5, Op.WINDOW, ms=2_000, phase=spared)


def test_good_histories_without_lanes():
    assert gone().judge(None).violations == ()
    assert gone().judge(None).score.gone == 1
    strict = Bounds(drained_s=2, awake_s=1, repeats=0, repeats_a_hit=1, deliveries=2)
    assert by_hand().judge(None).violations == ()
    assert by_hand().judge(None).score.stale == 1
    assert healed().judge(None, strict).violations == ()
    assert refused().judge(None, replace(strict, wanted={"refused": 1})).violations == ()
    assert two().tell(1, Op.SAMPLE, n=0).tell(9, Op.KEY, note="{q}:meta", n=-1).judge(None).ok
    assert two().tell(1, Op.EXPECT, phase="ok").tell(9, Op.KEY, note="{q}:call:x", n=5).judge(None).ok


WITHOUT_LANES: dict[str, tuple[Rule, Story, Bounds]] = {
    "not as the scenario wants it": (Rule.EXPECTED, two().tell(1, Op.EXPECT, phase="fail"), Bounds()),
    "completed twice by hand": (Rule.DOUBLED, settle(by_hand(), 5, "a0", 2), Bounds()),
    "run although it was refused": (Rule.REFUSED, refused().run(4, "a2", 4), Bounds()),
    "an old token was accepted": (Rule.STALE, settle(by_hand(), 5, "a0", 1, "extend"), Bounds()),
    "taken while it was held": (Rule.OVERLAP, by_hand(taken=1.5), Bounds()),
    "run too often": (Rule.REPEATED, two().run(0.2, "a0", 0, "cancelled", takes=0.1), Bounds(repeats=0)),
    "delivered too often": (Rule.REPEATED, two().run(0.2, "a0", 0, "retry", takes=0.1), Bounds(deliveries=1)),
    "deaf": (Rule.DEAF, healed(3), Bounds(awake_s=5)),
    "drained too late": (Rule.SLOW, healed(), Bounds(drained_s=0.5)),
    "never drained": (Rule.SLOW, two().tell(2, Op.HEAL), Bounds(drained_s=0.5)),
    "in two places": (Rule.PLACES, two().tell(1, Op.SAMPLE, n=1), Bounds()),
    "gone although it had waited for a replica": (Rule.LOST, gone("durable"), Bounds()),
    "a key is left": (Rule.KEYS, two().tell(9, Op.KEY, note="{q}:held:w", n=-1), Bounds()),
}


@pytest.mark.parametrize("name", WITHOUT_LANES)
def test_a_rule_broken_without_lanes_is_told(name):
    rule, story, bounds = WITHOUT_LANES[name]
    assert rule in story.judge(None, bounds).broken()


def test_every_rule_but_void_is_tried():
    tried = {rule for rule, _, _ in [*BAD.values(), *WITHOUT_LANES.values()]}
    assert tried == set(Rule) - {Rule.VOID}


FAULTS: dict[str, Iterable[Op]] = {
    "no kill": (Op.KILL,),
    "no stop": (Op.STOP, Op.CONT),
    "no cut": (Op.FAULT,),
    "no restart": (Op.RESTART,),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_run_without_a_fault_is_void(name):
    story = without(good(), lambda event: event.op in FAULTS[name])
    if name == "no stop":
        story = without(story, lambda event: event.token == 5)
    assert Rule.VOID in story.judge(bounds=WANTED).broken()


def test_a_restart_without_held_jobs_is_void():
    assert Rule.VOID in changed(good(), is_(Op.RESTART), n=0).judge(bounds=WANTED).broken()


def test_a_run_in_which_no_lane_stood_still_is_void():
    assert two().judge(Policy.BLOCK, Bounds({"stands": 1})).broken() == {Rule.VOID}


def test_a_history_comes_back_from_its_files(tmp_path):
    diary = Diary(tmp_path)
    diary.write(Event(Op.START, job="a0", lane="a", token=1))
    tail = Tail(tmp_path)
    tail.poll()
    ((pid, running),) = tail.running.items()
    assert list(running) == [("a0", 1)]
    diary.write_all([Event(Op.END, job="a0", token=1, phase="ok"), Event(Op.KILL, target=5)])
    tail.poll()
    assert tail.running[pid] == {}
    diary.close()
    events = list(read(tmp_path))
    assert [(event.op, event.seq, event.pid) for event in events] == [
        (Op.START, 1, pid),
        (Op.END, 2, pid),
        (Op.KILL, 3, pid),
    ]
    assert events[0].mono_ns <= events[1].mono_ns
