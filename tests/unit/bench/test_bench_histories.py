"""The judge of histories: handwritten ones, valid and invalid."""

from bench.histories_table import BEGIN, END, FAULTS, NAMES, PAGE, Row, line, load, merge, written
from bench.history import Verdict, judge
from bench.journal import Line, parse


def history(*words: str) -> list[Line]:
    return parse("".join(f"{word}\n" for word in words))


def test_a_job_of_a_killed_worker_runs_again_and_ends_once():
    lines = history("start a w1 1", "start b w2 1.5", "end b w2 2", "start a w2 5", "end a w2 6")
    found = judge(lines, ["a", "b"], [], [], {"w1": 2.0})
    assert found == Verdict(2, 0, 0, 0, again=1, doubled=0, overlapped=0, back_s=3.0, silent_s=3.0)


def test_a_promised_job_without_an_end_is_lost_unless_redis_has_it():
    found = judge(history("start a w1 1"), ["a", "b", "c"], ["d"], ["b"], {"w1": 2.0})
    assert (found.put, found.unknown, found.lost, found.waiting, found.back_s) == (3, 1, 2, 1, None)


def test_two_ends_are_doubled_also_of_a_job_without_a_promise():
    lines = history("start a w1 1", "end a w1 2", "start a w2 3", "end a w2 4")
    found = judge(lines, [], ["a"], [], {})
    assert (found.again, found.doubled, found.overlapped) == (1, 1, 0)


def test_a_run_beside_one_of_a_healthy_worker_overlaps():
    lines = history("start a w1 1", "start a w2 2", "end a w1 3", "end a w2 4")
    assert judge(lines, ["a"], [], [], {}).overlapped == 1
    assert judge(lines, ["a"], [], [], {}, stopped=["w1"]).overlapped == 0


def test_an_end_before_the_kill_is_no_recovery():
    lines = history("start a w1 1", "end a w1 2", "start a w2 9", "end a w2 10")
    assert judge(lines, ["a"], [], [], {"w1": 3.0}).back_s is None


def row(name: str, fault: str, lost: int = 0) -> Row:
    verdict = Verdict(1_000, 0, lost, 0, 3, 0, 0, 2.5, 1.0)
    return Row(name, fault, 1, 6, 180.0, "2026-11-28", verdict, name.title(), {name: "1.0"}, "defaults")


def test_rows_are_replaced_and_stand_in_order():
    rows = merge(merge(merge([], row("rq", "kill")), row("tenure", "kill", 5)), row("tenure", "kill"))
    assert [(one.name, one.verdict.lost) for one in rows] == [("tenure", 0), ("rq", 0)]
    page = written(f"Before.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n", rows)
    assert page.startswith("Before.")
    assert page.endswith("After.\n")
    assert "old" not in page
    assert line(rows[0]) == "| Tenure 1.0 | 6 | 1,000 | 0 | 0 | 3 | 0 | 0 | 2.5 s |"


def test_the_page_has_what_was_kept():
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, load()) == page
    assert {one.fault for one in load()} <= FAULTS.keys()
    assert {one.name for one in load()} <= set(NAMES)
