"""What a keeper does for its worker, by a clock of the test: beats, reports, and the release of jobs at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, cast

import pytest

from tenure.core.engine import CancelAsked, HeartbeatReply, Timing
from tenure.core.errors import Unreachable, WrongState
from tenure.core.job import LeaseRef
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes import keeper as module
from tenure.processes.keeper import LEFT_MS, LeaseKeeper
from tenure.processes.messages import BeatReport, Goodbye, Holdings, Orders
from tenure.processes.system import ProcessGroup
from tenure.runtime.ports import Exclusive


class Engine(PartitionedEngine):
    """Its steps say what was asked for."""

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Any:
        return (yield ("beat", queues[0]))

    def leave(self, worker: str, queues: Sequence[str], crashed: bool = False) -> Any:
        return (yield ("leave", crashed))


class Kept:
    """A worker that is kept. `reply`: what becomes of each call."""

    def __init__(self, *queues: str) -> None:
        self.now = 100.0
        self.calls: list[Any] = []
        self.reports: list[BeatReport] = []
        self.is_stopped = False
        self.reply: Callable[[Any], Awaitable[Any]] = self._good
        engine = Engine("tenure", NativeConfig(timing=Timing(beat_ms=20, lease_ms=60)))
        orders = Orders("redis://unused", {}, "w", queues or ("q",), 7)
        self.keeper = LeaseKeeper(
            orders,
            engine,
            cast("Any", self),
            self.reports.append,
            clock=lambda: self.now,
            lease_clock=lambda: self.now,
            stopped=lambda pid: self.is_stopped,
        )

    async def _good(self, call: Any) -> Any:
        return HeartbeatReply() if call[0] == "beat" else 3

    async def run(self, steps: Any) -> Any:
        call = next(steps)
        self.calls.append(call)
        try:
            steps.send(await self.reply(call))
        except StopIteration as stop:
            return stop.value
        raise AssertionError("one call is expected")

    async def __aenter__(self) -> Kept:
        self.running = asyncio.create_task(self.keeper.run())
        await self.turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.running.cancel()
        await asyncio.wait({self.running})

    async def turns(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def after(self, seconds: float) -> list[Any]:
        """The calls of the next seconds."""
        self.calls.clear()
        self.now += seconds
        self.keeper._news.set()  # its clock goes on without it
        await self.turns()
        return list(self.calls)


async def test_it_beats_what_is_kept_often_and_the_others_now_and_then():
    async with Kept("a", "b") as kept:
        assert kept.calls == [("beat", "a"), ("beat", "b")]
        kept.keeper.take(Holdings(kept=frozenset("a")))
        assert await kept.after(0.02) == [("beat", "a")]
        assert await kept.after(1.0) == [("beat", "a"), ("beat", "b")]


async def test_at_rest_it_reports_once_that_the_worker_may_claim_and_beats_no_more():
    async with Kept() as kept:
        kept.reports.clear()
        kept.now += 1
        kept.keeper.take(Holdings(kept=frozenset()))
        await kept.turns()
        assert [report.beat for report in kept.reports] == [HeartbeatReply()]
        kept.reports.clear()
        kept.keeper.take(Holdings(leases=()))
        assert await kept.after(10) == []
        assert kept.reports == []
        kept.keeper.take(Holdings(kept=frozenset("q")))
        assert await kept.after(0.02) == [("beat", "q")]
        assert [report.beat for report in kept.reports] == [HeartbeatReply()]


async def test_a_worker_that_rests_from_the_start_may_claim():
    kept = Kept()
    kept.keeper.take(Holdings(kept=frozenset()))
    async with kept:
        assert kept.calls == []
        assert [report.beat for report in kept.reports] == [HeartbeatReply()]


async def test_one_that_rests_again_and_again_gets_no_report_each_time():
    async with Kept() as kept:
        kept.reports.clear()
        for _ in range(10):
            for held in ("q", ""):
                kept.keeper.take(Holdings(kept=frozenset(held)))
                await kept.turns()
        assert kept.reports == []


async def test_a_stopped_worker_gets_no_beats():
    async with Kept() as kept:
        kept.is_stopped = True
        assert await kept.after(1) == []
        kept.is_stopped = False
        assert await kept.after(1) == [("beat", "q")]


async def test_a_refused_queue_costs_no_other():
    async def refuse(call: Any) -> Any:
        if call == ("beat", "bad"):
            raise WrongState("another program's key")
        return HeartbeatReply(lost=frozenset({LeaseRef("good", "a", 1)}))

    async with Kept("bad", "good") as kept:
        kept.reply = refuse
        await kept.after(1)
        report = kept.reports[-1]
        assert report.beat is not None
        assert report.beat.lost == {LeaseRef("good", "a", 1)}
        assert "another program's key" in report.trouble


async def test_while_redis_hangs_the_worker_hears_that_its_keeper_lives(monkeypatch):
    monkeypatch.setattr(module, "ALIVE_MS", 1)
    hangs = asyncio.Event()

    async def hang(call: Any) -> Any:
        await hangs.wait()
        return HeartbeatReply()

    async with Kept() as kept:
        kept.reply = hang
        kept.reports.clear()
        await kept.after(1)
        async with asyncio.timeout(10):
            while len(kept.reports) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert all(report.beat is None for report in kept.reports)


async def test_long_reasons_are_cut():
    async def wish(call: Any) -> Any:
        return HeartbeatReply(cancelled=(CancelAsked(LeaseRef("q", "a", 1), "x" * 10_000),))

    async with Kept() as kept:
        kept.reply = wish
        await kept.after(1)
        beat = kept.reports[-1].beat
        assert beat is not None
        assert len(beat.cancelled[0].reason) <= module.REASON_MAX


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that the keeper has killed."""
    pids: list[int] = []

    def kill(groups: Iterable[ProcessGroup]) -> list[ProcessGroup]:
        found = list(groups)
        pids.extend(group.pid for group in found)
        return found

    monkeypatch.setattr(module, "kill", kill)
    return pids


GROUPS = (ProcessGroup(12, 34), ProcessGroup(13, 34), ProcessGroup(14, 34))


async def away(call: Any) -> Any:
    raise Unreachable("gone")


@pytest.mark.parametrize("why", ["Redis is away", "the worker is stopped"])
async def test_a_process_does_not_outlive_the_lease_of_a_job_that_must_not_run_beside_another(killed, caplog, why):
    async with Kept("q", "r") as kept:
        exclusive = (Exclusive(12, "q", 1.0), Exclusive(14, "q", 101.0))
        kept.keeper.take(Holdings(groups=GROUPS, exclusive=exclusive))
        for _ in range(10):
            await kept.after(0.05)
        assert killed == [], "heartbeats succeed"
        if why == "Redis is away":
            kept.reply = away
        else:
            kept.is_stopped = True
        await kept.after(0.06)
        assert killed == [], "the worker has some time to do it"
        await kept.after(0.3)
        await kept.after(0.3)
        assert killed == [12], "once, and neither another job nor a later claim"
        assert caplog.text.count("lease_lost queue=q noticed_by=keeper certain=False pid=12") == 1


async def test_a_new_keeper_knows_of_no_earlier_heartbeat(killed):
    kept = Kept()
    kept.reply = away
    kept.keeper.take(Holdings(groups=GROUPS, exclusive=(Exclusive(12, "q", 1.0),)))
    async with kept:
        assert killed == []
        await kept.after(1)
        assert killed == [12]


# -------------------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("said", "released"),
    [([], [True]), ([Goodbye()], []), ([Goodbye(left=True)], [False]), ([Goodbye(left=True, crashed=True)], [True])],
)
async def test_the_last_message_decides_what_is_released(said, released):
    async with Kept() as kept:
        for message in said:
            kept.keeper.take(message)
        await kept.turns()
        assert kept.calls == [("beat", "q")]
        kept.keeper.process_ended()
        await kept.running
        assert [crashed for call, crashed in kept.calls[1:]] == released


async def test_jobs_that_are_left_are_kept_until_the_process_has_ended_or_much_later():
    async with Kept() as kept:
        kept.keeper.take(Goodbye(left=True))
        assert await kept.after(1) == [("beat", "q")]
        assert await kept.after(LEFT_MS / 1_000) == []
        kept.keeper.process_ended()
        await kept.running
        assert kept.calls == [("leave", False)]


async def test_of_a_worker_that_lives_and_closed_its_files_nothing_is_released_before_its_end():
    async with Kept() as kept:
        kept.keeper.socket_closed()
        assert await kept.after(1_000) == []
        kept.keeper.process_ended()
        await kept.running
        assert kept.calls == [("leave", True)]


@pytest.mark.parametrize("is_away", [True, False])
async def test_redis_may_be_away_for_a_while(monkeypatch, caplog, is_away):
    monkeypatch.setattr(module, "RETRY_MS", 0)
    tries = []

    async def away(call: Any) -> Any:
        kept.now += 1
        tries.append(call)
        if is_away or len(tries) < 5:
            raise Unreachable("gone")
        return 3

    async with Kept() as kept:
        kept.reply = away
        kept.keeper.process_ended()
        await kept.running
    (line,) = caplog.messages
    assert line.startswith(f"worker_died worker=w {'not_released=gone' if is_away else 'released=3'} ")


@pytest.mark.parametrize(("groups", "ended"), [((), False), ((ProcessGroup(12, 34),), True)])
async def test_job_processes_are_dead_when_their_jobs_are_released(monkeypatch, groups, ended):
    dead: list[ProcessGroup] = []

    async def end(found: Sequence[ProcessGroup], seconds: float) -> None:
        dead.extend(found)

    async def look(call: Any) -> Any:
        assert bool(dead) == ended
        return 1

    monkeypatch.setattr(module, "end", end)
    async with Kept() as kept:
        kept.keeper.take(Holdings(groups=(ProcessGroup(12, 34),)))
        kept.keeper.take(Holdings(groups=groups))
        kept.reply = look
        kept.keeper.process_ended()
        await kept.running
