"""Versions that do not fit, and what nobody should enqueue: S45, S50."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

from tenure import Tenure
from tenure.core.errors import InvalidArgument, PayloadTooLarge, TenureError
from tenure.core.job import State
from tenure.settings import MAX_PAYLOAD_BYTES
from tests.faults.harness import broken, jobs
from tests.faults.harness.history import Event, Op
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

WORD: Final = b" z=later"
"""A word in the head of a record that this release does not know."""


@scenario(
    "S45",
    "workers of two releases at one queue, replaced while it works; records of a release to come",
    Bounds({"replaced": 2, "records of a release to come": 5}, repeats=0, drained_s=20),
    jobs=60,
)
def skew(stage: Stage) -> None:
    """Workers of two releases at one queue, replaced one by one while it works; records of a release to come."""
    stage.serve()
    prefix = stage.app.engine.prefix(jobs.QUEUE)
    newer = [*stage.add(stage.size // 4, jobs.STEP, 5, 1), stage.add_one(jobs.STEP, 5, 0, True, meant="failed")]
    for id in newer:
        record = stage.server.command("HGET", f"{prefix}:jobs", id)
        head, end, payload = record.partition(b"\n")
        stage.server.command("HSET", f"{prefix}:jobs", id, head + WORD + end + payload)
        stage.fault("records of a release to come")
    fleet = stage.fleet(2, 3, environment={broken.VERSION: "1"})
    for old in list(fleet.running):
        stage.add(max(1, stage.size // 3), jobs.STEP, 20, 1)
        fleet.start(**{broken.VERSION: "2"})
        fleet.wait_until_started()
        status = fleet.tell_to_end(old)
        stage.expect(status == 0, f"the old release ended with status {status}")
        stage.fault("replaced")
    stage.recover()
    kept = stage.server.command("HGET", f"{prefix}:kept", newer[-1]).partition(b"\n")[0]
    stage.expect(WORD in kept, "a word of a release to come was not kept with the record")


def bad_calls(app: Tenure) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What must be refused before anything is sent: by a name, and how it is asked for."""
    task: Any = app.tasks[jobs.STEP]
    queue: Any = app.queue(jobs.RAW)
    moment = datetime(2030, 1, 1)
    bad_options: tuple[tuple[str, Iterable[object]], ...] = (
        ("id", ("", "i" * 256, "@mine", "\udc80")),
        ("delay", (-1, float("nan"), 1e12)),
        ("run_after", (moment, "tomorrow")),
        ("priority", (101, -101, 1.5)),
        ("lane", ("", "l" * 201, "a\nb")),
    )
    for name in ("", ".", "..", "a/b", "q" * 201, "a\nb", "\u2028", "a\0b"):
        yield f"queue {name[:9]!r}", partial(app.queue, name)
    for option, values in bad_options:
        for value in values:
            yield f"{option} {str(value)[:9]!r}", partial(queue.enqueue, b"", **{option: value})
    for payload in ({1, 2}, object(), float("nan"), float("inf"), {1: {2}}, b"x" * (MAX_PAYLOAD_BYTES + 1)):
        yield f"payload {str(payload)[:20]}", partial(queue.enqueue, payload)
    for seconds in (0, -1, 0.0004, float("nan"), 1e12):
        yield f"lease of {seconds} s", partial(queue.lease, seconds=seconds)
    yield "two times", partial(queue.enqueue, b"", run_after=moment, delay=1)
    yield "wrong arguments", partial(task.enqueue, "no number", [])
    yield "too few arguments", task.enqueue
    yield "many as one", partial(queue.enqueue_many, b"abc")


GARBAGE: Final = (b"", b"garbage", b"12", b"\xff\xfe\x00", b"abc *\nx", b"1 2 3\n{}")
"""Records that are none."""


@scenario(
    "S50",
    "payloads of every size, bad inputs and broken records while workers work",
    Bounds({"bad inputs refused": 30, "records that are none": len(GARBAGE)}, repeats=0, drained_s=20),
    jobs=60,
)
def bad(stage: Stage) -> None:
    """Payloads of all sizes, bad arguments and broken records, while the workers work."""
    stage.serve()
    stage.fleet(2, 4)
    stage.add(stage.size, jobs.STEP, 20)
    for size in (0, 1, MAX_PAYLOAD_BYTES - 1, MAX_PAYLOAD_BYTES):
        stage.add_raw(b"x" * size)
    for name, call in bad_calls(stage.app):
        try:
            call()
        except (InvalidArgument, PayloadTooLarge):
            stage.fault("bad inputs refused")
        except (TenureError, TypeError) as error:
            stage.expect(False, f"{name}: {type(error).__name__}, expected InvalidArgument")
        else:
            stage.expect(False, f"{name} was taken")
    prefix = stage.app.engine.prefix(jobs.QUEUE)
    stage.sampling = False  # for a moment these are in `jobs` and in no list, or the other way round
    for n, record in enumerate(GARBAGE):
        id = f"garbage{n}"
        stage.diary.write(Event(Op.ENQUEUE, phase="invoke", job=id, note="broken"))
        stage.server.command("HSET", f"{prefix}:jobs", id, record)
        stage.server.command("RPUSH", f"{prefix}:ready", id, f"nothing{n}")
        stage.diary.write(Event(Op.ENQUEUE, phase="ok", job=id))
        stage.fault("records that are none")
    stage.add(stage.size, jobs.STEP, 20)
    stage.recover()
    sizes = {len(stage.view(f"garbage{n}").payload or b"") for n in range(len(GARBAGE))}
    stage.expect(stage.view("garbage1").state is State.BROKEN, "a record that is none has not ended in broken")
    stage.expect(len(sizes) > 1, "what was broken was not kept whole")


ALL: Final = (skew, bad)
