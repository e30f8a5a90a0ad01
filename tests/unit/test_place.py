"""Where a handler is asked to run."""

import pytest

from tenure import Tenure
from tenure.core.errors import InvalidArgument
from tenure.core.task import BatchRule, RunIn


def plain(number: int) -> None: ...


async def coroutine(number: int) -> None: ...


@pytest.fixture
def app():
    return Tenure("redis://localhost:1")


@pytest.mark.parametrize(
    ("function", "run_in"),
    [
        (plain, None),
        (plain, "thread"),
        (plain, "process"),
        (coroutine, None),
        (coroutine, "loop"),
        (coroutine, "process"),
    ],
)
def test_where_it_can_run(app, function, run_in):
    task = app.task(run_in=run_in)(function)
    assert task.spec.run_in == run_in
    assert task.spec.max_memory == 0


def test_the_limit_of_memory_is_in_megabytes(app):
    task = app.task(run_in="process", max_memory=100)(plain)
    assert task.spec.run_in is RunIn.PROCESS
    assert task.spec.max_memory == 100 * 1024 * 1024


def test_a_handler_of_raw_payloads(app):
    handler = app.handler("q", run_in="process", max_memory=64)(plain)
    assert (handler.spec.run_in, handler.spec.max_memory) == (RunIn.PROCESS, 64 * 1024 * 1024)


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (plain, {"run_in": "loop"}, "run_in must be 'thread' or 'process', got 'loop'. plain is not async"),
        (coroutine, {"run_in": "thread"}, "run_in must be 'loop' or 'process', got 'thread'. coroutine is an async"),
        (plain, {"run_in": "fork"}, "run_in must be one of 'loop', 'thread', 'process', got 'fork'"),
        (plain, {"run_in": 1}, "run_in must be .*, got 1"),
        (plain, {"run_in": "process", "max_memory": 15}, "max_memory"),
        (plain, {"run_in": "process", "max_memory": 1.5}, "max_memory"),
        (plain, {"max_memory": 100}, "run_in must be .* with max_memory"),
        (plain, {"run_in": "thread", "max_memory": 100}, "run_in must be .* with max_memory"),
    ],
)
def test_what_cannot_be_is_refused(app, function, options, text):
    with pytest.raises(InvalidArgument, match=text):
        app.task(**options)(function)
    with pytest.raises(InvalidArgument, match=text):
        app.handler("q", **options)(function)
    assert not app.tasks
    assert not app.handlers


def test_batches_run_in_the_worker(app):
    def many(jobs: list) -> None: ...

    assert app.handler("q", batch=5)(many).spec.batch == BatchRule(5)
    with pytest.raises(InvalidArgument, match="batch"):
        app.handler("other", batch=5, run_in="process")(many)
