"""A program with Sentry: it enqueues in a transaction, runs the jobs, and prints what the SDK would have sent, as JSON.

A program of its own, because an integration is for all apps of a process, and cannot be removed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sentry_sdk
from sentry_sdk.transport import Transport

from tenure import Cron, Every, Fail, Job, Schedule, Snooze, Tenure, current_job
from tenure.integrations.sentry import TenureIntegration

early = Tenure(namespace="early")  # an app that is older than the integration
sdk: Any = sentry_sdk
IS_SDK_2 = hasattr(sdk, "start_transaction")


class Recorder(Transport):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[Any]] = {"spans": [], "events": [], "check_ins": []}

    def capture_envelope(self, envelope: Any) -> None:
        for item in envelope.items:
            one = item.payload.json
            if item.type == "transaction":
                root = one["contexts"]["trace"] | {"description": one["transaction"]}
                self.found["spans"] += [span | {"job": one["contexts"].get("job")} for span in (root, *one["spans"])]
            elif item.type == "span":
                self.found["spans"] += map(of_sdk_3, one["items"])
            elif item.type == "event":
                self.found["events"].append(one)
            elif item.type == "check_in":
                self.found["check_ins"].append(one)


def of_sdk_3(span: dict[str, Any]) -> dict[str, Any]:
    data = {name: one["value"] for name, one in span["attributes"].items()}
    return span | {"data": data, "op": data.get("sentry.op"), "description": span["name"]}


recorder = Recorder()
sentry_sdk.init(
    dsn="https://key@example.org/1",
    transport=recorder,
    traces_sample_rate=1.0,
    integrations=[TenureIntegration(cron_checkins=True)],
)
app = Tenure()


@app.task
async def one(number: int) -> None: ...


@app.task(retries=0)
def fails() -> None:
    raise ValueError("no")


@app.task
def chosen() -> None:
    raise Fail("as it should")


@app.handler("events", batch=10)
async def store(jobs: list[Job]) -> None: ...


@app.task(
    schedule=[
        Schedule(Cron("0 9 * * *", tz="Europe/Berlin"), name="eu", kwargs={"region": "eu"}),
        Schedule(Every(hours=2), name="us", kwargs={"region": "us"}),
        Schedule(Every(seconds=90), name="odd", kwargs={"region": "odd"}),
        Schedule(Every(hours=3), name="returned", kwargs={"region": "returned"}),
    ]
)
def report(region: str) -> object:
    if region == "us":
        raise ValueError("no")
    return Fail("no") if region == "returned" else None


@app.task
def put_off() -> None:
    raise Snooze(timedelta(days=100))


@app.task
async def cancelled() -> None:
    job = current_job()
    assert job is not None
    await app.control.acancel(job.queue, job.id)
    await asyncio.Event().wait()


def enqueue(queues: Sequence[str] = ("events",)) -> None:
    one.enqueue(1)
    one.enqueue_many([one.call(2), one.call(3)])
    fails.enqueue()
    chosen.enqueue()
    put_off.enqueue()
    cancelled.enqueue()
    for queue in queues:
        app.queue(queue).enqueue_many([b"a", b"b"])
    early.queue("early").enqueue(b"x")


if __name__ == "__main__":
    root = {"op": "http.server"} if IS_SDK_2 else {"attributes": {"sentry.op": "http.server"}}
    with (sdk.start_transaction if IS_SDK_2 else sdk.start_span)(name="checkout", **root):
        enqueue()
    one.enqueue(4)  # without a transaction
    app.run_worker(burst=True, concurrency=1)  # which also logs the error
    jobs = app.testing()
    jobs.advance(hours=24)
    jobs.drain(raises=False)
    sentry_sdk.flush()
    print(json.dumps(recorder.found))
