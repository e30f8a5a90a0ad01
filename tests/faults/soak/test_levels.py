"""The judge of levels, and the lines that it reads."""

from __future__ import annotations

from tests.faults.soak.levels import HOUR_S, LEVELS, Level, Lines, rises, verdict

LEVEL = Level("keys", "keys", most=5, noise=20)


def hours(values):
    """One value for each sample of eight hours."""
    return [(n * 8 * HOUR_S / len(values), value) for n, value in enumerate(values)]


def test_a_level_that_rises_slowly_is_noticed_through_waves_and_peaks():
    waves = [100 + 30 * (n % 7) + 5_000 * (n % 50 == 0) for n in range(1_000)]
    assert not rises(LEVEL, hours(waves))
    assert rises(LEVEL, hours([value + n / 10 for n, value in enumerate(waves)]))  # by 12.5 an hour
    assert verdict(LEVEL, hours(waves)).startswith("level  keys: 190.0 in the first half")


def test_a_rise_in_the_first_half_and_a_fall_do_not_count():
    assert not rises(LEVEL, hours([min(n, 500) for n in range(1_000)]))
    assert not rises(LEVEL, hours([1_000 - n for n in range(1_000)]))


def test_a_short_run_may_rise_by_its_noise():
    short = [(0.01 * at, value) for at, value in hours([100 + n % 9 + n / 100 for n in range(1_000)])]
    assert not rises(LEVEL, short)


def test_a_level_that_was_never_measured_is_not_good():
    assert all(rises(level, []) and verdict(level, []).startswith("RISES") for level in LEVELS)


def test_lines_are_sampled_at_their_times_and_drawn(tmp_path):
    values = iter([1.0, None, 3.0])
    lines = Lines(tmp_path / "levels.csv", {"a": lambda: next(values), "b": lambda: 7.0}, every_s=10)
    for at_s in (0, 5, 10, 15, 21):
        lines.sample(at_s)
    rows = (tmp_path / "levels.csv").read_text().splitlines()
    assert rows == ["seconds,a,b", "0.0,1.0,7.0", "10.0,,7.0", "21.0,3.0,7.0"]
    assert lines.line("a") == [(0, 1.0), (21, 3.0)]
    assert lines.picture().count("<polyline") == 2
