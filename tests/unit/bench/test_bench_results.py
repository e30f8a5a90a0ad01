"""What a run found: how it is kept, and how it becomes ratios."""

import pytest

from bench.speed.measures import BY_NAME, MEASURES
from bench.speed.picture import panels
from bench.speed.results import Described, Machine, Missing, Run, Sample, load, percentile, save, this_machine
from bench.speed.rounds import PARTS
from bench.speed.tables import absent, best_peer, number, rows, settings, summary, table, times, user_table

MACHINE = Machine(2, 8, "Linux", "3.11", "7.0", "2026-01-02", (0.5, 1.0))


def described(*names):
    return tuple(Described(name, name.upper(), {name: "1.0"}, "as it says") for name in names)


def samples(measure, **values):
    return tuple(Sample(peer, measure, at, value) for peer, all in values.items() for at, value in enumerate(all, 1))


def a_run(*found, missing=(), peers=("tenure", "bare", "batch", "rq", "huey", "wire")):
    return Run(MACHINE, 3, 2.0, described(*peers), sum(found, ()), tuple(missing))


DRAIN = samples("drain_sync", tenure=[80, 100, 900], bare=[50], batch=[400], rq=[5], huey=[10, 20, 30], wire=[60])
LATENCY = samples("latency_p50", tenure=[2.0], bare=[1.0], rq=[8.0], huey=[4.0])
RUN = a_run(DRAIN, LATENCY, missing=[Missing("batch", "latency_p50", "is no queue")])


def test_a_figure_is_the_median_of_its_rounds():
    assert RUN.median("tenure", "drain_sync") == 100
    assert RUN.median("huey", "drain_sync") == 20
    assert RUN.median("tenure", "memory_job") is None


def best(run, measure):
    found = best_peer(run, BY_NAME[measure])
    return found.name if found else None


def test_the_best_peer_is_neither_ours_nor_a_loop_and_best_may_mean_least():
    assert best(RUN, "drain_sync") == "huey"
    assert best(RUN, "latency_p50") == "huey"
    assert best(RUN, "memory_job") is None


def test_every_row_has_its_ratios_and_the_best_comes_first():
    found = rows(RUN, BY_NAME["drain_sync"])
    assert [row.peer.name for row in found] == ["batch", "tenure", "wire", "bare", "huey", "rq"]
    ours = found[1]
    assert (ours.bare, ours.best, ours.lowest, ours.highest) == (2.0, 5.0, 80, 900)
    assert [row.peer.name for row in rows(RUN, BY_NAME["latency_p50"])][:3] == ["bare", "tenure", "huey"]


def test_a_figure_that_is_missing_is_shown_with_its_reason():
    shown = table(RUN, BY_NAME["latency_p50"])
    assert "| BATCH | - | - | - | is no queue |" in shown
    assert "| **WIRE** | - | - | - | was not measured in this run |" in shown
    assert "| **TENURE** | 2.00 | 0.50 | 2.00 | 2.00 to 2.00 |" in shown


def test_many_at_once_is_compared_with_the_loop_that_does_many():
    run = a_run(samples("enqueue_many", tenure=[30], batch=[60], rq=[10]))
    assert "to the bare loop, 100 a call" in table(run, BY_NAME["enqueue_many"])
    assert rows(run, BY_NAME["enqueue_many"])[1].bare == 0.5


def test_only_what_somebody_measured_has_a_table():
    assert "Drain, sync" in summary(RUN)
    assert "memory" not in summary(RUN).lower()


def test_who_is_not_in_the_run_is_named():
    run = a_run(DRAIN, missing=[Missing("bullmq", MEASURES[0].name, "Node is not here")])
    assert absent(run, ["rq", "bullmq"]) == {"bullmq": "Node is not here"}
    assert "| RQ | rq 1.0 | as it says |" in settings(run)


def test_the_picture_shows_more_as_better():
    drain, latency = panels(RUN)
    assert {point.title: point.ratio for point in drain.points}["HUEY"] == 0.2
    assert {point.title: (point.ratio, point.group) for point in latency.points}["HUEY"] == (0.5, "peer")
    assert {point.title: point.group for point in latency.points}["BARE"] == "loop"


def test_the_table_of_a_user_has_one_ratio_and_names_those_without_a_figure_once():
    shown = user_table(RUN, BY_NAME["latency_p50"]).splitlines()
    assert shown[2:6] == [
        "| BARE | 0.50 | 1.00 | 1.00 to 1.00 |",
        "| **TENURE** | 1.00 | 2.00 | 2.00 to 2.00 |",
        "| HUEY | 2.00 | 4.00 | 4.00 to 4.00 |",
        "| RQ | 4.00 | 8.00 | 8.00 to 8.00 |",
    ]
    assert shown[-1] == "Without a figure: BATCH (is no queue); WIRE (was not measured in this run)."
    assert "| HUEY | 5.00 | 20 | 10 to 30 |" in user_table(RUN, BY_NAME["drain_sync"])


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.0123, "0.01"), (1.5, "1.50"), (12.34, "12.3"), (123.4, "123")]
)
def test_a_ratio_has_the_digits_it_deserves(value, text):
    assert times(value) == text


def test_a_number_has_the_digits_of_its_measure():
    assert number(12345.678, 0) == "12,346"
    assert number(1.005, 1) == "1.0"


def test_a_percentile_is_one_of_the_values():
    values = list(range(1, 101))
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([2, 1], 0.5) == 1


def test_a_run_is_kept_as_it_is(tmp_path):
    save("run", RUN, tmp_path / "results")
    assert load("run", Run, tmp_path / "results") == RUN
    assert load("none", Run, tmp_path) is None


def test_every_measure_is_somebodys_and_has_a_name_of_its_own():
    given = [measure for part in PARTS for measure in part.measures]
    assert sorted(given) == sorted(BY_NAME)
    assert len(BY_NAME) == len(MEASURES)


def test_a_machine_is_described_by_its_class():
    machine = this_machine("7.0", (1.26, 2.0))
    assert machine.cores >= 1
    assert machine.load == (1.3, 2.0)
    assert "/" not in machine.system
