"""Values that cannot even be shown are refused with the same errors as others, on one short line."""

import pytest

from tenure import Debounce, InvalidArgument, Tenure, Unique
from tenure.core import names


class Own:
    def __repr__(self):
        raise RuntimeError("it cannot be shown")

    __str__ = __repr__


class Lines:
    def __repr__(self):
        return "two\nlines"


HOSTILE = [Own(), Lines(), [10**5_000], "x\n" * 100_000, 10**5_000]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__[:10])
@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("retries", lambda app, value: app.queue("q").enqueue(b"", retries=value)),
        ("priority", lambda app, value: app.queue("q").enqueue(b"", priority=value)),
        ("durable", lambda app, value: app.queue("q").enqueue(b"", durable=value)),
        ("on_conflict", lambda app, value: Unique(on_conflict=value)),
        ("until", lambda app, value: Unique(until=value)),
        ("seconds", lambda app, value: Debounce(value)),
        ("state", lambda app, value: app.inspect.lanes("q", value)),
        ("lane_failure", lambda app, value: app.control.configure("q", lane_failure=value)),
        ("max_length", lambda app, value: app.control.configure("q", max_length=value)),
        ("limit", lambda app, value: app.inspect.page("q", "ready", limit=value)),
        ("task name", lambda app, value: app.task(name=value)),
        ("reason", lambda app, value: app.control.cancel("q", "id", ["a list", value])),
    ],
)
def test_it_is_refused_like_any_other(field, act, value):
    with Tenure("redis://127.0.0.1:1") as app, pytest.raises(InvalidArgument, match=field) as caught:
        act(app, value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_how_a_value_is_shown():
    assert [names.shown(value) for value in ("a\nb", 1.5, Own(), Lines(), [10**5_000], 10**5_000, "x" * 100)] == [
        r"'a\nb'",
        "1.5",
        "a Own",
        "a Lines",
        "a list",
        "a huge number",
        "'" + "x" * 56 + "...",
    ]
