"""Messages between a worker and a job process: whole, however they are cut, and no others."""

import struct

import pytest
from msgspec.structs import replace

from tenure.core.job import ErrorInfo, JobRecord, Lease, NewJob
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Released, Retried, Unroutable
from tenure.core.shape import Progress, Shape, UniqueRule
from tenure.runtime.isolation.channel import PROCESS_ORDER_MAX
from tenure.runtime.isolation.child import PROCESS_ANSWER_MAX
from tenure.runtime.isolation.messages import (
    ANSWERS,
    ORDERS,
    BadMessage,
    Cancel,
    Done,
    ExitOrder,
    Extend,
    Extended,
    ProgressReport,
    Ready,
    RunJob,
    Setup,
    Unpacker,
    pack,
)

ERROR = ErrorInfo("ValueError", "no such thing é", "traceback")
SHAPE = Shape(lane="user:1", lane_limit=3, unique=UniqueRule("key"), persistent=True)
LEASE = Lease(
    "w",
    7,
    JobRecord(
        "id",
        "q",
        b"\x00\xff",
        12,
        task="t",
        timeout_ms=5_000,
        retries=3,
        malformed="",
        shape=SHAPE,
        headers={"tenant": "é"},
    ),
    1,
    2,
)
ODD = Lease("w", "token", JobRecord("\udc80", "q\udcff", b"\x00\xff", 12, shape=Shape(lane="\udc80")), 0, 0)

ORDERED = [
    Setup((b"", b"/usr/lib\xff"), 17),
    RunJob.of(1, LEASE, 2.5, "why"),
    RunJob.of(2, ODD),
    Cancel(2, "no more"),
    Extended(1, False, "no answer", True),
    ExitOrder(),
]
SAID = [
    Ready(),
    ProgressReport(3, Progress(1, 2.5, "rows")),
    Extend(3, 1, 60_000),
    *(
        Done(4, outcome)
        for outcome in (
            Completed(b"\x00\xff", 5),
            Completed(b"", 0, (NewJob("q", "1", b"\x00\xff", 5, task="t", shape=SHAPE, headers={"tenant": "é"}),)),
            Retried(ERROR, 7),
            Failed(ERROR),
            Broken(ERROR),
            Released(),
            Unroutable(),
            Cancelled("why"),
        )
    ),
]


@pytest.mark.parametrize(("kinds", "frames"), [(ORDERS, ORDERED), (ANSWERS, SAID)])
@pytest.mark.parametrize("size", [1, 7, 1_000_000])
def test_they_come_as_they_went(kinds, frames, size):
    data = b"".join(map(pack, frames))
    unpacker = Unpacker(kinds, PROCESS_ORDER_MAX)
    found = [frame for at in range(0, len(data), size) for frame in unpacker.feed(data[at : at + size])]
    assert found == frames


@pytest.mark.parametrize("frame", ORDERED)
def test_orders_are_no_answers(frame):
    with pytest.raises(BadMessage):
        list(Unpacker(ANSWERS, 1_000).feed(pack(frame)))


def test_a_lease_comes_as_it_went_but_for_its_unique_key():
    lease, odd = RunJob.of(1, LEASE).lease, RunJob.of(1, ODD).lease
    assert lease.record.shape == Shape(lane="user:1", lane_limit=3, persistent=True)
    assert replace(lease, record=LEASE.record) == LEASE
    assert replace(lease.record, shape=SHAPE) == LEASE.record
    assert odd == ODD


@pytest.mark.parametrize(
    "body",
    [
        b"\xff" * 20,
        b"{}",
        b"",
        b"\x91" * 100_000,
        pack(Done(1, Released()))[4:].replace(b"outcome", b"outcomx"),
        pack(Done(1, Released()))[4:].replace(b"Released", b"Relaesed"),
    ],
)
def test_what_is_no_frame_is_refused(body):
    with pytest.raises(BadMessage):
        list(Unpacker(ANSWERS, PROCESS_ANSWER_MAX).feed(struct.pack("!I", len(body)) + body))


def test_one_that_is_too_long_is_refused_before_it_is_there():
    data = pack(Done(1, Completed(b"x" * 2_000)))
    with pytest.raises(BadMessage, match="bytes"):
        list(Unpacker(ANSWERS, 1_000).feed(data[:20]))
