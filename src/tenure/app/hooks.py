"""What the user's code adds to an app: listeners, middleware, and what is there as long as a worker process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, overload

from tenure.app.policy import checked_kinds, not_async, room_for, takes
from tenure.client.outgoing import EnqueueMiddleware

if TYPE_CHECKING:
    from tenure.core.events import Event, Listener
    from tenure.runtime.handlers.middleware import AsyncMiddleware, Middleware, SyncMiddleware
    from tenure.runtime.lifespan import Lifespan

MAX_LISTENERS: Final = 100
MAX_MIDDLEWARE: Final = 50
MAX_LIFESPAN: Final = 50

R = TypeVar("R")
E = TypeVar("E", bound="Event")
E2 = TypeVar("E2", bound="Event")
BeforeEnqueue = TypeVar("BeforeEnqueue", bound=EnqueueMiddleware)
AsyncLayer = TypeVar("AsyncLayer", bound="AsyncMiddleware")
SyncLayer = TypeVar("SyncLayer", bound="SyncMiddleware")
Step = TypeVar("Step", bound=Callable[[], Any])
LifespanFunction: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any] | AbstractContextManager[Any]]


class WithHooks:
    """The part of an app that keeps the functions which workers and enqueues call besides handlers.

    `state`: a namespace for what the lifespan makes, such as a pool of connections. Each process has its own.
    """

    def __init__(self, lifespan: LifespanFunction | None) -> None:
        self.state: Any = SimpleNamespace()
        self._lifespan = None if lifespan is None else takes(lifespan, "lifespan", "the app")
        self._startup: list[Callable[[], Any]] = []
        self._shutdown: list[Callable[[], Any]] = []
        self._listeners: list[Listener] = []
        self._middleware: list[Middleware] = []
        self._enqueue_middleware: list[EnqueueMiddleware] = []

    @overload
    def on(self, kind: type[E], /) -> Callable[[Callable[[E], R]], Callable[[E], R]]: ...
    @overload
    def on(self, kind: type[E], other: type[E2], /) -> Callable[[Callable[[E | E2], R]], Callable[[E | E2], R]]: ...
    @overload
    def on(self, *kinds: type[Event]) -> Callable[[Callable[[Any], R]], Callable[[Any], R]]: ...
    def on(self, *kinds: type[Event]) -> Any:
        """Call a function or an async function with every event of these kinds, in this app's workers.

            @app.on(events.Failed, events.Broken)
            async def page_me(event: events.Failed | events.Broken) -> None:
                await page(f"job {event.id} of {event.queue}: {event.error_type}")

        It is called on the worker's event loop, where jobs run: a function that is not async must be quick. Its errors
        are logged, once for each kind of error. Up to 10,000 events wait for it; further ones are dropped. Register it
        before the worker starts. Raises `InvalidArgument`.
        """
        checked_kinds(kinds)
        from tenure.core.events import Listener

        def register(function: Callable[[Any], R]) -> Callable[[Any], R]:
            listener = Listener(kinds, takes(function, "@app.on", "the event"))
            room_for(self._listeners, MAX_LISTENERS, "listeners").append(listener)
            return function

        return register

    @overload
    def middleware(self, function: AsyncLayer, /) -> AsyncLayer: ...
    @overload
    def middleware(self, function: SyncLayer, /) -> SyncLayer: ...
    def middleware(self, function: Any, /) -> Any:
        """Wrap a function around every handler that this app's workers call. The first middleware is the outermost.

            @app.middleware
            async def timed(jobs: Sequence[Job], call_next: CallNext) -> object:
                began = time.perf_counter()
                try:
                    return await call_next()
                finally:
                    print(jobs[0].queue, time.perf_counter() - began)

        `jobs`: the job of the call, or the jobs of its batch. Its return value is the handler's result; its error is
        the handler's error. Async middleware runs on the event loop, around every handler; other middleware runs in the
        handler's thread, around handlers that are not async. The handler sees the context variables that it sets.
        Register it before the worker starts. Raises `InvalidArgument`.
        """
        layer = takes(function, "@app.middleware", "the jobs", "the next call")
        room_for(self._middleware, MAX_MIDDLEWARE, "functions of middleware").append(layer)
        return function

    def enqueue_middleware(self, function: BeforeEnqueue, /) -> BeforeEnqueue:
        """Call a function with each job that this app is about to enqueue. It may set the job's headers.

            @app.enqueue_middleware
            def pass_tenant(job: Outgoing) -> None:
                job.headers.setdefault("tenant", tenant.get())

        Called once for each job, in the order of registration, also for async methods: it is not async, and does no
        I/O. Its error is raised to the caller, and nothing is enqueued. Raises `InvalidArgument`.
        """
        what = "@app.enqueue_middleware"
        layer = not_async(takes(function, what, "the job"), what)
        room_for(self._enqueue_middleware, MAX_MIDDLEWARE, "functions of enqueue middleware").append(layer)
        return function

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners registered with `on`."""
        return tuple(self._listeners)

    @property
    def layers(self) -> tuple[Middleware, ...]:
        """The middleware registered with `middleware`, the outermost first."""
        return tuple(self._middleware)

    def on_startup(self, function: Step, /) -> Step:
        """Call a function or an async function in each worker process, before its first job.

            @app.on_startup
            async def connect() -> None:
                app.state.db = await make_pool()

        A short form of `Tenure(lifespan=...)`, and called after its start. Also in each job process
        (`run_in="process"`), on the event loop of the handlers. If it raises, the worker ends with the reason. Raises
        `InvalidArgument`.
        """
        room_for(self._startup, MAX_LIFESPAN, "functions of on_startup").append(takes(function, "@app.on_startup"))
        return function

    def on_shutdown(self, function: Step, /) -> Step:
        """Call a function or an async function in each worker process, after its last job.

            @app.on_shutdown
            async def disconnect() -> None:
                await app.state.db.close()

        Not after a hard stop, nor if the process is killed. Its error is logged. Raises `InvalidArgument`.
        """
        room_for(self._shutdown, MAX_LIFESPAN, "functions of on_shutdown").append(takes(function, "@app.on_shutdown"))
        return function

    def lifespan(self) -> Lifespan:
        """Return what begins and ends with a worker process; each call is for one process."""
        from tenure.runtime.lifespan import Lifespan

        made = None if self._lifespan is None else self._lifespan(self)
        return Lifespan(made, tuple(self._startup), tuple(self._shutdown))
