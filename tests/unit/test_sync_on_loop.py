"""Blocking calls on a running event loop, and cells of a notebook that are run again."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any

import pytest

from tenure import InvalidArgument, Router, Settings, SyncOnLoop, SyncOnLoopWarning, Tenure
from tests.support.fakes import double


class Runner:
    """Answers every blocking call with nothing."""

    def run(self, steps: Any) -> None:
        steps.close()

    async def arun(self, steps: Any) -> None:
        steps.close()


def app_of(policy: str = "warn") -> Tenure:
    runner: Any = Runner()
    return Tenure(sync_on_loop=policy, runner=runner)


async def test_an_enqueue_warns_once_for_each_place_and_names_its_twin() -> None:
    task = app_of().task(name="t")(lambda: None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            task.enqueue()
        task.enqueue()
    assert [(one.category, one.filename) for one in caught] == [(SyncOnLoopWarning, __file__)] * 2
    assert "await ....aenqueue(...)" in str(caught[0].message)


async def test_a_result_is_refused_at_once() -> None:
    job = app_of().task(name="t")(lambda: None).job("a")
    with pytest.raises(SyncOnLoop, match=r"await \.\.\.\.aresult\(\.\.\.\)"):
        job.result()
    with pytest.raises(SyncOnLoop, match="awatch"):
        job.watch()


async def test_all_calls_are_refused_or_allowed_as_the_app_wants_it() -> None:
    with pytest.raises(SyncOnLoop, match="aqueues"):
        app_of("error").inspect.queues()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        app_of("allow").inspect.queues()


def test_without_a_loop_there_is_no_warning() -> None:
    assert Settings().sync_on_loop == "warn"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        app_of().task(name="t")(lambda: None).enqueue()
    with pytest.raises(InvalidArgument, match="sync_on_loop must be one of warn, error, allow"):
        Tenure(sync_on_loop="never")


def test_a_cell_of_a_notebook_may_be_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [lambda: 1, lambda: 2]
    for function in functions:
        function.__module__, function.__qualname__ = "__main__", "f"
    program, notebook = ModuleType("__main__"), ModuleType("__main__")
    program.__file__ = "shop.py"
    app = Tenure()
    app.task(name="f")(functions[0])
    monkeypatch.setitem(sys.modules, "__main__", program)
    with pytest.raises(InvalidArgument, match="task 'f'"):
        app.task(name="f")(functions[1])
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    app.task(name="f")(functions[1])
    assert app.tasks["f"]() == 2


def test_a_cell_of_a_notebook_may_include_a_router_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    app, router = Tenure(), Router()
    task = router.task(name="f")(double)
    app.include(router)
    app.include(router, prefix="math.", queue="slow")
    assert app.tasks == {"math.f": task}
    assert [(spec.name, spec.queue) for spec in app.specs()] == [("math.f", "slow")]
    later = Tenure()
    later.include(router)
    assert [(spec.name, spec.queue) for spec in later.specs()] == [("f", "default")]
