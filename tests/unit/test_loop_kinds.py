"""The event loops that a worker may run on."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from tenure.core.errors import NotConfigured
from tenure.runtime.handlers.loop import kept_running, loop_factory
from tenure.runtime.loop_kind import LoopKind, check_loop


@pytest.mark.parametrize("kind", LoopKind)
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_task_that_raises_such_an_error_ends_the_loop_only_where_it_is_not_kept_running(
    kind: LoopKind, error: type[BaseException]
) -> None:
    if kind is LoopKind.UVLOOP:
        pytest.importorskip("uvloop")

    async def leave() -> None:
        raise error(7)

    async def kept() -> str:
        with kept_running():
            try:
                await asyncio.gather(leave(), asyncio.sleep(0))
            except BaseException as raised:
                await asyncio.sleep(0)
                return f"{type(raised).__name__} {raised.args}"
        return "nothing"

    with asyncio.Runner(loop_factory=loop_factory(kind)) as runner:
        assert type(runner.get_loop()).__mro__[2].__module__.startswith(("asyncio", "uvloop"))
        assert runner.run(kept()) == f"{error.__name__} (7,)"
        with pytest.raises(error):
            runner.run(leave())


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check_loop(LoopKind.ASYNCIO)
    with pytest.raises(NotConfigured, match=r"uvloop, which is not installed.*tenure\[uvloop\]"):
        loop_factory(LoopKind.UVLOOP)
