"""FastAPI: connections for the life of the app, a result by long poll, and by server-sent events."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

import httpx2
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.responses import StreamingResponse

from tenure import AccessDenied, Fail, InvalidArgument, JobHandle, Tenure, progress
from tenure.core.job import JobView, State
from tenure.integrations.fastapi import JobStatus, _stream, events, lifespan, status
from tenure.testing.server import RedisServer
from tests.support.serving import served
from tests.support.waiting import until


@dataclass
class Shop:
    """A web app and its tasks. `show` gets each text that a job waits at until `go` is set."""

    app: Tenure
    web: FastAPI
    go: threading.Event

    def enqueue(self, name: str = "cat", fails: bool = False) -> JobHandle[Any]:
        return self.app.tasks["thumbnail"].enqueue(name, fails)


@pytest.fixture
def shop(redis_url: str) -> Iterator[Shop]:
    with Tenure(redis_url, namespace="shop") as app:
        web, go = FastAPI(lifespan=lifespan(app)), threading.Event()

        @app.task(name="thumbnail", queue="images")
        def thumbnail(name: str, fails: bool) -> dict[str, int]:
            progress(1, 4, name)
            assert go.wait(60)
            if fails:
                raise Fail("s3cret")
            return {name: 128}

        @web.post("/thumbnails", status_code=202)
        async def create(name: str) -> dict[str, str]:
            return {"id": (await thumbnail.aenqueue(name, False)).id}

        @web.get("/thumbnails/{id}")
        async def read(id: str, wait: float = 0) -> JobStatus:
            return await status(thumbnail.job(id), wait=wait)

        @web.get("/thumbnails/{id}/events")
        async def follow(id: str, timeout: float = 60) -> StreamingResponse:
            return await events(thumbnail.job(id), timeout)

        yield Shop(app, web, go)
        go.set()


def ready(id: str) -> dict[str, Any]:
    return {"id": id, "state": "ready", "ended": False, "progress": None, "result": None, "error": None}


def test_a_request_enqueues_and_a_client_asks_for_the_result(shop: Shop) -> None:
    shop.go.set()
    with TestClient(shop.web) as client:
        id = client.post("/thumbnails", params={"name": "cat"}).json()["id"]
        assert client.get(f"/thumbnails/{id}").json() == ready(id)
        assert client.get(f"/thumbnails/{id}?wait=0.1").json() == ready(id)
        shop.app.testing().drain()
        found = client.get(f"/thumbnails/{id}?wait=60").json()
        assert found == ready(id) | {"state": "completed", "ended": True, "result": {"cat": 128}}


def test_the_type_of_an_error_is_shown_and_not_its_text(shop: Shop) -> None:
    shop.go.set()
    job = shop.enqueue(fails=True)
    shop.app.testing().drain(raises=False)
    with TestClient(shop.web) as client:
        found = client.get(f"/thumbnails/{job.id}")
        assert (found.json()["state"], found.json()["error"]) == ("failed", "Fail")
        assert "s3cret" not in found.text + client.get(f"/thumbnails/{job.id}/events").text


def test_an_unknown_job_and_a_wrong_wait(shop: Shop) -> None:
    job = shop.enqueue()
    with TestClient(shop.web) as client:
        for path in ("none", "none/events", "x" * 300, "%00", f"{job.id}x/events"):
            found = client.get(f"/thumbnails/{path}")
            assert (found.status_code, found.json()["detail"][:21]) == (404, "There is no such job,")
        assert "must be" in client.get(f"/thumbnails/{job.id}?wait=-1").json()["detail"]
        for wait in ("-1", "nan", "x"):
            assert client.get(f"/thumbnails/{job.id}?wait={wait}").status_code == 422
            assert client.get(f"/thumbnails/{job.id}/events?timeout={wait}").status_code == 422


def test_while_redis_is_away_a_request_is_refused_and_a_stream_ends(make_server: Callable[..., RedisServer]) -> None:
    server = make_server()
    with Tenure(server.url, patience=0.1) as app:
        shop_of = app.task(name="thumbnail", queue="images")(lambda: None)
        web = FastAPI()

        @web.get("/{id}")
        async def read(id: str) -> JobStatus:
            return await status(shop_of.job(id))

        @web.get("/{id}/events")
        async def follow(id: str) -> StreamingResponse:
            return await events(shop_of.job(id))

        job = shop_of.enqueue()
        with served(web, lifespan="off") as port:
            url = f"http://127.0.0.1:{port}/{job.id}"
            with httpx2.stream("GET", f"{url}/events", timeout=60) as response:
                lines = response.iter_lines()
                assert next(lines).startswith("data: ")
                server.stop()
                assert not any(line.startswith("event: end") for line in lines), "it ends, and is not cut off"
            assert httpx2.get(url, timeout=60).status_code == 503
            assert httpx2.get(f"{url}/events", timeout=60).status_code == 503


def test_a_long_poll_returns_when_the_job_ends(shop: Shop, server: RedisServer) -> None:
    found: list[Any] = []
    with served(shop.web, lifespan="on") as port:
        job = shop.enqueue()
        url = f"http://127.0.0.1:{port}/thumbnails/{job.id}?wait=30"
        poll = threading.Thread(target=lambda: found.append(httpx2.get(url, timeout=60).json()))
        poll.start()
        until(lambda: server.command("PUBSUB", "CHANNELS", "*"))
        shop.go.set()
        shop.app.testing().drain()
        poll.join(60)
    assert [(one["state"], one["result"]) for one in found] == [("completed", {"cat": 128})]


def test_events_tell_of_the_progress_and_of_the_end(shop: Shop) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def read(url: str) -> None:
        name = "message"
        with httpx2.stream("GET", url, timeout=60) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for line in response.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    seen.append((name, json.loads(line.removeprefix("data: "))))
                    if seen[-1][1]["progress"]:
                        shop.go.set()

    with served(shop.web, lifespan="on") as port:
        job = shop.enqueue()
        reader = threading.Thread(target=read, args=(f"http://127.0.0.1:{port}/thumbnails/{job.id}/events",))
        reader.start()
        until(lambda: seen)
        shop.app.testing().drain()
        reader.join(60)
    assert seen[0] == ("message", ready(job.id))
    reported = [one["progress"] for name, one in seen if name == "message" and one["progress"]]
    assert reported[-1].pop("at_ms")
    assert reported[-1] == {"current": 1, "total": 4, "text": "cat"}
    assert [name for name, _ in seen].index("end") == len(seen) - 1
    assert seen[-1][1] == ready(job.id) | {"state": "completed", "ended": True, "result": {"cat": 128}}


def test_a_stream_ends_after_its_time_and_with_its_client(shop: Shop, server: RedisServer) -> None:
    job = shop.enqueue()
    with served(shop.web, lifespan="on") as port:
        url = f"http://127.0.0.1:{port}/thumbnails/{job.id}/events"
        assert "event: end" not in httpx2.get(f"{url}?timeout=0.2", timeout=60).text
        with httpx2.stream("GET", url, timeout=60) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("data: ")
            until(lambda: server.command("PUBSUB", "CHANNELS", "*"))
        until(lambda: not server.command("PUBSUB", "CHANNELS", "*"))


async def test_a_pause_is_a_comment_and_loses_nothing() -> None:
    closed = asyncio.Event()
    more: asyncio.Queue[JobView] = asyncio.Queue()

    async def views() -> AsyncIterator[JobView]:
        try:
            while True:
                yield await more.get()
        finally:
            closed.set()

    stream = _stream(views(), pause_s=0.01)
    assert await anext(stream) == await anext(stream) == b": nothing has changed\n\n"
    more.put_nowait(JobView(id="1", queue="images", state=State.ACTIVE))
    while (event := await anext(stream)).startswith(b":"):
        pass
    assert json.loads(event.removeprefix(b"data: "))["state"] == "active"
    await stream.aclose()
    assert closed.is_set()


def connections(server: RedisServer) -> int:
    return str(server.command("CLIENT", "LIST")).count("addr=")


def test_the_connection_is_there_from_the_start_to_the_end(shop: Shop, server: RedisServer) -> None:
    before = connections(server)
    with TestClient(shop.web):
        assert connections(server) > before
    until(lambda: connections(server) == before)


def test_the_web_app_starts_without_redis(shop: Shop) -> None:
    app = Tenure("redis://127.0.0.1:1/0", patience=0.1)
    with TestClient(FastAPI(lifespan=lifespan(app))) as client:
        assert client.get("/").status_code == 404


def test_wrong_settings_end_the_start(make_server: Callable[..., RedisServer]) -> None:
    server = make_server(args=["--requirepass", "right"], password="right")
    wrong = Tenure(server.url.replace("right", "wrong"))
    with pytest.raises(AccessDenied), TestClient(FastAPI(lifespan=lifespan(wrong))):
        pass
    with pytest.raises(InvalidArgument, match="app must be a Tenure, got FastAPI"):
        lifespan(FastAPI())  # type: ignore[arg-type]
