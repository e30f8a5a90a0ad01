"""An app with jobs in every state, for the browser to look at, and its dashboard on a real socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import sin
from typing import Any, Final, TypeVar

from redis import Redis

from tenure import Cron, Every, Limit, Tenure, chain, group
from tenure.core import limits
from tenure.core.job import ErrorInfo
from tenure.core.latency import Times
from tenure.core.minutes import QUARTER_MS
from tenure.core.outcome import Completed, Failed, Outcome
from tenure.core.shape import Progress
from tenure.core.worker_view import WorkerView
from tenure.engines.native.config import CELL_BYTES, MINUTE_COUNTS, QUARTER_CELLS, QUARTER_MINUTES, QUARTERS
from tenure.redis.sync import SyncDriver
from tenure.web import dashboard
from tests.support.serving import served

T = TypeVar("T")

WORKER: Final = "web-1:4711"
TRACEBACK: Final = """  File "/app/shop/images.py", line 41, in thumbnail
    image = Image.open(path)
  File "/app/shop/images.py", line 12, in open
    raise ValueError(f"{path}: the file is cut off after {size} bytes")
ValueError: cat.png: the file is cut off after 4096 bytes
"""


@dataclass
class Shop:
    """The app and its dashboard. `jobs`: ids by what they are for."""

    app: Tenure
    driver: SyncDriver
    url: str
    jobs: dict[str, str]
    thread: ThreadPoolExecutor

    def do(self, call: Callable[[], T]) -> T:
        """Call something of the app in a thread without an event loop: playwright runs one in the test's own."""
        return self.thread.submit(call).result()

    def counts(self, queue: str) -> dict[str, int]:
        found = self.do(lambda: self.app.inspect.queue(queue).counts)
        return {state.value: count for state, count in found.items() if count}

    def enqueue(self, task: str, *args: Any, **options: Any) -> str:
        return self.do(lambda: self.app.tasks[task].using(**options).enqueue(*args).id)

    def page(self, *parts: str) -> str:
        return f"{self.url}/{'/'.join(parts)}"


@contextmanager
def open_shop(redis_url: str, **options: Any) -> Iterator[Shop]:
    """Yield a shop. `options`: of `dashboard`."""
    now_ms = round(time.time() * limits.SECOND)
    with Redis.from_url(redis_url) as redis:
        for queue, scale in (("images", 30), ("payments", 12), ("mail", 5)):
            redis.set(f"{{tenure:{queue}}}:minutes", history(now_ms, scale))
    with Tenure(redis_url) as app, ThreadPoolExecutor(1) as thread:
        declare(app)
        driver = SyncDriver(redis_url)
        try:
            jobs = thread.submit(fill, app, driver).result()
            with served(dashboard(app, **options)) as port:
                yield Shop(app, driver, f"http://127.0.0.1:{port}", jobs, thread)
        finally:
            thread.submit(driver.close).result()


def declare(app: Tenure) -> None:
    @app.task(queue="images", name="shop.thumbnail")
    def thumbnail(path: str, size: int = 128) -> str:
        return path

    @app.task(queue="payments", name="shop.charge")
    def charge(customer: int, cents: int) -> None: ...

    @app.task(queue="mail", name="shop.mail", limits=[Limit("mail", concurrency=2)])
    def mail(to: str) -> None: ...

    @app.task(queue="reports", name="shop.report", schedule=Cron("30 6 * * 1-5"))
    def report() -> None: ...


def fill(app: Tenure, driver: SyncDriver) -> dict[str, str]:
    """Put jobs in every state, lanes, limits, schedules, a worker, a history and an audit into Redis."""
    tasks, jobs = app.tasks, {}

    def end(queue: str, outcome: Outcome) -> str:
        (lease,) = driver.run(app.engine.lease(WORKER, (queue,), 1)).leases
        driver.run(app.engine.settle([(lease, outcome)]))
        return lease.record.id

    now_ms = round(time.time() * limits.SECOND)
    view = WorkerView(
        WORKER,
        ("images", "mail", "payments", "reports"),
        "web-1.example.org",
        4711,
        now_ms - 5_400_000,
        now_ms,
        4,
        times={"images": Times({8: 40, 30: 5}, {40: 30, 48: 9, 60: 2})},
        tasks=tuple(sorted(tasks)),
    )
    driver.run(app.engine.announce(view))
    app.control.configure("payments", lane_failure="block")
    for name in ("ada.png", "bob.png", "cat.png", "dan.png", "eve.png"):
        tasks["shop.thumbnail"].enqueue(name)
        jobs["failed"] = end("images", Failed(ErrorInfo("ValueError", f"{name}: the file is cut off", TRACEBACK)))
    for name in ("fay.png", "gus.png"):
        tasks["shop.thumbnail"].enqueue(name)
        end("images", Failed(ErrorInfo("KeyError", "'width'")))
    for name in ("hal.png", "ida.png", "joe.png"):
        tasks["shop.thumbnail"].enqueue(name)
        end("images", Completed(b'"done"'))
    jobs["active"] = tasks["shop.thumbnail"].enqueue("kim.png").id
    (lease,) = driver.run(app.engine.lease(WORKER, ("images",), 1, limits.HOUR)).leases
    assert app.engine.results is not None
    driver.run(app.engine.results.progress(lease, Progress(30, 120, "half a page")))
    for name in ("lea.png", "max.png", "ned.png", "oda.png"):
        jobs["ready"] = tasks["shop.thumbnail"].enqueue(name).id
    tasks["shop.thumbnail"].using(delay=3_600).enqueue("pia.png")
    for customer in (6, 7, 8):
        charge = tasks["shop.charge"].using(lane=f"customer:{customer}")
        charge.enqueue(customer, 100 * customer)
        if customer == 7:
            jobs["blocker"] = end("payments", Failed(ErrorInfo("CardDeclined", "the bank refuses the card", "")))
            jobs["behind"] = charge.enqueue(7, 1_250).id
            charge.enqueue(7, 4_999)
        else:
            end("payments", Completed())
    tasks["shop.charge"].using(lane="customer:6").enqueue(6, 150)
    for n in range(3):
        tasks["shop.mail"].enqueue(f"user{n}@example.org")
    driver.run(app.engine.lease(WORKER, ("mail",), 2, limits.HOUR))
    app.control.pause("mail")
    app.limits.set("mail", concurrency=2)
    print_page = tasks["shop.thumbnail"].using(queue="albums")
    pages = [print_page.call(f"page{n}") for n in range(70)]
    cover = chain(
        print_page.call("cover"), print_page.call("bound"), group([print_page.call("a"), print_page.call("b")])
    )
    jobs["flow"] = group([cover, *pages]).enqueue(on_success=tasks["shop.report"].call()).id
    for _ in range(9):
        end("albums", Completed())
    end("albums", Failed(ErrorInfo("OutOfPaper", "tray 2 is empty", "")))
    app.schedules.add("nightly", tasks["shop.report"].call(), Cron("0 2 * * *"), queue="reports")
    app.schedules.add("poll", b"x", Every(hours=1), queue="reports")
    return jobs


def history(now_ms: int, scale: int) -> bytes:
    """Return a day of ended jobs as the native layout has it: more of them by day, with some failures."""
    now, data = now_ms // QUARTER_MS, bytearray(QUARTERS * QUARTER_CELLS * CELL_BYTES)
    for quarter in range(now - QUARTERS + 1, now + 1):
        cells = [0] * QUARTER_CELLS
        cells[0] = quarter
        for minute in range(QUARTER_MINUTES):
            if quarter * QUARTER_MS + minute * limits.MINUTE > now_ms:
                break
            at = quarter * QUARTER_MINUTES + minute
            cells[1 + minute * MINUTE_COUNTS] = int(scale * (1.2 + sin(at / 230) + 0.2 * sin(at)))
            cells[2 + minute * MINUTE_COUNTS] = scale // 4 if at % 97 < 5 else 0
        first = quarter % QUARTERS * QUARTER_CELLS * CELL_BYTES
        data[first : first + QUARTER_CELLS * CELL_BYTES] = b"".join(cell.to_bytes(CELL_BYTES, "big") for cell in cells)
    return bytes(data)
