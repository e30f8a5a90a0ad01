"""A rolling restart of worker processes that are played by a test: what a SIGHUP means while one is under way."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Any

import pytest

from tenure.processes import parent as module
from tenure.processes.child import WorkerProcess
from tenure.processes.config import ParentConfig
from tenure.processes.parent import Parent
from tenure.processes.spawn import FirstProcess
from tests.support.crew import Crew, Played


@pytest.fixture
async def crew(monkeypatch):
    """Two processes that are ready."""
    monkeypatch.setattr(module, "has_terminal", lambda: False)
    monkeypatch.setattr(module, "spawn", lambda *_, **__: object())
    crew = Crew(2)
    monkeypatch.setattr(WorkerProcess, "open", crew.start)
    crew.running = running = asyncio.create_task(crew.parent.run())
    (await crew.next()).ready()
    (await crew.next()).ready()
    assert crew.current == [1, 2]
    yield crew
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_hup_while_an_old_process_finishes_its_jobs_rolls_all_of_them_again(crew, caplog):
    first, second = crew.all
    crew.hup()
    third = await crew.next()
    third.ready()
    assert first.is_leaving
    crew.hup()
    crew.hup()  # one remembered ask is enough
    assert not third.is_leaving
    first.end()
    fourth = await crew.next()
    assert fourth.slot == 1  # the oldest first
    fourth.ready()
    second.end()
    fifth = await crew.next()
    assert fifth.slot == 0
    fifth.ready()
    third.end()
    assert crew.current == [fifth.pid, fourth.pid]
    crew.hup()  # all is over: a roll like any other
    assert (await crew.next()).slot == 1


async def test_a_new_process_that_hangs_is_superseded(crew, caplog):
    caplog.set_level("INFO")
    crew.hup()
    hanging = await crew.next()
    crew.hup()
    assert hanging.is_leaving
    assert caplog.text.count("restart_started processes=2") == 2
    hanging.ready()  # too late: nothing of the code of before takes over
    assert crew.current == [1, 2]
    hanging.end()
    for slot, old in ((0, 1), (1, 2)):
        fresh = await crew.next()
        assert fresh.slot == slot
        fresh.ready()
        crew.all[old - 1].end()
    assert crew.current == [4, 5]
    assert "restart_failed" not in caplog.text


async def test_a_hup_while_the_system_starts_the_new_process_is_not_forgotten(crew, monkeypatch):
    async def start(*words: Any, **options: Any) -> Played:
        monkeypatch.setattr(WorkerProcess, "open", crew.start)
        crew.hup()
        return await crew.start(*words, **options)

    monkeypatch.setattr(WorkerProcess, "open", start)
    crew.hup()
    early = await crew.next()
    assert early.is_leaving
    early.end()
    assert (await crew.next()).slot == 0


async def test_after_one_that_was_given_up_it_can_be_asked_for_anew(crew, caplog):
    crew.hup()
    (await crew.next()).end(1)
    assert "restart_failed slot=0" in caplog.text
    assert crew.current == [1, 2]
    crew.hup()
    assert (await crew.next()).slot == 0


async def test_a_process_that_does_not_end_is_killed(crew):
    crew.parent._signalled(signal.SIGTERM)
    async with asyncio.timeout(30):
        for one in crew.all:
            await one.killed.wait()


async def test_its_own_end_waits_for_the_release_of_jobs_but_not_after_a_third_signal(crew, caplog):
    caplog.set_level("INFO")
    for one in crew.all:
        one.keeping = asyncio.create_task(asyncio.sleep(600))
    for then in ("stopping", "stopping hard"):
        crew.parent._signalled(signal.SIGTERM)
        assert caplog.messages[-1].startswith(
            f"signal_received name=SIGTERM then={repr(then) if ' ' in then else then} "
        )
    for one in crew.all:
        assert not one.killed.is_set()
        one.end(3)
    await asyncio.sleep(0.05)
    assert not crew.running.done()
    crew.parent._signalled(signal.SIGTERM)
    assert caplog.messages[-1].startswith("signal_received name=SIGTERM then=killing ")
    async with asyncio.timeout(30):
        assert await crew.running == 3


async def test_a_reload_continues_after_the_system_could_not_start_a_process(crew, monkeypatch):
    async def refuse(*_: object, **__: object) -> None:
        monkeypatch.setattr(WorkerProcess, "open", crew.start)
        raise OSError("no more processes")

    monkeypatch.setattr(WorkerProcess, "open", refuse)
    crew.hup()
    crew.parent._files_changed(1, "a.py")
    for one in list(crew.all):
        one.end()
    assert (await crew.next()).slot == 0


async def test_a_signal_that_came_before_the_parent_was_loaded_stops_it(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(module, "spawn", refuse)
    early = FirstProcess((), None, [signal.SIGTERM])
    async with asyncio.timeout(30):
        assert await Parent(ParentConfig(lambda descriptor: []), early).run() == 0
