"""An app without tasks on a real server, and failed jobs for it to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tenure import Tenure
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Failed
from tenure.redis.sync import SyncDriver

Fail = Callable[..., None]


@pytest.fixture
def app(redis_url: str) -> Iterator[Tenure]:
    with Tenure(redis_url) as app:
        yield app


@pytest.fixture
def fail(app: Tenure, driver: SyncDriver) -> Fail:
    """Enqueues jobs and fails them, the first one first: `fail("one", "two", queue="emails", error="ValueError")`."""

    def fail(
        *ids: str, queue: str = "emails", error: str = "ValueError", task: str | None = None, unique: str | None = None
    ) -> None:
        jobs = app.queue(queue)
        for id in ids:
            if task is None:
                jobs.enqueue(b"x", id=id, unique=unique)
            else:
                app.tasks[task].using(queue=queue, id=id).enqueue()
            (lease,) = driver.run(app.engine.lease("w", (queue,), 1)).leases
            driver.run(app.engine.settle([(lease, Failed(ErrorInfo(error, "it broke")))]))

    return fail
