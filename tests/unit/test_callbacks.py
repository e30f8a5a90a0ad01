"""The callbacks of the drop-in interfaces."""

from __future__ import annotations

from tenure.compat.emitter import Callbacks


def first() -> None: ...


def second() -> None: ...


def taken(callbacks: Callbacks) -> list[object]:
    return [one.function for one in callbacks.take("event")]


def test_a_callback_for_one_event_is_taken_once() -> None:
    callbacks = Callbacks()
    callbacks.add("event", first, once=True)
    callbacks.add("event", second)
    assert [taken(callbacks), taken(callbacks)] == [[first, second], [second]]


def test_the_latest_registration_of_a_callback_is_removed() -> None:
    callbacks = Callbacks()
    for function in (first, second, first):
        callbacks.add("event", function)
    callbacks.remove("event", first)
    callbacks.remove("other", second)
    assert taken(callbacks) == [first, second]
