"""Tasks that run the jobs of an earlier name or signature."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from tenure import Tenure
from tenure.app.earlier import MAX_ACCEPTED
from tenure.core.errors import InvalidArgument, PayloadInvalid
from tenure.core.task import Arguments
from tests.support.fakes import FakeRunner, recorder

LIST = "must be names of tasks, as in"


@pytest.fixture
def app() -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=recorder(), runner=FakeRunner())


def send(message: str, *, on: date | None = None) -> None: ...


def send_v1(to: str, subject: str = "none") -> dict[str, Any]:
    return {"message": f"{subject} for {to}"}


def decoded(app: Tenure, task: str, payload: bytes) -> Arguments:
    """What a worker of the app calls the function with."""
    (decode,) = (spec.decode for spec in app.specs() if spec.name == task)
    assert decode is not None
    return decode(payload)


def test_an_earlier_name_is_a_task_of_the_worker_with_the_same_function_and_options(app: Tenure) -> None:
    task = app.task(name="send.v2", accepts=["send", "mail"], queue="mails", timeout=5)(send)
    assert [(spec.name, spec.queue, spec.function, spec.timeout_ms) for spec in app.specs()] == [
        (name, "mails", send, 5_000) for name in ("send.v2", "send", "mail")
    ]
    assert list(app.tasks) == ["send.v2"]
    assert decoded(app, "send", b'[["hello"],{"on":"2026-12-24"}]') == (("hello",), {"on": date(2026, 12, 24)})
    task.enqueue("hello")
    assert [job.task for job in app.engine.enqueued] == ["send.v2"]  # type: ignore[attr-defined]


def test_jobs_of_an_earlier_name_go_through_its_function(app: Tenure) -> None:
    app.task(name="send.v2", accepts={"send": send_v1, "mail": None})(send)
    assert decoded(app, "send", b'[["a@x"],{"subject":"hello"}]') == ((), {"message": "hello for a@x"})
    assert decoded(app, "send", b'[["a@x"],{}]') == ((), {"message": "none for a@x"})
    assert decoded(app, "mail", b'[["hello"],{}]') == decoded(app, "send.v2", b'[["hello"],{}]') == (("hello",), {})
    with pytest.raises(PayloadInvalid, match="argument 'subject'"):
        decoded(app, "send", b'[["a@x",1],{}]')


def test_jobs_of_an_earlier_signature_run_where_they_do_not_fit_the_one_of_today(app: Tenure) -> None:
    app.task(name="send", accepts={"send": send_v1})(send)
    assert len(app.specs()) == 1
    assert decoded(app, "send", b'[["a@x","hello"],{}]') == ((), {"message": "hello for a@x"})
    assert decoded(app, "send", b'[["fits both"],{}]') == (("fits both",), {})
    with pytest.raises(PayloadInvalid, match=r"Task send: .*'cc'.* see accepts= of @app\.task, and retry the job\."):
        decoded(app, "send", b'[["a@x"],{"cc":"b@x"}]')


def test_a_removed_argument_names_the_way_out(app: Tenure) -> None:
    app.task(name="send")(send)
    with pytest.raises(
        PayloadInvalid, match=r"Task send: too many positional arguments\. If the task has changed since"
    ):
        decoded(app, "send", b'[["a@x","hello"],{}]')


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "of accepts= returns must be a dict of arguments by name, got NoneType"),
        (["hello"], "must be a dict of arguments by name, got list"),
        ({"mesage": "hello"}, "Task send.v2: missing a required argument: 'message'"),
        ({}, "Task send.v2: missing a required argument"),
        ({"message": 7}, "Task send.v2: argument 'message': Expected `str`, got `int`"),
        ({"message": "hello", "on": "2026-12-24"}, "Task send.v2: argument 'on': a str would decode to"),
    ],
)
def test_an_answer_that_is_no_call_of_today_is_refused(app: Tenure, answer: Any, message: str) -> None:
    def upgrade(to: str) -> Any:
        return answer

    app.task(name="send.v2", accepts={"send": upgrade})(send)
    with pytest.raises(PayloadInvalid, match=message):
        decoded(app, "send", b'[["a@x"],{}]')


def _odd(to: Tenure) -> dict[str, Any]:
    return {}


async def _async(to: str) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    ("accepts", "message"),
    [
        ("send", LIST),
        (7, LIST),
        ([7], "accepts: name must be a str, got int"),
        (["a b"], "accepts: name must be 1 to 200 letters"),
        ({"send": "send_v1"}, "accepts: 'send' must be None, or a function that is not async, got str"),
        ({"send": _async}, "accepts: 'send' must be None, or a function that is not async, got _async"),
        ([f"send{n}" for n in range(MAX_ACCEPTED + 1)], "accepts must be at most 20 names, got 21"),
        ({"send": dict}, "accepts: 'send' must be None, or a function that is not async, got dict"),
        ({"send": lambda to: {}, "mail": _odd}, "Task mail: parameter 'to' must be of a type"),
    ],
)
def test_wrong_names_and_functions_are_refused(app: Tenure, accepts: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        app.task(name="send.v2", accepts=accepts)(send)
    assert not app.tasks


def _taken(app: Tenure) -> list[Callable[[], object]]:
    return [
        lambda: app.task(name="send")(send),
        lambda: app.task(name="send.v3", accepts=["send"])(send),
        lambda: app.task(name="send.v3", accepts=["send.v2"])(send),
    ]


@pytest.mark.parametrize("n", range(3))
def test_a_name_that_another_task_has_or_accepts_is_refused(app: Tenure, n: int) -> None:
    app.task(name="send.v2", accepts=["send"])(send)
    with pytest.raises(InvalidArgument, match=r"There already is a task 'send\.v2'"):
        _taken(app)[n]()
    assert list(app.tasks) == ["send.v2"]
