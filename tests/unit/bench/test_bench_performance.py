"""What to measure, how much of it, what the goals say of it; and one small run of a bare loop from end to end."""

from pathlib import Path
from typing import Any

import pytest

from bench.performance import arguments, parse_only, plan_of
from bench.roster import ALL, Adapter, Facts, Variant, adapters
from bench.speed import drain, latency, sections
from bench.speed.cluster import ClusterFound, Drained, Fullness, projected
from bench.speed.cluster import Cost as ClusterCost
from bench.speed.cluster import table as cluster_table
from bench.speed.crowd import Crowded, CrowdFound
from bench.speed.fairness import Fairness, Waits
from bench.speed.flat import Cost, Flatness
from bench.speed.flat import table as flat_table
from bench.speed.goals import Kept, Verdict, table, verdicts
from bench.speed.lines import lines
from bench.speed.options import Optioned, OptionsFound
from bench.speed.page import BEGIN, END, FIGURES, GOALS, PAGE, PICTURE, kept, texts, written
from bench.speed.rounds import LEAST, MOST, PARTS, Findings, Part, Plan, count_for, run_round, swept
from bench.speed.stage import Failed, staged
from bench.speed.starts import Starts
from bench.speed.tables import better_peers
from tenure.core.values import replace
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer
from tests.unit.bench.test_bench_results import MACHINE, a_run, samples


def test_peers_sections_and_parts_are_chosen_by_name():
    everything = parse_only("")
    assert everything.whole
    assert (everything.peers, everything.sections) == (ALL, sections.NAMES)
    pair = parse_only("rq,tenure")
    assert (pair.peers, pair.sections, pair.whole) == (("tenure", "rq"), (), False)
    assert parse_only("flat").peers == ()
    assert parse_only("rq", "async,quiet").parts == ("async", "quiet")
    assert not parse_only("", "async").whole
    with pytest.raises(ValueError, match="no sidekiq: expected some of tenure"):
        parse_only("sidekiq")
    with pytest.raises(ValueError, match="--parts: no speed"):
        parse_only("", "speed")


def test_a_plan_is_what_was_said_or_the_usual():
    assert plan_of(arguments().parse_args([])) == Plan()
    assert plan_of(arguments().parse_args(["--quick"])).rounds == 1
    asked = plan_of(arguments().parse_args(["--quick", "--rounds", "5", "--seconds", "0.5"]))
    assert (asked.rounds, asked.seconds) == (5, 0.5)
    for wrong in (["--rounds", "0"], ["--seconds", "0"], ["--jobs", "0"], ["--rounds", "101"]):
        with pytest.raises(ValueError, match="expected 1 to 100 rounds"):
            plan_of(arguments().parse_args(wrong))


def part(run, name="part", rate="speed"):
    return Part(name, ("speed",), rate, run, "drain_async")


def test_a_peer_gets_as_many_jobs_as_it_does_in_the_time():
    findings, plan = Findings(), Plan(seconds=2.0, jobs=500)
    assert count_for(findings, "rq", part(None), plan) == 500
    for rate, count in ((1_000.0, 2_000), (1.0, LEAST), (1e9, MOST)):
        findings.rates["rq", "speed"] = rate
        assert count_for(findings, "rq", part(None), plan) == count


def peer(name, *sweep):
    return Adapter(name, Path("python")), Facts(name, ("async",), {}, (), sweep=sweep)


def test_the_first_round_is_not_kept_and_a_part_that_fails_is_not_tried_again(capsys):
    met = []

    def measure(adapter, facts, server, count, plan):
        met.append((adapter.name, count))
        if adapter.name == "b":
            raise Failed("has none", "its own words")
        return {"drain_async": 100.0, "speed": 100.0}

    findings, plan = Findings(), Plan(rounds=2, seconds=3.0, jobs=7)
    peers = [peer("a"), peer("b")]
    server: Any = None
    for number in range(3):
        run_round(number, peers, [part(measure), part(measure, "idle", "")][: 1 + (number > 0)], server, plan, findings)
    assert [name for name, _ in met] == ["a", "b", "a", "a", "a", "a"], "what fails once is not tried again"
    assert met[0] == ("a", 7)
    assert met[2] == ("a", 300)
    assert {(one.peer, one.round) for one in findings.samples} == {("a", 1), ("a", 2)}
    assert {(one.peer, one.reason) for one in findings.missing} == {("b", "has none")}
    assert "its own words" in capsys.readouterr().err


def test_every_other_round_has_the_opposite_order():
    met = []

    def measure(adapter, facts, server, count, plan):
        met.append(adapter.name)
        return {"drain_async": 100.0}

    server: Any = None
    for number in range(3):
        run_round(number, [peer("a"), peer("b")], [part(measure)], server, Plan(), Findings())
    assert met == ["a", "b", "b", "a", "a", "b"]


def test_the_first_round_finds_the_best_setting_of_a_peer():
    met = []

    def measure(adapter, facts, server, count, plan):
        met.append(adapter.fast)
        return {"drain_async": {"fast": 100.0, "fast-one": 300.0, "fast-ten": 200.0}[adapter.fast]}

    findings, server = Findings(), None
    measured = replace(PARTS[4], run=measure)
    one = peer("a", Variant("fast-one", "`-c 1`"), Variant("fast-ten", "`-c 10`"))
    for number in range(2):
        run_round(number, [one], [measured], server, Plan(jobs=7), findings)  # type: ignore[arg-type]
    assert met == ["fast", "fast-one", "fast-ten", "fast-one"]
    assert swept(findings, "a", one[1]) == "`-c 1`: best for async; `-c 10`: not better"


def test_a_p99_is_that_of_the_values_of_all_rounds():
    def measure(adapter, facts, server, count, plan):
        return {"latency_p50": 1.0, "latency_p99": [1.0] * 50}

    findings, server = Findings(), None
    for number in range(1, 3):
        run_round(number, [peer("a")], [part(measure)], server, Plan(), findings)  # type: ignore[arg-type]
    findings.values["a", "latency_p99"][-1] = 9.0
    findings.values["a", "latency_p99"][-2] = 8.0
    findings.end()
    assert [one.value for one in findings.samples if one.measure == "latency_p99"] == [8.0]


def test_whatever_goes_wrong_with_a_peer_does_not_end_the_run(capsys):
    def measure(adapter, facts, server, count, plan):
        raise KeyError("what nobody thought of")

    findings, server = Findings(), None
    run_round(1, [peer("a")], [part(measure)], server, Plan(), findings)  # type: ignore[arg-type]
    assert [one.reason for one in findings.missing] == ["failed with KeyError"]
    assert "what nobody thought of" in capsys.readouterr().err


COMPARED = a_run(
    samples("drain_async", tenure=[30.0], batch=[60.0], bullmq=[29.0], wire=[20.0]),
    samples("drain_sync", tenure=[10.0], rq=[2.0], huey=[1.0], redisworkqueue=[2.0], dropin=[4.0]),
    samples("enqueue_one", tenure=[10.0], bare=[12.0]),
    samples("latency_p50", tenure=[3.0], huey=[2.0]),
    peers=("tenure", "bare", "batch", "rq", "huey", "bullmq", "redisworkqueue", "wire", "dropin"),
)
FLAT = Flatness(
    MACHINE,
    tuple(
        Cost("held", size, "claim", 1, us, slow, slow) for size, us, slow in ((1_000, 10.0, 0.0), (9_000, 15.0, 4.0))
    ),
)
ON_A_CLUSTER = ClusterFound(
    MACHINE,
    1_000,
    (
        Drained(6, 1, 0, ClusterCost(10.0, 10.0), ClusterCost(30.0, 30.0), 0.0, 0.0),
        Drained(6, 16, 0, ClusterCost(12.0, 2.0), ClusterCost(36.0, 6.0), 0.25, 0.1),
    ),
    (Fullness(1_000, 16, 1.2),),
    post_us=10.0,
)
ALL_KEPT = Kept(
    COMPARED,
    FLAT,
    Fairness(MACHINE, (Waits("all at once", 10, 20.0, 500.0), Waits("apart", 10, 40.0, 90.0))),
    CrowdFound(MACHINE, (Crowded(1, 3.0, 4.0, 20.0), Crowded(100, 1.0, 5.0, 90.0))),
    Starts(MACHINE, {"python": (20.0,), "import tenure": (60.0,), "tenure --help": (170.0,)}),
    ON_A_CLUSTER,
    OptionsFound(
        MACHINE,
        (Optioned("plain", 10.0, 4.0, 100.0), Optioned("lane", 25.0, 12.0, 60.0), Optioned("unique", 20.0, 8.0, 80.0)),
    ),
)


def value(goal):
    (found,) = (one for one in verdicts(ALL_KEPT) if goal in one.goal)
    return found


def test_goals_are_ratios_of_the_right_things():
    assert value("Python peer, any handlers").value == 15  # not to BullMQ, and the best of either kind
    assert value("Python peer, any handlers").met
    assert value("100 a call").value == 0.5
    assert value("drain, sync").value == 5
    assert not value("drain, sync").met
    assert value("one by one").value == pytest.approx(1.2)
    assert value("pick-up p50: to the best peer").met is False
    assert value("pick-up p50 with 100").met is True
    assert value("drop-in").value == 2
    assert value("worker on its layout").met
    assert value("any cost grows").value == 1.5
    assert value("longest script").met
    assert value("worst wait").value == 0.04
    assert value("import tenure").value == 40
    assert value("--help").met is False
    assert value("Redis memory").met is None
    assert value("Redis time of its enqueue").value == 2.5
    assert value("with one option, at worst: rate").value == 0.6


def test_a_goal_that_was_not_measured_is_shown_as_that():
    assert {one.met for one in verdicts(Kept())} == {None}
    shown = table([Verdict("speed", "times", 3, False, None), Verdict("wait", "ms", 1, True, 2.0)])
    assert "| speed (times) | at least 3 | - | not measured |" in shown
    assert "| wait (ms) | at most 1 | 2.00 | **missed** |" in shown


def test_a_large_crowd_is_compared_with_the_small_one():
    assert "| held | claim | 1 | 1.50 | 15.0 | 4.0 ms | 4.0 ms |" in flat_table(FLAT)


def test_the_speed_of_more_masters_follows_from_the_costs_on_the_measured_ones():
    # 16 masters with one partition each: a sixteenth of 48 us, and the calls about the post.
    assert projected(ON_A_CLUSTER, 16, 16) == pytest.approx(40 / (48 / 16 + 0.1 * 10))
    assert projected(ON_A_CLUSTER, 16, 64) is None
    shown = cluster_table(ON_A_CLUSTER)
    assert "| 6 | 16 | plain | 12.0, 2.0 | 36.0, 6.0 | 25.0% | 0.100 |" in shown
    assert "| 6 | 16 | 48 | 1.12 | 4.0 | 5.0 |" in shown


def test_figures_go_between_their_marks_and_every_section_is_shown():
    page = written(f"before\n{BEGIN}\nold\n{END}\nafter\n", "new")
    assert page == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    pages = texts(ALL_KEPT)
    assert pages[GOALS].startswith("## Goals\n")
    assert "missed" not in pages[PAGE]
    for section in sections.SECTIONS:
        assert sum(f"## {section.title}\n" in page for page in pages.values()) == 1
    assert "".join(pages.values()).count("2026-01-02, 2 cores") == 2 + len(sections.SECTIONS)
    assert "## What options cost" in pages[PAGE]
    assert "## Pick-up with many idle workers" in pages[FIGURES]
    with pytest.raises(ValueError, match="no place for the figures"):
        written("a page", "new")


def test_the_page_opens_with_what_a_user_asks():
    first, second, *_, last = lines(ALL_KEPT)
    assert "Jobs that do nothing: 30, which is 5.00 times RQ, 10.0 times HUEY." in first
    assert "Times as long: HUEY 0.67." in second
    assert "0.60 to 0.80 of its plain jobs a second. Redis needs 2.0 to 2.5 times" in last
    assert lines(Kept()) == []


def test_the_page_names_the_queues_that_are_better():
    shown = better_peers(COMPARED)
    assert "| Pick-up on an idle queue, p50 | HUEY: 2.00 ms | 3.00 ms | 1.50 |" in shown
    assert "Drain, async" not in shown


def test_the_page_shows_what_was_kept():
    found = kept()
    for path, text in texts(found).items():
        page = path.read_text(encoding="utf-8")
        assert written(page, text) == page
    assert found.run is None or PICTURE.exists()


def test_a_bare_loop_is_measured_from_end_to_end(tmp_path):
    (adapter,) = adapters(["bare"], {}, tmp_path)
    facts = Facts("bare", ("sync", "async"), {}, ())
    with RedisServer(find_server(), aof=False, tcp=True) as server:
        found = drain.drain(adapter, facts, server, "async", 50)
        assert found["drain_async"] > 0
        # Per job: a call of the script, and what it does in it.
        assert 5 < found["commands_drain"] < 12
        assert drain.first_job(adapter, facts, server, 0)["start"] > 0
        with pytest.raises(Failed, match="has no other handlers"):
            drain.drain(adapter, facts, server, "other", 1)
        with staged(adapter, server, "async") as stage:
            worker = stage.workers.start()
            waits = latency.latency(stage, "async", 3)
            assert len(waits) == 3
            assert min(waits) > 0
            idle, sent = latency.idle(stage, [worker], 0.1)
            assert idle["worker_memory"] > 5
            assert set(sent) <= {"blpop", "evalsha"}
