"""`run_inline`: sync work of a coroutine runs in the thread of its caller, also when the coroutine is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tenure.runtime.handlers.inline import run_inline
from tenure.runtime.handlers.threads import CallThreads, Pools, result_of


def where() -> tuple[bool, bool]:
    """Whether this is the main thread, and whether a loop runs in it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread() is threading.main_thread(), False
    return threading.current_thread() is threading.main_thread(), True


async def called(pools: Pools, work: Callable[[], Any]) -> Any:
    threads = CallThreads(1, pools)
    answer = threads.call(work)
    await answer
    return result_of(answer)


def test_work_runs_in_the_thread_of_the_caller_where_no_loop_runs():
    assert run_inline(lambda pools: called(pools, where)) == (True, False)


def test_an_error_of_work_and_of_the_coroutine_is_raised(caplog):
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run_inline(lambda pools: called(pools, leave))
    assert caplog.records == []


@pytest.mark.parametrize("is_stopped", [True, False], ids=["the loop stops", "Ctrl-C"])
def test_a_coroutine_that_is_interrupted_may_still_call_sync_code(is_stopped):
    ended: list[tuple[bool, bool]] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def main(pools: Pools) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.stop if is_stopped else interrupt)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(await called(pools, where))

    with pytest.raises(RuntimeError if is_stopped else KeyboardInterrupt):
        run_inline(main)
    assert ended == [(True, False)]
