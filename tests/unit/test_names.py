"""Names, ids, numbers and times: what is refused before anything is sent (bad inputs B01 to B23)."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tenure.core import limits, names
from tenure.core.errors import InvalidArgument


@pytest.mark.parametrize("name", ["images", "a", "x" * 200, "Grüße, Welt", "a:b{c}*?[d]", ".hidden", "a b", "🎈"])
def test_queue_names(name):
    assert names.queue_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "x" * 201, "a\nb", "a\0b", "\x1b[31m", "a\u2028b", "\ud800", None, b"a", 5]
)
def test_queue_names_refused(name):
    with pytest.raises(InvalidArgument, match="queue"):
        names.queue_name(name)


def test_a_refused_name_is_shown_short_and_on_one_line():
    with pytest.raises(InvalidArgument) as caught:
        names.queue_name("a\n/" + "x" * 190)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a", "shop.jobs.send", "a:b-c_d.9", "x" * 200])
def test_task_names(name):
    assert names.task_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a b", "shop.<lambda>", "f.<locals>.g", "é", "x" * 201, "a\n", "*", None])
def test_task_names_refused(name):
    with pytest.raises(InvalidArgument, match="name"):
        names.task_name(name)


@pytest.mark.parametrize("id", ["1", "x" * 255, "é" * 127, "a:{b}*", "a\n\0b", "-x", "a@b"])
def test_ids(id):
    assert names.job_id(id) == id


@pytest.mark.parametrize("id", ["", "x" * 256, "é" * 128, "@x", "\udfff", None, b"x"])
def test_ids_refused(id):
    with pytest.raises(InvalidArgument, match="id"):
        names.job_id(id)


@pytest.mark.parametrize("namespace", ["", "a{b}", "a b", "a\n", "x" * 201])
def test_namespaces_refused(namespace):
    with pytest.raises(InvalidArgument, match="namespace"):
        names.namespace(namespace)


@pytest.mark.parametrize(
    ("value", "ms"), [(1, 1_000), (0.5, 500), (timedelta(minutes=1), 60_000), (0.001, 1), (604_800, 604_800_000)]
)
def test_durations(value, ms):
    assert names.duration_ms(value, "timeout") == ms


@pytest.mark.parametrize(
    "value",
    [0, -1, 0.0004, float("nan"), float("inf"), 10**12, 10**400, 604_801, "5", None, True, timedelta(seconds=-1)],
)
def test_durations_refused(value):
    with pytest.raises(InvalidArgument, match="timeout"):
        names.duration_ms(value, "timeout")


@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True, 10_001, pytest.param(10**5000, id="huge")])
def test_counts_refused(value):
    with pytest.raises(InvalidArgument, match="retries"):
        names.count(value, "retries")


def test_due():
    assert names.due(None, None) == (0, None)
    assert names.due(0, None) == (0, None)
    assert names.due(1.5, None) == (1_500, None)
    assert names.due(timedelta(hours=1), None) == (limits.HOUR, None)
    east = timezone(timedelta(hours=2))
    assert names.due(None, datetime(1970, 1, 1, 2, 0, 1, tzinfo=east)) == (0, 1_000)


def test_due_in_the_past_is_now_and_far_ahead_is_fine():
    assert names.due(None, datetime(1900, 1, 1, tzinfo=UTC)) == (0, 1)
    assert names.due(None, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)) == (0, 253_402_300_799_000)


@pytest.mark.parametrize(
    ("delay", "run_after", "field"),
    [
        (-1, None, "delay"),
        (float("nan"), None, "delay"),
        (11 * 365 * 86_400, None, "delay"),
        ("5", None, "delay"),
        (None, datetime(2030, 1, 1), "time zone"),
        (None, 5, "run_after"),
        (None, "tomorrow", "run_after"),
        (5, datetime(2030, 1, 1, tzinfo=UTC), "both"),
    ],
)
def test_due_refused(delay, run_after, field):
    with pytest.raises(InvalidArgument, match=field):
        names.due(delay, run_after)
