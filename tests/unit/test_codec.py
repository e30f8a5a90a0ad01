"""Payloads and results: what goes in comes back, and what would not is refused."""

import enum
import inspect
import math
import typing
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import limits
from tenure.core.encoding.codec import MAX_JSON_DEPTH, decode_json, encode_json, encode_raw, note_of
from tenure.core.encoding.signature import Results, Signature
from tenure.core.errors import InvalidArgument, PayloadInvalid
from tests.support import untimed  # noqa: F401

SECRET = "hunter2-secret"


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    SMALL = 1


@dataclass
class Point:
    x: int
    y: float = 0.0


class Order(msgspec.Struct):
    id: int
    tags: list[str] = []


class Pair(NamedTuple):
    a: int
    b: str


class Options(TypedDict, total=False):
    deep: bool


@dataclass
class Period:
    start: date
    end: date | datetime


class Range(msgspec.Struct):
    end: date | datetime


class Span(TypedDict, total=False):
    end: NotRequired[date | datetime]


class Calendar(NamedTuple):
    periods: dict[str, list[Span]]


class Tree(msgspec.Struct):
    """Its first field cannot be used because its second cannot."""

    child: "Tree | None"
    end: date | datetime


@dataclass
class Meeting:
    at: datetime


class Booking(msgspec.Struct):
    meetings: list[Meeting]


BERLIN = ZoneInfo("Europe/Berlin")
TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
"""A time that the clocks of Berlin show twice."""
SKIPPED = datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN)
"""A time that the clocks of Berlin never show."""


class Picky(msgspec.Struct):
    word: str

    def __post_init__(self) -> None:
        if self.word == SECRET:
            raise ValueError(f"not {self.word}")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


class TestJson:
    @given(plain)
    def test_plain_data_comes_back(self, value):
        assert decode_json(encode_json(value)) == value

    def test_types_come_back_too(self):
        for value in (True, 1, 1.0, -0.0, "1", None):
            back = decode_json(encode_json(value))
            assert (type(back), repr(back)) == (type(value), repr(value))

    @pytest.mark.parametrize(
        "value",
        [
            math.nan,
            math.inf,
            [-math.inf],
            {"a": {"b": math.nan}},
            {1},
            b"x",
            {1: "a"},
            {None: 1},
            datetime(2020, 1, 1, tzinfo=UTC),
            uuid.UUID(int=0),
            Colour.RED,
            Size.SMALL,
            Point(1),
            Order(1),
            Pair(1, "b"),
            object(),
            "\ud800",
            {"\ud800": 1},
            10**5000,
            nested(65),
            Decimal(1),
            Path("x"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_refused(self, value):
        with pytest.raises(PayloadInvalid):
            encode_json(value)

    def test_a_list_in_itself(self):
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(PayloadInvalid, match="deep"):
            encode_json(circle)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"[1",
            b"[1]x",
            b"\xef\xbb\xbf[1]",
            "[1]".encode("utf-16"),
            b'["\xff"]',
            b'["\\ud800"]',
            b"NaN",
            b"[Infinity]",
            b"1e999",
            b"9" * 5_000,
            b"[" * 100_000,
            b"[" * 65 + b"]" * 65,
            b'{"a":' * 65 + b"1" + b"}" * 65,
            b"{1:2}",
            b"'a'",
        ],
    )
    def test_bytes_that_do_not_decode(self, data):
        with pytest.raises(PayloadInvalid):
            decode_json(data)

    def test_as_deep_as_allowed(self):
        value = nested(MAX_JSON_DEPTH)
        assert decode_json(encode_json(value)) == value

    def test_wide_is_not_deep(self):
        value: list[Any] = [[] for _ in range(1_000)]
        assert decode_json(encode_json(value)) == value

    def test_text_is_not_deep(self):
        value = ["[{" * 1_000, '\\"[' * 1_000, {"[" * 1_000: "\\"}, "]" * 1_000]
        assert decode_json(encode_json(value)) == value

    @pytest.mark.parametrize("end", [b"", b"\\", b'"'])
    def test_a_long_text_is_read_once(self, end):
        data = b"[" * 65 + b'"' + b'\\"' * 500_000 + end
        with pytest.raises(PayloadInvalid, match="64 levels"):
            decode_json(data)


class TestRaw:
    @pytest.mark.parametrize(
        ("payload", "data"),
        [
            (b"\xff\x00", b"\xff\x00"),
            (b"", b""),
            (bytearray(b"a"), b"a"),
            (memoryview(b"a"), b"a"),
            ("é", b"\xc3\xa9"),
            ({"a": [1, None]}, b'{"a":[1,null]}'),
            (None, b"null"),
            (0, b"0"),
            (False, b"false"),
        ],
    )
    def test_raw(self, payload, data):
        assert encode_raw(payload) == data

    @pytest.mark.parametrize("payload", ["\ud800", {1}, math.nan, object()])
    def test_refused(self, payload):
        with pytest.raises(PayloadInvalid):
            encode_raw(payload)


def roundtrip(function: Any, *args: Any, **kwargs: Any) -> Any:
    signature = Signature("t", function)
    args, kwargs = signature.decode(signature.encode(args, kwargs))
    return function(*args, **kwargs)


class TestSignature:
    def test_form_on_the_wire(self):
        def task(path: str, size: int = 128) -> None: ...

        signature = Signature("t", task)
        assert signature.encode(("cat.png",), {"size": 64}) == b'[["cat.png"],{"size":64}]'
        assert signature.encode(("é",), {}) == '[["é"],{}]'.encode()
        assert signature.decode(b' [ ["cat.png"], {} ] ') == (("cat.png",), {})

    def test_all_kinds_of_parameters(self):
        def task(a, /, b: int, *more: float, c: str = "c", **named: bool):
            return a, b, more, c, named

        # A name that is taken by a positional-only parameter belongs to **named.
        assert roundtrip(task, 1, 2, 3.0, 4.5, c="x", d=True, a=False) == (
            1,
            2,
            (3.0, 4.5),
            "x",
            {"d": True, "a": False},
        )
        assert roundtrip(task, [None], 2) == ([None], 2, (), "c", {})

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (bytes, b"\x00\xff"),
            (set[int], {1, 2}),
            (frozenset[str], frozenset({"a"})),
            (tuple[int, str], (1, "a")),
            (datetime, datetime(2020, 1, 1, 12, 0, 0, 5, tzinfo=UTC)),
            (datetime, datetime(2020, 1, 1)),
            (date, date(2020, 2, 29)),
            (timedelta, timedelta(days=1, microseconds=5)),
            (uuid.UUID, uuid.UUID(int=7)),
            (Decimal, Decimal("1.10")),
            (Colour, Colour.RED),
            (Size, Size.SMALL),
            (Point, Point(1, 2.5)),
            (Order, Order(1, ["a"])),
            (list[Order], [Order(1), Order(2)]),
            (Pair, Pair(1, "b")),
            (Options, {"deep": True}),
            (dict[int, str], {1: "a"}),
            (int | None, None),
            (Literal["a", "b"], "b"),
            (Path, Path("a/b")),
            (Path | None, None),
            (list[Any], [1, "a", None]),
            (float, 3),
            (int, 2**70),
            (object, {"a": [1]}),
        ],
        ids=str,
    )
    def test_annotated_values_come_back(self, annotation, value):
        def task(value):
            return value

        task.__annotations__ = {"value": annotation}
        back = roundtrip(task, value)
        assert back == value
        assert isinstance(back, (type(value), float))

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (int, "5"),
            (int, 1.5),
            (int, True),
            (str, 5),
            (str, b"x"),
            (float, math.nan),
            (float, math.inf),
            (list, [datetime(2020, 1, 1)]),
            (dict, {1: "a"}),
            (dict[str, Any], {"a": {1}}),
            (list[int], [1, "a"]),
            (Literal["a"], "b"),
            (Colour, "red-ish"),
            (Decimal, Decimal("nan")),
            (Point, Order(1)),
            (Any, {1}),
            (str, "\ud800"),
            (list[float], [math.nan]),
            (int | None, "x"),
            (Picky, "x"),
        ],
        ids=str,
    )
    def test_refused_at_enqueue(self, annotation, value):
        def task(value):
            return value

        task.__annotations__ = {"value": annotation}
        with pytest.raises(PayloadInvalid, match=r"t: .*arguments? ") as caught:
            Signature("t", task).encode((value,), {})
        assert isinstance(caught.value, TypeError)

    @pytest.mark.parametrize(
        ("args", "kwargs", "said"),
        [((), {}, "path"), ((1, 2, 3), {}, "many"), (("a",), {"other": 1}, "other"), (("a",), {"path": "b"}, "path")],
    )
    def test_a_call_that_does_not_fit(self, args, kwargs, said):
        def task(path: str, size: int = 1) -> None: ...

        with pytest.raises(PayloadInvalid, match=f"shop.task: .*{said}"):
            Signature("shop.task", task).encode(args, kwargs)

    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"null",
            b"[]",
            b"{}",
            b"[[],[]]",
            b"[{},{}]",
            b"[[],{},1]",
            b'[["a"],{}]junk',
            b'[["a","b"],{}]',
            b"[[],{}]",
            b"[[1],{}]",
            b'[["a"],{"x":1}]',
            b'[["a"],{"path":"b"}]',
        ],
    )
    def test_payloads_that_do_not_fit(self, payload):
        def task(path: str) -> None: ...

        with pytest.raises(PayloadInvalid, match="Task t: "):
            Signature("t", task).decode(payload)

    @pytest.mark.parametrize(
        ("annotation", "content"),
        [
            (Colour, SECRET),
            (Literal["a"], SECRET),
            (Picky, {"word": SECRET}),
            (datetime, SECRET),
            (int, SECRET),
            (Order, {"id": SECRET}),
            (Decimal, SECRET),
            (uuid.UUID, SECRET),
        ],
        ids=str,
    )
    def test_errors_hold_no_value_of_the_payload(self, annotation, content):
        def task(value): ...

        task.__annotations__ = {"value": annotation}
        with pytest.raises(PayloadInvalid) as caught:
            Signature("t", task).decode(msgspec.json.encode([[content], {}]))
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert "'value'" in str(caught.value)

    @pytest.mark.parametrize(
        "function",
        [
            lambda: None,
            lambda a, b: None,
            lambda a, b=1: None,
            lambda a, /, b, *, c=1: None,
            lambda a=1, *, c: None,
            lambda *rest: None,
            lambda a, *rest, c: None,
            lambda a, **named: None,
        ],
    )
    @pytest.mark.parametrize("count", range(4))
    @pytest.mark.parametrize("named", [{}, {"c": 1}, {"b": 1}])
    def test_a_call_fits_where_python_says_so(self, function, count, named):
        args = tuple(range(count))
        try:
            inspect.signature(function).bind(*args, **named)
        except TypeError:
            with pytest.raises(PayloadInvalid):
                Signature("t", function).encode(args, named)
        else:
            signature = Signature("t", function)
            assert signature.decode(signature.encode(args, named)) == (args, named)

    def test_defaults_are_the_functions_own(self):
        def task(when: datetime = datetime(2020, 1, 1), many: object = object):
            return when, many

        assert roundtrip(task) == (datetime(2020, 1, 1), object)

    @pytest.mark.parametrize("moment", [TWICE, TWICE.replace(fold=1), SKIPPED, SKIPPED.replace(fold=1)])
    def test_times_when_the_clocks_change(self, moment):
        def task(at: datetime, meeting: Meeting, booking: Booking) -> Any:
            return at, meeting.at, booking.meetings[0].at

        for back in roundtrip(task, moment, Meeting(moment), Booking([Meeting(moment)])):
            assert back.astimezone(UTC) == moment.astimezone(UTC)
            assert back.replace(tzinfo=None) == moment.replace(tzinfo=None, fold=0)

    @pytest.mark.parametrize("moment", [TWICE, TWICE.replace(fold=1), SKIPPED, SKIPPED.replace(fold=1)])
    def test_sets_and_keys_when_the_clocks_change(self, moment):
        others = [moment + timedelta(hours=hours) for hours in range(-30, 30, 7)]

        def task(times: set[datetime], names: dict[datetime, str], pairs: frozenset[tuple[datetime, int]]) -> Any:
            return times, names, {at for at, _ in pairs}

        times = {moment, *others}
        back = roundtrip(task, times, dict.fromkeys(times, "a"), frozenset((at, 1) for at in times))
        for found in back:
            assert {at.astimezone(UTC) for at in found} == {at.astimezone(UTC) for at in times}

    @pytest.mark.parametrize("value", [{1: "a", "1": "b"}, {1: "a"}])
    def test_keys_that_would_come_back_different_are_refused(self, value):
        def task(value: dict[str, str]) -> None: ...

        with pytest.raises(PayloadInvalid, match="'value'"):
            Signature("t", task).encode((value,), {})

    def test_a_set_that_would_come_back_different_is_refused(self):
        def task(value: set[datetime]) -> None: ...

        with pytest.raises(PayloadInvalid, match="'value'"):
            Signature("t", task).encode(({TWICE, "2026-10-25T02:30:00"},), {})

    def test_a_dataclass_that_would_come_back_different_is_refused(self):
        def task(value: Meeting) -> None: ...

        with pytest.raises(PayloadInvalid, match="'value'"):
            Signature("t", task).encode((Meeting(date(2020, 1, 1)),), {})  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("annotation", "values"),
        [
            (date | datetime, [date(2026, 10, 25), datetime(2026, 10, 25), TWICE]),
            (datetime | date | None, [None, datetime(2026, 10, 25, 2, 30), date(2026, 10, 25)]),
            (date | int, [date(2026, 10, 25), 5]),
            (
                date | datetime | time | timedelta | uuid.UUID | bool,
                [date(1, 1, 1), datetime(1, 1, 1), time(2, 30), timedelta(days=1), uuid.UUID(int=7), True],
            ),
            (list[date | datetime], [[date(2026, 10, 25), datetime(2026, 10, 25, 1)]]),
            (dict[str, date | datetime | None], [{"a": date(2026, 10, 25), "b": TWICE, "c": None}]),
            (tuple[date | datetime, ...], [(date(2026, 10, 25), datetime(2026, 10, 25))]),
            (Annotated[date | datetime, msgspec.Meta(description="when")], [date(2026, 10, 25), TWICE]),
            (list[Annotated[date | datetime, "when"] | None], [[date(2026, 10, 25), TWICE, None]]),
            (list[date | datetime] | None, [[date(2026, 10, 25), TWICE], None]),
            (Path | bool, [Path("a"), False]),
            (Path | list[int] | None, [Path("a"), [1], None]),
        ],
        ids=str,
    )
    def test_unions_whose_texts_differ(self, annotation, values):
        def task(value):
            return value

        task.__annotations__ = {"value": annotation, "return": annotation}
        signature = Signature("t", task)
        results = Results("t", signature.returns)
        for value in values:
            back = roundtrip(task, value)
            assert repr(back).partition("tzinfo")[0] == repr(value).partition("tzinfo")[0]
            back = results.decode(results.encode(value))
            assert repr(back).partition("tzinfo")[0] == repr(value).partition("tzinfo")[0]
        with pytest.raises(PayloadInvalid, match=r"argument 'value': (Expected|Invalid)"):
            signature.decode(b'[["nonsense \\u0000"],{}]' if Path not in typing.get_args(annotation) else b"[[{}],{}]")

    @pytest.mark.parametrize(
        "annotation",
        [
            datetime | str,
            str | uuid.UUID,
            str | Path,
            str | bytes,
            Path | datetime,
            list[str | uuid.UUID],
            dict[date | datetime, int],
            date | datetime | str,
            date | datetime | Path,
            Point | Meeting,
            list[int] | list[str],
        ],
        ids=str,
    )
    def test_annotations_that_json_cannot_tell_apart(self, annotation):
        def task(value) -> None: ...

        task.__annotations__ = {"value": annotation}
        with pytest.raises(InvalidArgument) as caught:
            Signature("shop.task", task)
        said = str(caught.value)
        assert said.startswith("Task shop.task: parameter 'value' must ")
        assert inspect.formatannotation(annotation) in said or str(annotation) in said
        assert "Use one of the types" in said

    @pytest.mark.parametrize("annotation", [Period, Range, Span, list[Period] | None, Calendar, Tree], ids=str)
    def test_the_type_of_a_field_that_json_cannot_tell_apart_is_named(self, annotation):
        def task(value) -> None: ...

        task.__annotations__ = {"value": annotation}
        with pytest.raises(InvalidArgument) as caught:
            Signature("shop.task", task)
        said = str(caught.value)
        assert said.startswith("Task shop.task: parameter 'value' must ")
        assert "type `datetime.date | datetime.datetime`. Use one of the types, or a parameter or a field" in said

    def test_annotations_that_cannot_be_resolved(self):
        def task(value: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

        with pytest.raises(InvalidArgument, match="Missing"):
            Signature("t", task)


class TestResults:
    @pytest.mark.parametrize("value", [None, 1, "é", [1, {"a": None}], False, 0, ""])
    def test_plain(self, value):
        results = Results("t")
        assert results.decode(results.encode(value)) == value

    def test_annotation_rebuilds(self):
        results = Results("t", Point)
        assert results.decode(results.encode(Point(1))) == Point(1)

    def test_annotation_is_not_demanded(self):
        results = Results("t", int)
        assert results.decode(results.encode("five")) == "five"
        assert Results("t").decode(Results("t").encode(Point(1))) == {"x": 1, "y": 0.0}

    def test_nothing(self):
        assert Results("t").decode(b"") is None
        assert Results("t").decode(None) is None

    @pytest.mark.parametrize("value", [object(), math.nan, {"a": math.inf}, "\ud800", nested(65), print])
    def test_refused(self, value):
        with pytest.raises(PayloadInvalid):
            Results("t").encode(value)

    def test_too_large(self):
        with pytest.raises(PayloadInvalid, match="limit"):
            Results("t").encode("x" * limits.MAX_RESULT)

    def test_notes(self):
        assert note_of({"tenure_note": {"type": "TypeError", "message": "no"}}) == "TypeError: no"
        assert note_of({"tenure_note": 1}) is None
        assert note_of({"other": 1}) is None
        assert note_of("x") is None
