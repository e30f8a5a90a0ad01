"""The stream of changes, and Redis that goes away and returns."""

from __future__ import annotations

import json
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from threading import Event, Thread

import pytest

from tenure import Tenure
from tenure.web import dashboard, live
from tests.support.waiting import until
from tests.web.conftest import Browser, Serve


@contextmanager
def events(browser: Browser) -> Iterator[HTTPResponse]:
    connection = HTTPConnection("127.0.0.1", browser.port, timeout=30)
    connection.request("GET", "/api/v1/events")
    response = connection.getresponse()
    assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
    try:
        yield response
    finally:
        connection.close()


def names(response: HTTPResponse, wanted: str) -> set[str]:
    """Read events up to one with this name, and return the names of all."""
    found: set[str] = set()
    while wanted not in found:
        line = response.readline().decode()
        assert line, "the stream has ended"
        if line.startswith("data: "):
            found |= set(json.loads(line.removeprefix("data: ")))
    return found


def test_a_change_is_told_by_its_name(app: Tenure, browser: Browser) -> None:
    app.queue("q").enqueue(b"x")
    with events(browser) as stream:
        stream.readline()
        seen = Event()

        def enqueue() -> None:  # after each look of the reader there is a change
            while not seen.wait(0.2):
                app.queue("q").enqueue(b"x")

        thread = Thread(target=enqueue)
        thread.start()
        try:
            assert "queue:q" in names(stream, "queue:q")
        finally:
            seen.set()
            thread.join()


def test_an_action_is_told_at_once(app: Tenure, browser: Browser) -> None:
    with events(browser) as stream:
        stream.readline()
        browser.post("pause", {"queue": "q"})
        assert "tick" in names(stream, "tick")


def test_the_reader_stops_when_nobody_looks(app: Tenure, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[live.Live] = []
    real = live.Live.__init__

    def noting(self: live.Live, *args: object) -> None:
        real(self, *args)  # type: ignore[arg-type]
        made.append(self)

    monkeypatch.setattr(live.Live, "__init__", noting)
    monkeypatch.setattr(live, "COMMENT_S", 0.05)
    browser = serve(dashboard(app))
    with events(browser) as stream:
        stream.readline()
        until(lambda: made[0]._reader is not None)
    until(lambda: made[0]._reader is not None and made[0]._reader.done())
    assert not made[0]._viewers


def test_viewers_are_bounded(app: Tenure, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "VIEWERS_MAX", 1)
    with events(browser) as stream:
        stream.readline()
        assert browser.page("api/v1/events").status == 503


async def test_the_reader_waits_until_all_calls_are_five_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted:
        spent = 0

        async def overview(self) -> dict[str, list[object]]:
            self.spent += 10
            return {"queues": [], "workers": []}

    reads, pauses = Counted(), list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        reads.spent += 40 * len(pauses) ** 2  # by pages that are read during the pause
        if len(pauses) == 4:
            raise CancelledError

    monkeypatch.setattr("tenure.web.live.asyncio.sleep", sleep)
    with pytest.raises(CancelledError):
        await live.Live(reads)._read()  # type: ignore[arg-type]
    assert pauses == [2.0, 10.0, 34.0, 45.0]
