"""Messages between a worker and its keeper survive the socket, whatever the names in them."""

from __future__ import annotations

import asyncio
import math
import socket

import pytest

from tenure.core.engine import CancelAsked, HeartbeatReply
from tenure.core.job import ErrorInfo, JobRecord, Lease, LeaseRef
from tenure.core.outcome import Cancelled, Failed, Retried
from tenure.metrics.counts import Measured
from tenure.processes.messages import (
    UNSENT_MAX,
    BeatReport,
    Goodbye,
    Holdings,
    MessageSocket,
    Orders,
    StatusReport,
    StopOrder,
    WorkerState,
    decode,
    encode,
)
from tenure.processes.overdue import Timeouts
from tenure.processes.system import ProcessGroup


@pytest.mark.parametrize(
    "message",
    [
        Orders("redis://:p@h/0", {"protocol": "native"}, "w", ("a", "b"), 12, Timeouts({"t": 5}, {"a": 0})),
        StatusReport(7, WorkerState.RETIRING, 12.5, 3, "a\nb\u2028", "worn"),
        Goodbye(left=True, crashed=True),
        Goodbye(
            outcomes=(
                (LeaseRef("q", "\udc80", "five"), Failed(ErrorInfo("Timeout", "a\nb"))),
                (LeaseRef("q", "a", 1, 2), Retried(ErrorInfo("Timeout", "late"), 5)),
                (LeaseRef("q", "b", 1), Cancelled("no")),
            )
        ),
        StopOrder(hard=True),
        Measured(((("tenure_retries_total", "q", "t"), (1.0,)),)),
        BeatReport(None, "away"),
    ],
)
def test_a_message(message):
    assert encode(message).count(b"\n") == 1
    assert decode(encode(message)) == message


@pytest.mark.parametrize("id", ["plain", "a\nb", "\udc80", "\u2028"])
@pytest.mark.parametrize("token", [5, "five"])
def test_leases_with_any_id_and_token(id, token):
    orphan = Lease("w", token, JobRecord(id, "q", b"", 0), 0, 0)
    asked = (CancelAsked(orphan.ref, "no\nmore"), CancelAsked(LeaseRef("q", "b", 1)))
    for message in (
        BeatReport(HeartbeatReply(frozenset({orphan.ref}), (orphan,), cancelled=asked), "", {"q": 12.5}),
        Holdings(((orphan.ref, 12.5), (LeaseRef("q", "b", token), math.inf)), frozenset({"a"}), (ProcessGroup(1, 2),)),
    ):
        assert encode(message).count(b"\n") == 1
        assert decode(encode(message)) == message


@pytest.mark.parametrize("line", [b"", b"1\n", b"{}\n", b'{"type": "Status", "state": "merry"}\n', b"\xff\n"])
def test_other_lines_are_refused(line):
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
        decode(line)


async def test_a_socket_that_is_not_read_gets_no_messages_that_later_ones_replace():
    ours, theirs = socket.socketpair()
    here = await MessageSocket.open(ours)
    for _ in range(4 * UNSENT_MAX // 1_000):
        here.send(BeatReport(None, "x" * 1_000), is_replaced=True)
    here.send(Goodbye())
    there = await MessageSocket.open(theirs)
    count = 0
    async with asyncio.timeout(20):
        while isinstance(await there.receive(), BeatReport):
            count += 1
    assert count < 3 * UNSENT_MAX // 1_000
    here.close()
    assert await there.receive() is None
    there.close()
