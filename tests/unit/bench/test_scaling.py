"""The replay of autoscaling rules: the page has its figures, and Tenure's rule keeps the target where others do not."""

from __future__ import annotations

import pytest

from bench.scaling import RULES, SLOTS, Afterwards, Replay, Trace, replay
from bench.scaling_page import PAGE, PICTURE, Row, picture, rows, table, written


@pytest.fixture(scope="module")
def replayed() -> list[Row]:
    return rows()


@pytest.fixture(scope="module")
def found(replayed: list[Row]) -> dict[str, dict[str, Replay]]:
    return {trace.name: {rule.title: run for rule, run in replays} for trace, replays in replayed}


def test_the_page_and_the_picture_are_what_the_replay_gives(replayed):
    now = replayed
    assert written(PAGE.read_text(), table(now)) == PAGE.read_text(), "run `python -m bench.scaling_page`"
    assert PICTURE.read_text() == picture(now)


def test_the_rule_keeps_the_target_but_for_the_start_of_workers(found):
    late = {name: runs["Tenure"].late for name, runs in found.items()}
    assert late["burst"] <= 3 * 25
    assert all(seconds <= 5 for name, seconds in late.items() if name != "burst")
    assert all(runs["Tenure"].late <= run.late for runs in found.values() for run in runs.values() if run.late)


def test_jobs_that_may_not_run_start_no_worker(found):
    assert max(found["poison"]["Tenure"].workers) <= 3
    assert max(found["poison"]["length (KEDA redis)"].workers) > 10


def test_the_fleet_is_calm(found):
    wave = found["daily wave"]
    assert 10 * wave["Tenure"].changes < wave["length (KEDA redis)"].changes
    assert wave["Tenure"].hours < 1.2 * wave["known afterwards"].hours


@pytest.mark.parametrize("make", RULES, ids=lambda make: make.__name__)
def test_every_job_runs_once(make):
    trace = Trace("some", "", (30,) * 60 + (0,) * 600)
    run = replay(trace, make())
    assert run.waiting[-1] == 0
    assert run.hours * 3_600 * SLOTS >= 30 * 60 * 2


def test_what_is_known_afterwards_is_never_late(found):
    assert [runs[Afterwards.title].late for runs in found.values()] == [0] * 5
