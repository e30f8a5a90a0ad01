"""Arguments and results of types that need a codec: models of pydantic, and classes of the user."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pydantic
import pytest

import tenure
from tenure import Codec, Job, Tenure
from tenure.core.encoding.conversion import MAX_CODECS, Conversion, alike
from tenure.core.encoding.signature import Results, Signature
from tenure.core.errors import InvalidArgument, PayloadInvalid
from tests.support.fakes import FakeRunner, recorder

SECRET = "hunter2-secret"


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return self.cents


class Euros(Money):
    pass


class Array:
    """As an array of numpy: `==` answers no bool."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def __eq__(self, other: object) -> Any:
        return Array(1)

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


class Session:
    pass


class Address(pydantic.BaseModel):
    city: str
    zip_code: str = pydantic.Field("24103", alias="zip")


class Order(pydantic.BaseModel):
    number: int
    on: date
    to: Address
    labels: set[str] = set()


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: datetime
    labels: frozenset[str]


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Login(pydantic.BaseModel):
    password: pydantic.SecretStr


@dataclass
class Basket:
    orders: list[Order]
    total: Money | None = None


FREE = Money(0)
MONEY = Codec(Money, encode=lambda money: money.cents, decode=lambda kind, cents: kind(cents))
ARRAY = Codec(Array, encode=lambda array: list(array.numbers), decode=lambda kind, numbers: kind(*numbers))
CONVERSION = Conversion([MONEY, ARRAY])
ORDER = Order(number=1, on=date(2026, 12, 24), to=Address(city="Kiel", zip="24105"), labels={"fragile"})


def signature(annotation: Any, conversion: Conversion = CONVERSION) -> Signature:
    def task(value: Any) -> None: ...

    task.__annotations__ = {"value": annotation}
    return Signature("shop.task", task, conversion)


def back(value: Any, annotation: Any) -> Any:
    task = signature(annotation)
    (found,), named = task.decode(task.encode((value,), {}))
    assert named == {}
    return found


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (ORDER, Order),
        (None, Order | None),
        ([ORDER, ORDER], list[Order]),
        ({"a": ORDER}, dict[str, Order | None]),
        (Strict(at=datetime(2026, 1, 1, tzinfo=UTC), labels=frozenset("ab")), Strict),
        (Numbers([1, 2]), Numbers),
        (Basket([ORDER], Money(5)), Basket),
        (Money(5), Money),
        (Euros(5), Euros),
        ((Money(5), "a"), tuple[Money, str]),
        ([1, "a", None], list[object]),
    ],
)
def test_what_goes_in_comes_back(value: Any, annotation: Any) -> None:
    found = back(value, annotation)
    assert found == value
    assert type(found) is type(value)


def test_a_codec_of_arrays_is_trusted() -> None:
    assert back(Array(1, 2), Array).numbers == (1, 2)


def test_the_first_codec_that_fits_is_used() -> None:
    euros = Codec(Euros, encode=lambda euros: f"{euros.cents} EUR", decode=lambda kind, text: kind(int(text[:-4])))
    for codecs, wanted in (([euros, MONEY], b'[["5 EUR"],{}]'), ([MONEY, euros], b"[[5],{}]")):
        assert signature(Euros, Conversion(codecs)).encode((Euros(5),), {}) == wanted


def test_a_codec_of_the_app_comes_before_pydantic() -> None:
    codec = Codec(Address, encode=lambda at: at.city, decode=lambda kind, city: kind(city=city))
    assert signature(Address, Conversion([codec])).encode((Address(city="Kiel", zip="24103"),), {}) == b'[["Kiel"],{}]'


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ({"number": 1, "on": "2026-12-24", "to": {"city": "Kiel"}}, Order),
        (Euros(5), Money),
        (Login(password=pydantic.SecretStr(SECRET)), Login),  # it would come back as asterisks
        (Order.model_construct(number=SECRET, on=None, to=None), Order),
        (5, Money),
        (Session(), list[object]),
    ],
)
def test_what_would_come_back_different_is_refused(value: Any, annotation: Any) -> None:
    with pytest.raises(PayloadInvalid, match="argument 'value': ") as caught:
        signature(annotation).encode(([value] if annotation == list[object] else value,), {})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "content", "reason"),
    [
        (Order, b'{"number":1,"on":"2026-12-24"}', "Expected `Order`, missing - at `to`."),
        (Order, b'{"number":"hunter2-secret","on":"2026-12-24","to":{"city":""}}', "int_parsing - at `number`."),
        (Order, b'{"number":1,"on":"2026-12-24","to":{"city":"","zip":[]}}', "string_type - at `to`."),
        (Numbers, b'["hunter2-secret"]', "Expected `Numbers`, int_parsing."),
        (dict[str, Numbers], b'{"hunter2-secret":{"hunter2-secret":1}}', "Expected `Numbers`, list_type."),
        (Money, b'{"hunter2-secret":1}', ""),
        (Array, b"5", "it does not fit Array (TypeError)."),
    ],
)
def test_a_payload_that_does_not_fit_quotes_no_value(annotation: Any, content: bytes, reason: str) -> None:
    strict = Codec(Money, encode=int, decode=lambda kind, cents: kind(int(cents)))
    task = signature(annotation, Conversion([strict, ARRAY]))
    with pytest.raises(PayloadInvalid) as caught:
        task.decode(b"[[" + content + b"],{}]")
    said = str(caught.value)
    assert reason in said
    assert "hunter2" not in said


def _fail(*_: object) -> object:
    raise ValueError(SECRET)


@pytest.mark.parametrize("codec", [Codec(Session, _fail, print), Codec(Session, str, _fail)])
def test_a_codec_that_fails_refuses_the_call(codec: Codec) -> None:
    with pytest.raises(PayloadInvalid, match=r"argument 'value': it does not fit Session \(ValueError\)\.$"):
        signature(Session, Conversion([codec])).encode((Session(),), {})


def test_a_codec_must_return_plain_data() -> None:
    codec = Codec(Session, encode=lambda _: object(), decode=print)
    with pytest.raises(PayloadInvalid, match=" object "):
        signature(Session, Conversion([codec])).encode((Session(),), {})


def test_results() -> None:
    results = Results("t", Order, CONVERSION)
    assert results.decode(results.encode(ORDER)) == ORDER
    bare = Results("t", conversion=CONVERSION)
    assert bare.decode(bare.encode(Basket([], Money(5)))) == {"orders": [], "total": 5}
    with pytest.raises(PayloadInvalid, match="The result of t cannot be encoded: a Session cannot be written"):
        results.encode(Session())


class Engine(pydantic.BaseModel):
    kind: str = "engine"


class Turbo(Engine):
    boost: int


class Battery(pydantic.BaseModel):
    volts: int


class Car(pydantic.BaseModel):
    engine: Engine


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Point3(Point):
    z: int = 0


@pytest.mark.parametrize(
    ("annotation", "value", "read"),
    [
        (Engine, Turbo(boost=2), {"kind": "engine", "boost": 2}),
        (Engine, Battery(volts=12), {"volts": 12}),
        (Engine | None, Battery(volts=12), {"volts": 12}),
        (list[Engine], [Engine(), Turbo(boost=2)], [{"kind": "engine"}, {"kind": "engine", "boost": 2}]),
        (Car, Car(engine=Turbo(boost=2)), {"engine": {"kind": "engine", "boost": 2}}),
        (Point, Point3(1, 2, 3), {"x": 1, "y": 2, "z": 3}),
        (Point, {"x": 1, "more": 2}, {"x": 1, "more": 2}),
        (Point, {"x": 1}, {"x": 1}),
        (date, "2026-05-01", "2026-05-01"),
        (Engine, Engine(kind="x"), Engine(kind="x")),
        (list[Engine], (Engine(),), [Engine()]),
        (float, 1, 1.0),
    ],
    ids=str,
)
def test_a_result_comes_back_equal_or_as_plain_data(annotation: Any, value: object, read: object) -> None:
    results = Results("t", annotation)
    back = results.decode(results.encode(value))
    assert (back, type(back)) == (read, type(read))


class Cat(pydantic.BaseModel):
    kind: typing.Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: typing.Literal["dog"] = "dog"
    tricks: list[str] = []


Pet: typing.TypeAlias = typing.Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Pet, Cat(lives=7)),
        (Pet, Dog(tricks=["roll"])),
        (Pet | None, None),
        (Pet | None, Dog()),
        (list[Pet], [Cat(), Dog()]),
        (dict[str, Pet], {"a": Dog()}),
        (typing.Annotated[Cat | Dog | None, pydantic.Field(discriminator="kind")], Dog()),
    ],
    ids=str,
)
def test_a_union_of_models_with_a_discriminator(annotation: Any, value: object) -> None:
    built = signature(annotation)
    assert built.decode(built.encode((value,), {})) == ((value,), {})
    results = Results("t", annotation)
    assert results.decode(results.encode(value)) == value


@dataclass
class Owner:
    pet: Point | Point3


@pytest.mark.parametrize("annotation", [Cat | Dog, list[Cat | Dog], Point | Point3 | None, Owner, str | bytes], ids=str)
def test_a_union_that_json_does_not_show_is_refused_as_a_result_as_it_is_as_an_argument(annotation: Any) -> None:
    for define in (signature, functools.partial(Results, "t")):
        with pytest.raises(InvalidArgument, match=r"without ambiguity, .* Type unions"):
            define(annotation)


@pytest.mark.parametrize("annotation", [typing.NoReturn, typing.Self, typing.Iterable[int], Cat | None], ids=str)
def test_other_annotations_of_a_result_are_accepted(annotation: Any) -> None:
    assert Results("t", annotation).encode(None) == b"null"


def test_a_model_that_is_none_of_a_union_is_refused() -> None:
    built = signature(Pet)
    with pytest.raises(PayloadInvalid, match=r"argument 'value': .*Cat \| .*Dog"):
        built.encode((Engine(),), {})
    with pytest.raises(PayloadInvalid, match=r"argument 'value': .*Cat \| .*Dog"):
        built.decode(b'[[{"kind":"cow"}],{}]')
    with pytest.raises(InvalidArgument, match="Use one of the types"):
        signature(Cat | Dog)


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (Session, "Session"),
        (list[Session], "Session"),
        (dict[str, Session | None], "Session"),
        (Basket, "Money"),
        (Callable[[int], int], "Callable"),
        (pydantic.HttpUrl, "HttpUrl"),
        (complex, "complex"),
    ],
)
def test_a_type_that_nothing_encodes_is_refused_when_the_task_is_defined(annotation: Any, named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        signature(annotation, Conversion())
    said = str(caught.value)
    assert said.startswith("Task shop.task: parameter 'value' must be of a type that JSON can hold without ambiguity")
    assert f"Nothing encodes a {named}. " in said
    assert f"Tenure(codecs=[Codec({named}, " in said


def test_a_default_stands_for_a_type_that_nothing_encodes() -> None:
    def task(number: int, session: Session | None = None) -> None: ...

    found = Signature("t", task)
    assert found.decode(found.encode((1,), {})) == ((1,), {})
    with pytest.raises(PayloadInvalid, match="argument 'session': a Session cannot be written as JSON"):
        found.encode((1, Session()), {})


def test_two_models_in_one_union_are_refused_when_the_task_is_defined() -> None:
    with pytest.raises(InvalidArgument, match="must be of a type that JSON can hold without ambiguity"):
        signature(Order | Address)


@pytest.fixture
def app() -> Tenure:
    return Tenure("redis://nowhere.invalid", protocol=recorder(), runner=FakeRunner(), codecs=[MONEY])


def test_the_codecs_of_an_app_reach_its_tasks_handlers_and_handles(app: Tenure) -> None:
    @app.task(name="pay")
    def pay(sum: Money = FREE) -> Money:
        return sum

    @app.handler("q")
    def handle(job: Job) -> None: ...

    pay.enqueue(Money(5))
    pay.using(unique=True).enqueue()
    first, _ = typing.cast(Any, app.engine).enqueued
    assert first.payload == b"[[5],{}]"
    assert all(spec.encode_result(Money(7)) == b"7" for spec in app.specs())
    results = pay.job("a")._results
    assert results is not None
    assert results.decode(b"7") == Money(7)


def _one(job: Job) -> None: ...
def _later(number: int, job: tenure.Job | None = None) -> None: ...


@pytest.mark.parametrize("function", [_one, _later])
def test_a_task_with_a_parameter_for_the_job_is_refused(app: Tenure, function: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"\(job\) must be an argument of a call, got a Job\. .*current_job\(\)"):
        app.task(function)
    assert not app.tasks


def test_a_class_of_the_user_that_is_called_job_is_an_argument(app: Tenure) -> None:
    @dataclass
    class Job:
        number: int

    def build(job: Job) -> None: ...

    build.__annotations__ = {"job": Job}
    assert app.task(name="build")(build).enqueue(Job(1)).created


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Codec("Money", int, int), "codec: kind must be a class, got str"),  # type: ignore[arg-type]
        (lambda: Codec(Money, None, int), "codec of Money: encode must be a function, got NoneType"),  # type: ignore[arg-type]
        (lambda: Codec(Money, int, "int"), "codec of Money: decode must be a function, got str"),  # type: ignore[arg-type]
        (lambda: Codec(Basket, int, int), "codec: kind must be a class that cannot be encoded without one, got Basket"),
        (lambda: Codec(datetime, int, int), "cannot be encoded without one, got datetime"),
        (lambda: Codec(object, int, int), "cannot be encoded without one, got object"),
        (lambda: Tenure(codecs=MONEY), "codecs must be a list of Codec"),  # type: ignore[arg-type]
        (lambda: Tenure(codecs=[Money]), "codecs must be a list of Codec"),  # type: ignore[list-item]
        (lambda: Tenure(codecs=[MONEY] * (MAX_CODECS + 1)), "codecs must be at most 100, got 101"),
    ],
)
def test_wrong_codecs_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


class Text(str):
    pass


@pytest.mark.parametrize("annotation", [dict, dict[str, Any], dict[str, object]])
@pytest.mark.parametrize(
    "value", [{}, {"a": [1, 2.5, None, True, "x", {"b": []}]}, {"a": (1, [2**70])}, {"a" * 9: {"b": {"c": -1}}}]
)
def test_a_dict_of_plain_values_travels_as_it_is(annotation: Any, value: object) -> None:
    def function(value: Any, more: Any = None) -> None: ...

    function.__annotations__ = {"value": annotation, "more": list}
    signature = Signature("t", function)
    (first, second), named = signature.decode(signature.encode((value, [value]), {}))
    assert (alike(value, first), alike([value], second), named) == (True, True, {})


@pytest.mark.parametrize(
    "value",
    [
        {1: "a"},
        {"a": {2: "b"}},
        {"a": float("nan")},
        {"a": [float("-inf")]},
        {"a": b"bytes"},
        {"a": datetime(2026, 1, 1)},
        {"a": Text("b")},
        {"a": [{Text("b")}]},
        {"a": Address(city="Kiel", zip="24103")},
        {"a": "\ud800"},
        [{}],
        "a",
    ],
)
@pytest.mark.parametrize("annotation", [dict, dict[str, Any]])
def test_a_dict_refuses_values_that_would_come_back_as_others(annotation: Any, value: object) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__ = {"value": annotation}
    with pytest.raises(PayloadInvalid, match="Task t:"):
        Signature("t", function).encode((value,), {})


def test_a_list_as_deep_as_json_may_be_is_taken_and_a_deeper_one_is_refused() -> None:
    def function(value: list) -> None: ...

    value: list[Any] = []
    for _ in range(60):
        value = [value]
    signature = Signature("t", function)
    assert signature.decode(signature.encode((value,), {})) == ((value,), {})
    for _ in range(10):
        value = [value]
    with pytest.raises(PayloadInvalid, match="deeper than 64"):
        signature.encode((value,), {})
