"""FastAPI and Starlette: connections for the life of the app, a result by long poll, and by server-sent events.

    web = FastAPI(lifespan=lifespan(shop.app))

    @web.get("/thumbnails/{id}")
    async def read(id: str, wait: float = 0) -> JobStatus:
        return await status(shop.thumbnail.job(id), wait=wait)

    @web.get("/thumbnails/{id}/events")
    async def follow(id: str) -> StreamingResponse:
        return await events(shop.thumbnail.job(id))

Needs `pip install 'tenure[fastapi]'`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from tenure.app.app import Tenure
from tenure.client.handle import JobHandle
from tenure.core.encoding.codec import decode_json, note_of
from tenure.core.errors import InvalidArgument, ResultTimeout, Unreachable, invalid
from tenure.core.job import JobView, State
from tenure.core.shape import Progress
from tenure.core.steps import Command, Steps

WAIT_MAX_S: Final = 30.0
"""The longest wait of `status`: proxies end requests that take longer, most after a minute."""
STREAM_S: Final = 300.0
"""How long `events` sends events by default. A browser connects again by itself."""
COMMENT_S: Final = 15.0
"""A stream without changes sends a comment this often: proxies end silent connections."""
OPEN_S: Final = 2.0
"""How long a start waits for Redis."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What a client sees of a job. `ended`: nothing will change any more. `error`: the type of the error, not its text.

    `result` is plain data, and None unless the job has completed.
    """

    id: str
    state: str
    ended: bool
    progress: Progress | None = None
    result: Any = None
    error: str | None = None


def lifespan(app: Tenure) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Return a lifespan that opens the connection to Redis at the start, and closes all connections at the end.

        web = FastAPI(lifespan=lifespan(shop.app))

    In a lifespan of your own: `async with lifespan(shop.app)(web): ...`. If Redis is away, the start waits for up
    to 2 s, and calls connect later. Raises `AccessDenied` and `NotConfigured`: with wrong settings there is no start.
    """
    if not isinstance(app, Tenure):
        raise invalid("app", "a Tenure", type(app).__name__, "The web app comes later, as an argument.")

    @asynccontextmanager
    async def opened(_: object) -> AsyncIterator[None]:
        async with app:
            with suppress(TimeoutError, Unreachable):
                async with asyncio.timeout(OPEN_S):
                    await app._client.arun(_ping())
            yield

    return opened


async def status(job: JobHandle[Any], wait: float = 0) -> JobStatus:
    """Return the status of a job as soon as the job has ended, or after `wait` seconds, 30 at most: a long poll.

        return await status(shop.thumbnail.job(id), wait=wait)

    Raises `HTTPException`: 404 for an unknown job, 422 for a `wait` that is not a number from 0, 503 while
    Redis is away.
    """
    views = _views(job, min(wait, WAIT_MAX_S))
    view: JobView | None = None
    with suppress(ResultTimeout), _answered():
        async for view in views:  # noqa: B007 - the last view counts
            pass
    if view is None:
        raise _unknown()
    return _status(view)


async def events(job: JobHandle[Any], timeout: float = STREAM_S) -> StreamingResponse:  # noqa: ASYNC109
    """Return a stream of server-sent events: the status now, and after each change of state or progress.

        return await events(shop.thumbnail.job(id))

    Each `data` is a `JobStatus` as JSON. The event of an ended job is named `end` and is the last one; the others are
    `message`. After `timeout` seconds the stream ends without it, and a browser connects again. Raises `HTTPException`:
    404 for an unknown job, 422 for a `timeout` that is not a number from 0, 503 while Redis is away.
    """
    views = _views(job, timeout)
    with _answered():
        if await job.astate() is None:
            raise _unknown()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second: for nginx
    return StreamingResponse(_stream(views), media_type="text/event-stream", headers=headers)


@contextmanager
def _answered() -> Iterator[None]:
    """Let a request fail with 503 while Redis is away."""
    try:
        yield
    except Unreachable:
        raise HTTPException(503, "Redis does not respond.") from None


def _views(job: JobHandle[Any], seconds: float) -> Any:
    try:
        return job.awatch(seconds)
    except InvalidArgument as error:
        raise HTTPException(422, str(error)) from None


async def _stream(views: Any, pause_s: float = COMMENT_S) -> AsyncGenerator[bytes]:
    """Yield an event for each view, and a comment in a pause. The pause does not cancel the wait for the next view."""
    following: asyncio.Future[JobView | None] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(views, None))
            done, _ = await asyncio.wait((following,), timeout=pause_s)
            if not done:
                yield b": nothing has changed\n\n"
            elif view := following.result():
                following = None
                yield _event(view)
            else:
                return
    except (ResultTimeout, Unreachable):
        return  # the browser connects again
    finally:
        if following is not None:
            following.cancel()
            await asyncio.wait((following,))
        await views.aclose()


def _event(view: JobView) -> bytes:
    name = b"event: end\n" if view.state.ended else b""
    return b"%bdata: %b\n\n" % (name, msgspec.json.encode(_status(view)))


def _status(view: JobView) -> JobStatus:
    error, result = view.error, None
    if view.state is State.COMPLETED and view.result is not None:
        result = decode_json(view.result)
    is_stored = note_of(result) is None
    failed = error.type if error and view.state.ended and view.state is not State.COMPLETED else None
    return JobStatus(
        id=view.id,
        state=view.state.value,
        ended=view.state.ended,
        progress=view.progress,
        result=result if is_stored else None,
        error=failed if is_stored else "ResultError",
    )


def _unknown() -> HTTPException:
    return HTTPException(404, "There is no such job, or its record has expired.")


def _ping() -> Steps[None]:
    yield Command(("PING",))
