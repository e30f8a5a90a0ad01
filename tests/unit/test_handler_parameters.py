"""What a raw handler says that it takes, against what it will be given: one job, or a list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

import tenure
from tenure import InvalidArgument, Tenure
from tests.support.fakes import FakeRunner, recorder

if TYPE_CHECKING:
    from tenure import Job


@pytest.fixture
def app() -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=recorder(), runner=FakeRunner())


def one(job: Job) -> None: ...
async def aone(job: tenure.Job) -> None: ...
def perhaps(job: Job | None) -> None: ...
def many(jobs: list[Job]) -> None: ...
async def amany(jobs: Sequence[Job]) -> None: ...
def any_of_them(jobs: Iterable[Job]) -> None: ...
def bare(jobs: list) -> None: ...
def either(jobs: Job | list[Job]) -> None: ...
def says_nothing(jobs) -> None: ...
def anything(jobs: Any) -> None: ...
def unknown(jobs: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821


class Bound:
    def one(self, job: Job) -> None: ...
    def many(self, jobs: list[Job]) -> None: ...


ONE = [one, aone, perhaps, Bound().one]
MANY = [many, amany, any_of_them, bare, Bound().many]
OPEN = [either, says_nothing, anything, unknown]


@pytest.mark.parametrize("function", ONE)
def test_one_job_where_a_list_comes(app: Tenure, function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidArgument, match=rf"{function.__name__}\(job\) must be list\[Job\]") as caught:
        app.handler("q", batch=10)(function)
    assert function.__qualname__ in str(caught.value)
    assert not app.handlers
    app.handler("q")(function)


@pytest.mark.parametrize("function", MANY)
def test_a_list_where_one_job_comes(app: Tenure, function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidArgument, match=rf"{function.__name__}\(jobs\) must be a Job .*batch=50"):
        app.handler("q")(function)
    assert not app.handlers
    app.handler("q", batch=1)(function)


@pytest.mark.parametrize("function", OPEN)
def test_what_does_not_say_is_taken(app: Tenure, function: Callable[..., Any]) -> None:
    app.handler("one")(function)
    app.handler("many", batch=10)(function)
    assert set(app.handlers) == {"one", "many"}
