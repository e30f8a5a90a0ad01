"""Job processes of a worker on fakes: what they run, what ends them, and who is harmed by that (nobody else)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.backoff import Backoff
from tenure.core.engine import CancelAsked, Timing
from tenure.core.errors import InvalidArgument
from tenure.core.outcome import Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import Shape
from tenure.core.task import RunIn
from tenure.runtime.isolation.child import Launch, ProcessLimits
from tenure.runtime.shutdown import ExitStatus
from tests.runtime import job_program
from tests.runtime.fakes import FakeKeeper, Rig, task
from tests.support.fakes import FakeEngine
from tests.support.waiting import LIMIT_S

ROOT = Path(__file__).parents[2]


class Said:
    """What handlers have written to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []

    async def wait(self, word: str) -> list[int]:
        """The numbers after this word, when it has been said."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                for first, *rest in self.lines():
                    if first == word:
                        return [int(one) for one in rest]
                await asyncio.sleep(0.01)


@pytest.fixture
def said(tmp_path: Path) -> Said:
    return Said(tmp_path / "said")


@pytest.fixture
def launch(said: Said) -> Launch:
    return launch_of(said)


def launch_of(said: Said, *more: str, own: ProcessLimits | None = None) -> Launch:
    program = str(ROOT / "tests" / "runtime" / "job_program.py")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "SAID": str(said.path)}
    return Launch(
        lambda descriptor: [sys.executable, "-P", program, str(descriptor), *more], environment, own or ProcessLimits()
    )


def rig(launch: Launch, **options: Any) -> Rig:
    """A worker with all tasks of the program."""
    first, *more = job_program.specs()
    return Rig(first, more=more, launch=launch, keeper=FakeKeeper(every_s=0.3), **options)


async def run(launch: Launch, name: str, **about: Any) -> Outcome:
    """The outcome of one job, and that the worker goes on after it."""
    async with rig(launch) as here:
        here.engine.add("a", task=name, **about)
        (outcome,) = await here.ends("a")
        here.engine.add("after", task="pid")
        (after,) = await here.ends("after")
        assert isinstance(after, Completed)
    return outcome


async def begun(here: Rig, said: Said, name: str, id: str = "a", **about: Any) -> int:
    """Add a job and wait until its handler has said its pid. Forget releases from the time before."""
    here.engine.add(id, task=name, **about)
    (pid,) = await said.wait(name)
    here.engine.settled = [one for one in here.engine.settled if one.outcome != Released()]
    return pid


def alive(pid: int) -> bool:
    """Whether it runs: a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def gone(*pids: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while any(alive(pid) for pid in pids):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_process_is_used_again_and_another_is_started_only_when_it_is_needed(launch, said):
    pids: set[Outcome] = set()
    async with rig(launch, concurrency=2) as here:
        for number in range(5):
            here.engine.add(f"s{number}", task="pid" if number % 2 else "apid")
            pids.update(await here.ends(f"s{number}"))
        assert len(pids) == 1
        assert Completed(str(os.getpid()).encode()) not in pids
        await begun(here, said, "hang")
        here.engine.add("other", task="pid")
        assert pids.isdisjoint(await here.ends("other"))


async def test_what_a_handler_knows_of_its_job(launch):
    shape = Shape(lane="user\udcff:1")
    async with rig(launch) as here:
        here.engine.add(
            "\udc80a", task="facts", payload=b"\x00\xff", shape=shape, failures=2, crashes=1, timeout_ms=60_000
        )
        (outcome,) = await here.ends("\udc80a")
        token = here.engine.settled[-1].lease.token
    assert isinstance(outcome, Completed)
    found = literal_eval(outcome.result.decode())
    left = found.pop(-2)
    assert found == ["\udc80a", "q", "facts", "user\udcff:1", 4, 2, 1, token, b"\x00\xff"]
    assert 50 < left <= 60


async def test_it_leads_a_session_runs_in_the_main_thread_and_has_the_users_environment(launch):
    assert await run(launch, "environment") == Completed(b"[True, True, True]")


@pytest.mark.parametrize(
    ("name", "kind", "error"),
    [
        ("retry", Retried, "Retry"),
        ("fail", Failed, "Fail"),
        ("leave", Retried, "SystemExit"),
        ("aleave", Retried, "SystemExit"),
        ("interrupt", Retried, "KeyboardInterrupt"),
        ("recurse", Retried, "RecursionError"),
        ("out_of_memory", Retried, "MemoryError"),
        ("unprintable", Retried, "__main__.Unprintable"),
        ("huge_error", Retried, "ValueError"),
    ],
)
async def test_what_a_handler_raises_fails_its_attempt(launch, name, kind, error):
    outcome = await run(launch, name)
    assert isinstance(outcome, kind)
    assert outcome.error.type == error
    assert len(outcome.error.message) <= limits.MAX_ERROR_TEXT
    if name == "retry":
        assert outcome.delay_ms == 7_000


async def test_it_may_end_itself_as_cancelled(launch):
    assert await run(launch, "cancel_itself") == Cancelled("has left")


async def test_a_result_that_is_too_large_is_replaced_by_a_note(launch):
    outcome = await run(launch, "huge_result")
    assert isinstance(outcome, Completed)
    assert b"ResultTooLarge" in outcome.result


@pytest.mark.parametrize("name", ["exit_hard", "segfault", "kill_itself", "close_files", "deep", "garble"])
async def test_who_kills_its_process_has_crashed_and_harms_no_other(launch, said, name):
    async with rig(launch, concurrency=3) as here:
        other = await begun(here, said, "look", "other")
        here.engine.add("a", task=name)
        (outcome,) = await here.ends("a")
        # Since Python 3.12 a recursion in C that goes too deep may be an error of the handler, and its process lives.
        guarded = name == "deep" and sys.version_info >= (3, 12) and isinstance(outcome, Retried)
        assert outcome == Crashed() or guarded
        assert alive(other)
        here.engine.add("after", task="pid")
        await here.ends("after")
        assert here.engine.outcomes("other") == []


async def test_signals_for_the_whole_service_do_not_end_it(launch):
    assert isinstance(await run(launch, "terminate_itself"), Completed)


@pytest.mark.parametrize("name", ["hang", "ahang", "stubborn", "block", "hold_gil"])
async def test_a_timeout_kills_it_whatever_it_does(launch, said, name):
    async with rig(launch) as here:
        pid = await begun(here, said, name, timeout_ms=300)
        (outcome,) = await here.ends("a")
        assert not alive(pid)
    assert isinstance(outcome, Retried)
    assert outcome.error.type == "Timeout"
    assert "0.3 s" in outcome.error.message
    assert ["tidied", str(pid)] not in said.lines()


async def test_the_time_to_start_a_process_is_not_the_jobs(said):
    slow = launch_of(said)
    program = 'sleep 1.5; exec "$@"'
    launch = Launch(lambda number: ["/bin/sh", "-c", program, "-", *slow.command(number)], slow.environment)
    async with rig(launch) as here:
        here.engine.add("a", task="pid", timeout_ms=1_000)
        (outcome,) = await here.ends("a")
    assert isinstance(outcome, Completed)


async def test_what_it_started_dies_with_it(launch, said):
    async with rig(launch) as here:
        here.engine.add("a", task="start_others", timeout_ms=1_000)
        pids = await said.wait("others")
        await here.ends("a")
        await gone(*pids)


def ask(here: Rig, id: str, reason: str = "not needed") -> None:
    refs = [ref for ref in here.engine.held if ref.id == id]
    here.keeper.beat(cancelled=[CancelAsked(ref, reason) for ref in refs])


@pytest.mark.parametrize("name", ["look", "ahang"])
async def test_a_cancellation_is_an_ask_first(launch, said, name):
    async with rig(launch) as here:
        pid = await begun(here, said, name)
        ask(here, "a")
        assert await here.ends("a") == [Cancelled("not needed")]
        here.engine.add("b", task="pid")
        assert await here.ends("b") == [Completed(str(pid).encode())]  # the same process goes on


@pytest.mark.parametrize("name", ["hang", "stubborn", "hold_gil"])
async def test_who_does_not_heed_the_ask_is_killed(said, name):
    async with rig(launch_of(said, own=ProcessLimits(cancel_ms=300))) as here:
        pid = await begun(here, said, name)
        ask(here, "a")
        assert await here.ends("a") == [Cancelled("not needed")]
        assert not alive(pid)


async def test_a_lost_job_is_killed_and_nothing_is_said_of_it(launch, said):
    async with rig(launch, concurrency=1) as here:
        pid = await begun(here, said, "hang")
        here.keeper.beat(lost=[here.engine.lose("a")])
        here.engine.add("b", task="pid")
        await here.ends("b")
        assert not alive(pid)
    assert not here.engine.outcomes("a")
    assert not here.engine.refused


async def test_without_heartbeats_for_a_lease_a_job_of_a_lane_is_killed_and_released(launch, said):
    engine = FakeEngine(timing=Timing(beat_ms=20, lease_ms=1_000, idle_wait_ms=200, maintain_ms=50, presence_ms=50))
    async with rig(launch, concurrency=1, engine=engine) as here:
        pid = await begun(here, said, "hang", shape=Shape(lane="a"))
        here.keeper.good_at, here.keeper.mute = 0.0, True
        await here.engine.until(lambda: here.engine.outcomes("a") == [Released()])
        assert not alive(pid)


@pytest.mark.parametrize(("shape", "outcome"), [(Shape(lane="a"), Released()), (Shape(), Crashed())])
async def test_a_job_that_was_killed_because_its_lease_was_over_has_not_crashed(launch, said, shape, outcome):
    engine = FakeEngine(timing=Timing(beat_ms=20, lease_ms=1_000, idle_wait_ms=200, maintain_ms=50, presence_ms=50))
    async with rig(launch, concurrency=1, engine=engine) as here:
        pid = await begun(here, said, "hang", shape=shape)
        here.keeper.good_at, here.keeper.mute = 0.0, True
        time.sleep(1.1)  # the worker's event loop is blocked until the lease is over
        os.kill(pid, signal.SIGKILL)
        await here.engine.until(lambda: here.engine.outcomes("a") != [])
        assert here.engine.outcomes("a")[0] == outcome


async def test_a_copy_that_a_handler_forks_does_not_answer(launch):
    outcomes: set[Outcome] = set()
    async with rig(launch, concurrency=1) as here:
        for number in range(3):
            here.engine.add(f"a{number}", task="fork_and_return")
            outcomes.update(await here.ends(f"a{number}"))
    assert len(outcomes) == 1


async def test_an_alarm_that_a_handler_leaves_behind_is_not_the_next_ones_death(launch):
    async with rig(launch, concurrency=1) as here:
        here.engine.add("a", task="leave_alarm")
        await here.ends("a")
        here.engine.add("b", task="short_nap")
        assert await here.ends("b") == [Completed(str(sys.getrecursionlimit()).encode())]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no limits for memory here")
async def test_a_job_that_takes_more_memory_than_it_may_fails(launch):
    outcome = await run(launch, "eat")
    assert isinstance(outcome, Retried)
    assert outcome.error.type == "MemoryError"


async def test_progress_is_told_the_newest_in_the_end_and_not_all_of_it(launch, said):
    async with rig(launch) as here:
        here.engine.add("a", task="tell")
        await said.wait("told")
        await here.engine.until(lambda: bool(here.engine.told) and here.engine.told[-1][1].current == 2_000)
        assert len(here.engine.told) < 200


@pytest.mark.parametrize("name", ["extend", "aextend"])
async def test_it_can_ask_for_more_time(launch, name):
    outcome = await run(launch, name, timeout_ms=10_000)
    assert isinstance(outcome, Completed)
    before, answer, after = literal_eval(outcome.result.decode())
    assert before <= 10
    assert answer is True
    assert 90 < after <= 100


async def test_more_time_counts(launch, said):
    async with rig(launch) as here:
        here.engine.add("a", task="linger", timeout_ms=2_000)
        (outcome,) = await here.ends("a")
    assert isinstance(outcome, Completed)


async def test_a_task_that_the_process_does_not_know_is_parked(said):
    first, *more = job_program.specs()
    unknown = task(lambda: None, name="unknown", run_in=RunIn.PROCESS)
    async with Rig(first, more=[*more, unknown], launch=launch_of(said)) as here:
        here.engine.add("a", task="unknown")
        assert await here.ends("a") == [Unroutable()]


async def test_it_is_replaced_after_so_many_jobs(said):
    pids: list[Outcome] = []
    async with rig(launch_of(said, own=ProcessLimits(jobs=3)), concurrency=1) as here:
        for number in range(7):
            here.engine.add(f"a{number}", task="pid")
            pids += await here.ends(f"a{number}")
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


async def test_one_that_has_nothing_to_do_ends(said):
    async with rig(launch_of(said, own=ProcessLimits(idle_ms=500))) as here:
        here.engine.add("a", task="pid")
        (outcome,) = await here.ends("a")
        assert isinstance(outcome, Completed)
        await gone(int(outcome.result))
        here.engine.add("b", task="pid")
        await here.ends("b")


async def test_when_none_can_be_started_only_jobs_that_need_one_are_parked(said, caplog):
    own = ProcessLimits(backoff=Backoff.fixed(0.01), probe_ms=300)
    broken = said.path.with_name("broken")
    broken.touch()
    sound = launch_of(said)
    program = f'test -e {broken} && exit 1; exec "$@"'
    launch = Launch(lambda number: ["/bin/sh", "-c", program, "-", *sound.command(number)], sound.environment, own)
    first, *more = job_program.specs()
    healthy = task(lambda: None, name="healthy")
    async with Rig(first, more=[*more, healthy], launch=launch) as here:
        here.engine.add("a", task="pid")
        assert await here.ends("a") == [Unroutable()]
        assert "no job process can be started" in (here.worker.trouble or "")
        here.engine.add("b", task="pid")
        here.engine.add("h", task="healthy")
        assert await here.ends("b", "h") == [Unroutable(), Completed(b"None")]
        await here.engine.until(lambda: here.engine.offered == {"healthy"})  # the others stay where they are
        broken.unlink()
        await here.engine.until(lambda: "pid" in here.engine.offered)
        here.engine.add("c", task="pid")
        (outcome,) = await here.ends("c")
        assert isinstance(outcome, Completed)
        assert here.worker.trouble is None
    assert caplog.text.count(" parked=") == 1
    assert "processes_restored" in caplog.text


async def test_a_stop_waits_for_them_and_then_kills_them(launch, said):
    async with rig(launch, grace_ms=200) as here:
        pid = await begun(here, said, "hang")
        here.worker.stop()
        assert await here.ended() is ExitStatus.OK
    assert not alive(pid)
    assert here.engine.settled == []
    assert here.engine.left == 1


async def test_a_stop_lets_them_finish(launch, said):
    async with rig(launch) as here:
        await begun(here, said, "short_nap")
        here.worker.stop()
        assert await here.ended() is ExitStatus.OK
    (outcome,) = here.engine.outcomes("a")
    assert isinstance(outcome, Completed)


async def test_a_persistent_job_is_ended_at_a_stop(launch, said):
    async with rig(launch) as here:
        pid = await begun(here, said, "hang", shape=Shape(persistent=True))
        here.worker.stop()
        assert await here.ended() is ExitStatus.OK
    assert not alive(pid)
    assert here.engine.outcomes("a") == [Released()]


async def test_a_worker_that_cannot_start_them_says_so_at_once():
    with pytest.raises(InvalidArgument, match=r'run_in="process".*tenure worker MODULE:APP'):
        Rig(task(lambda: None, run_in=RunIn.PROCESS))


@pytest.fixture(autouse=True)
def no_process_is_left(said: Said) -> Iterator[None]:
    yield
    left = [int(line[1]) for line in said.lines() if line[0] != "tidied" and alive(int(line[1]))]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
