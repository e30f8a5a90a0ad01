"""Bad inputs, line by line as docs/reference/bad-inputs.md has them: refused before anything is written."""
# Much of what is passed here is of the wrong type, which is the point.
# mypy: disable-error-code="misc,call-arg,arg-type,operator,union-attr"

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

import tenure as product
from tenure import Job, State, Tenure, Unique
from tenure.client.queue import HeldJob
from tenure.testing.server import RedisServer
from tests.support.native import dump, timeless

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "bad-inputs.md"
NOWHERE = "redis://127.0.0.1:1"
MISTAKES = [math.nan, 0, -1, 0.0004, 10**12]

JOBS = """
from tenure import Tenure

app = Tenure()

@app.task(name="shop.store", queue="q")
def store(value=None, size: int = 1):
    return [value, size]

@app.handler("raw")
def raw(job):
    return len(job.payload)
"""


def lines(heading: str) -> dict[str, list[str]]:
    """The lines of the first table under a heading: its first cell and the others."""
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)[2:]
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    assert cells, f"there is no table under {heading!r}"
    assert len({row[0] for row in cells}) == len(cells), "each input stands there once"
    return {first: rest for first, *rest in cells}


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@dataclass
class Scene:
    """An app, and a job that is held by hand."""

    app: Tenure
    held: HeldJob
    server: RedisServer

    def __post_init__(self) -> None:
        def store(value: Any = None, size: int = 1) -> None: ...

        self.store = self.app.tasks.get("shop.store") or self.app.task(name="shop.store", queue="q")(store)
        self.queue = self.app.queue("q")


def taking(kind: Any) -> Callable[[Any], None]:
    def either(value: Any) -> None: ...

    either.__annotations__ = {"value": kind}
    return either


class Own:
    def __repr__(self) -> str:
        raise RuntimeError("it cannot be shown")


def circular() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


def named(*queues: str) -> Callable[[Scene], list[Callable[[], object]]]:
    """Wherever a queue is named."""
    return lambda s: [
        act
        for queue in queues
        for act in (
            lambda queue=queue: s.app.queue(queue),
            lambda queue=queue: s.store.using(queue=queue),
            lambda queue=queue: s.app.task(queue=queue),
            lambda queue=queue: s.app.control.pause(queue),
            lambda queue=queue: s.app.inspect.page(queue, "ready"),
        )
    ]


def called(**options: Any) -> Callable[[Scene], list[Callable[[], object]]]:
    """Wherever the options of a job are given: `name=[values]`, each by itself; other values stand for all."""
    (name, values), *others = options.items()
    return lambda s: [
        act
        for value in values
        for given in ({name: value, **dict(others)},)
        for act in (
            lambda given=given: s.store.using(**given).enqueue(),
            lambda given=given: s.queue.enqueue(b"x", **given),
        )
    ]


Acts = Callable[[Scene], list[Callable[[], object]]]

REFUSED: dict[str, Acts] = {
    "an argument that is NaN or infinite": lambda s: [
        lambda n=n: s.store.enqueue(n) for n in (math.nan, math.inf, -math.inf)
    ],
    "NaN deep in an argument": lambda s: [lambda: s.store.enqueue({"a": [{"b": math.nan}]})],
    "bytes without an annotation": lambda s: [lambda: s.store.enqueue(b"x"), lambda: s.store.enqueue([b"x"])],
    "a set without an annotation": lambda s: [lambda: s.store.enqueue({1}), lambda: s.store.enqueue(value=[{1}])],
    "an object of a class of one's own": lambda s: [lambda: s.store.enqueue(Own()), lambda: s.store.enqueue([Own()])],
    "a dict with keys that are not text": lambda s: [
        lambda: s.store.enqueue({1: 2}),
        lambda: s.store.enqueue({None: 2}),
    ],
    "an argument that does not fit its annotation": lambda s: [
        lambda value=value: s.store.enqueue(1, value) for value in ("1", None, 1.5, b"1", [1])
    ],
    "a task with an argument of a class that nothing encodes": lambda s: [
        lambda kind=kind: s.app.task(name="shop.own")(taking(kind)) for kind in (Own, list[Own])
    ],
    "a task with a parameter for the `Job`": lambda s: [lambda: s.app.task(name="shop.job")(taking(Job))],
    "a task with an argument that may be text or a UUID, or text or a path": lambda s: [
        lambda kind=kind: s.app.task(name="shop.either")(taking(kind)) for kind in (str | UUID, Path | str)
    ],
    "an argument too many, too few or unknown": lambda s: [
        lambda: s.app.task(name="shop.missing")(lambda missing: None).enqueue(),
        lambda: s.app.task(name="shop.missing-2")(lambda missing: None).enqueue(1, 2, missing=3),
        lambda: s.app.task(name="shop.missing-3")(lambda: None).enqueue(missing=1),
    ],
    "a list in itself, or more than 64 levels": lambda s: [lambda: s.store.enqueue(circular())],
    "a whole number of 5,000 digits": lambda s: [
        lambda: s.store.enqueue(10**5_000),
        lambda: s.store.enqueue(1, 10**5_000),
    ],
    "text that is not Unicode (lone surrogates)": lambda s: [lambda: s.store.enqueue("\ud800")],
    "a raw payload that JSON has no place for": lambda s: [
        lambda: s.queue.enqueue({1, "set"}),
        lambda: s.queue.enqueue([{"set"}]),
    ],
    "one bad payload among many": lambda s: [lambda: s.queue.enqueue_many([b"good", 1, math.nan])],
    "one bad call among many": lambda s: [
        lambda: s.store.enqueue_many(s.store.call(value) for value in (1, 2, math.nan))
    ],
    "text, bytes or a mapping as a list of payloads": lambda s: [lambda: s.queue.enqueue_many({"dict": 1})],
    "no list of payloads at all": lambda s: [lambda: s.queue.enqueue_many(None)],
    "a payload above `max_payload`": lambda s: [lambda: s.queue.enqueue(b"x" * 1_048_577)],
    "a result above 1 MiB, by hand": lambda s: [lambda: s.queue.complete(s.held, "x" * 1_048_576)],
    "a result that is NaN, by hand": lambda s: [lambda: s.queue.complete(s.held, math.nan)],
    "an empty id": called(id=[""]),
    "an id of 256 bytes": called(id=["x" * 256, "é" * 128]),
    "an id that begins with `@`": called(id=["@x"]),
    "an id that is known †": called(id=["known"]),
    "a unique key that is taken †": called(unique=["taken"]),
    "a queue that would become too long †": lambda s: [
        lambda: s.app.queue("full").enqueue(b"x"),
        lambda: s.app.queue("full").enqueue_many([b"x"] * 3, delay=5),
    ],
    "an empty queue name": named(""),
    "a queue named `.` or `..`": named("..", "."),
    "a queue name with `/`": named("a/b"),
    "a queue name of 201 characters": named("x" * 201),
    "a name with control characters": named("a\nb", "\x1b[31m", "a\0", "a\u2028b"),
    "a namespace with braces": lambda s: [lambda: Tenure(NOWHERE, namespace="a{b}")],
    "a lease of 0, -1, 0.0004 or 10¹² seconds, or NaN": lambda s: [lambda n=n: s.queue.lease(n) for n in MISTAKES],
    "an extension of as many": lambda s: [lambda n=n: s.queue.extend(s.held, n) for n in MISTAKES],
    "a wait of less than 0 seconds": lambda s: [
        lambda: s.queue.lease(block=True, timeout=-1),
        lambda: s.queue.job("known").result(timeout=-1),
        lambda: s.queue.job("known").watch(timeout=-1),
    ],
    "a timeout of less than 1 ms or more than 7 days": called(timeout=[*MISTAKES, 604_801]),
    "a delay below 0 or above 10 years": called(delay=[-1, math.nan, 10**12]),
    "a time without a time zone": called(run_after=[datetime(2030, 1, 1)]),
    "a delay and a time": called(delay=[5], run_after=datetime(2030, 1, 1, tzinfo=UTC)),
    "-1, 1.5 or 10,001 retries": called(retries=[-1, 1.5, 10_001, math.nan, True, [10**5_000], Own()]),
    "an empty lane name": called(lane=[""]),
    "a lane that is no text": called(lane=[5]),
    "a lane limit of 0": called(lane_limit=[0], lane="a"),
    "a priority below -100 or above 100": called(priority=[-101, 101, 1.5]),
    "a lane and a priority": called(lane=["a"], priority=1),
    "an empty unique key": called(unique=[""]),
    "a unique key that lasts for 0 seconds": lambda s: [lambda: s.store.using(unique=Unique(until=0)).enqueue()],
    "an option that does not exist": called(color=["red"]),
    "a state that does not exist": lambda s: [
        lambda: s.app.inspect.page("q", "lost"),
        lambda: s.app.control.purge("q", "lost"),
        lambda: s.app.inspect.lanes("q", "lost"),
    ],
    "a page of 0, or of more than 100": lambda s: [
        lambda n=n: s.app.inspect.page("q", "ready", limit=n) for n in (0, 101, 10**9)
    ],
    "a reason that is no text": lambda s: [
        lambda: s.app.control.cancel("q", "known", 5),
        lambda: s.app.control.cancel_all("q", 5),
        lambda: s.queue.job("known").cancel(5),
    ],
    "a job of another queue, or what is no job": lambda s: [
        lambda: s.queue.complete(None),
        lambda: s.queue.extend("known", 5),
        lambda: s.queue.release(s.queue.job("known")),
    ],
    "a maximum length of -1": lambda s: [lambda: s.app.control.configure("q", max_length=-1)],
    "another program's data at one of our keys †": lambda s: [
        lambda: s.app.queue("spoilt").enqueue(b"x"),
        lambda: s.app.queue("spoilt").enqueue_many([b"x", b"y"], lane="a", delay=5),
        lambda: s.app.queue("spoilt").lease(),
        lambda: s.app.control.pause("spoilt"),
    ],
}


@pytest.fixture
def scene(server) -> Iterator[Scene]:
    with Tenure(server.url) as app:
        queue = app.queue("q")
        queue.enqueue(b"held")
        held = queue.lease(600)
        assert isinstance(held, HeldJob)
        queue.enqueue(b"x", id="known", unique="taken")
        app.queue("full").enqueue(b"x", id="full")
        app.control.configure("full", max_length=1)
        app.queue("spoilt").enqueue(b"x", delay=600)
        server.command("SET", "{tenure:spoilt}:ready", "x")
        yield Scene(app, held, server)


def test_the_page_and_the_tests_speak_of_the_same():
    assert list(lines("Refused, and nothing is written")) == list(REFUSED)
    assert list(lines("Not refused")) == list(ANSWERS)


@pytest.mark.parametrize("line", REFUSED)
def test_it_is_refused_and_nothing_is_written(scene, server, line):
    error, says = lines("Refused, and nothing is written")[line]
    (kind,) = words(error)
    said = [*words(says), *(["shop."] if says.startswith("task, ") else [])]
    before = timeless(dump(server))
    for act in REFUSED[line](scene):
        with pytest.raises(getattr(product, kind)) as caught:
            act()
        message = str(caught.value)
        assert type(caught.value).__name__ == kind
        assert [word for word in said if word not in message] == [], message
        assert len(message) < 600
        assert message.isprintable()
        assert timeless(dump(server)) == before


@pytest.mark.parametrize("line", [line for line in REFUSED if not line.endswith("†")])
def test_it_is_refused_without_a_connection(scene, line):
    """Where there is none, whatever is sent ends in `Unreachable`."""
    with Tenure(NOWHERE) as app:
        for act in REFUSED[line](Scene(app, scene.held, scene.server)):
            with pytest.raises(product.InvalidArgument):
                act()


def round_trip(s: Scene) -> object:
    ids = ["x" * 255, ":{}*?[\\", "a\nb\0\x1b\u2028", "-x", "é" * 127]
    handles = [s.app.queue("odd").enqueue(b"x", id=id) for id in ids]
    assert [job.id for job in s.app.inspect.page("odd", "ready").jobs] == ids
    assert [job.state() for job in handles] == [State.READY] * len(ids)
    return "it comes back as it went in"


def other_tokens(s: Scene) -> object:
    answers = set()
    before = timeless(dump(s.server))
    for token in (0, -1, s.held.token - 1, s.held.token + 1, "", "x" * 10_000, f"{s.held.token} ", f"0{s.held.token}"):
        other = HeldJob(s.queue, structs.replace(s.held.lease, token=token))
        answers |= {act(other) for act in (s.queue.complete, s.queue.fail, s.queue.release, s.queue.retry)}
        answers |= {s.queue.extend(other, 60), s.queue.progress(other, 1)}
    changed = timeless(dump(s.server)) != before
    return f"{answers.pop()}, {'something' if changed else 'nothing'} is written" if len(answers) == 1 else answers


def after_a_purge(s: Scene) -> object:
    s.queue.job(s.held.id).cancel()
    assert s.queue.fail(s.held)
    s.app.control.purge("q", "cancelled")
    return s.queue.complete(s.held)


def twice(s: Scene) -> object:
    assert s.queue.complete(s.held) is True
    return s.queue.complete(s.held)


def ended(s: Scene) -> object:
    s.queue.complete(s.held)
    return f'"{s.app.control.cancel("q", s.held.id)}"'


def many(s: Scene) -> object:
    handles = s.app.queue("many").enqueue_many(str(n) for n in range(1_201))
    first, last = (s.app.inspect.page("many", "ready", offset).jobs for offset in (0, 1_200))
    assert ([job.id for job in first], last[0].id) == ([job.id for job in handles[:100]], handles[-1].id)
    assert s.app.inspect.queue("many").counts[State.READY] == 1_201
    return "as many jobs, in their order"


def state_of(s: Scene, **options: Any) -> State | None:
    return s.queue.enqueue(b"x", **options).state()


def run_raw(s: Scene) -> object:
    payloads = [None, 0, False, "", b""]
    handles = s.app.queue("raw").enqueue_many(payloads)
    return handles, [4, 1, 5, 0, 0]


def run_calls(s: Scene) -> object:
    values = [None, 0, False, ""]
    return [s.store.enqueue(value) for value in values], [[value, 1] for value in values]


ANSWERS: dict[str, Callable[[Scene], object]] = {
    'a raw payload of `null`, `0`, `false`, `""` or no bytes': run_raw,
    'a call with None, 0, False and ""': run_calls,
    "an id of 255 bytes, with `:{}*?[\\`, newlines, zero bytes": round_trip,
    "a time that has passed": lambda s: f"{state_of(s, run_after=datetime(1900, 1, 1, tzinfo=UTC))} at once",
    "a time in the year 9999": lambda s: state_of(s, run_after=datetime(9999, 12, 31, tzinfo=UTC)),
    "no lane (None)": lambda s: (
        "a job without a lane" if s.queue.enqueue(b"", lane=None).refresh().shape.lane is None else None
    ),
    "no payloads at all": lambda s: "no jobs" if s.queue.enqueue_many([]) == s.store.enqueue_many([]) == [] else None,
    "1,201 payloads in one call": many,
    "a second `complete` of the same job": twice,
    "`complete` and `extend` with the token of another claim": other_tokens,
    "`complete` after the job was purged": after_a_purge,
    "cancel an unknown job": lambda s: f'"{s.app.control.cancel("q", "nobody")}"',
    "cancel a job that has ended": ended,
    "cancel a job that runs": lambda s: f'"{s.app.control.cancel("q", s.held.id)}"',
}


@pytest.mark.parametrize("line", ANSWERS)
def test_what_becomes_of_it(scene, tenure, redis_url, tmp_path, line):
    (expected,) = lines("Not refused")[line]
    answer = ANSWERS[line](scene)
    if isinstance(answer, tuple):
        handles, results = answer
        (tmp_path / "jobs.py").write_text(JOBS)
        tenure("worker", "jobs:app", "-q", "q", "-q", "raw", "--burst", url=redis_url).end()
        assert [job.result(timeout=0) for job in handles] == results
        answer = "it runs as any other"
    assert str(answer) == expected


@pytest.mark.parametrize(
    "command",
    [
        ["enqueue", "jobs:app", "shop.store", "[NaN]"],
        ["enqueue", "jobs:app", "shop.store", '[1,"s3cret"]'],
        ["enqueue", "jobs:app", "shop.store", "[1]", "--queue", "a/b"],
        ["enqueue", "--queue", "q", "--payload", "x", "--id", ""],
        ["enqueue", "--queue", "q", "--payload", "x", "--delay", "nan"],
        ["enqueue", "--queue", "q", "--payload", "x", "--header", "tenant"],
        ["enqueue", "--queue", "q", "--payload", "x", "--lane", "a", "--priority", "1"],
        ["retry", "q", "parked", "--payload", "[[NaN],{}]", "--app", "jobs:app"],
        ["configure", "q", "--max-length", "-1"],
        ["cancel", "q", "--lane", ""],
        ["pause", ".."],
        ["purge", "q", "--state", "lost", "--yes"],
        ["worker", "jobs:app", "-q", "a/b"],
        ["worker", "jobs:app", "-c", "0"],
    ],
    ids=" ".join,
)
def test_a_mistake_on_the_command_line_changes_nothing(scene, server, tenure, redis_url, tmp_path, command):
    (tmp_path / "jobs.py").write_text(JOBS)
    parked = scene.store.using(id="parked", delay=600).enqueue(1)
    before = timeless(dump(server))
    run = tenure(*command, url=redis_url).end(expect=2)
    assert run.err.startswith("Error: ")
    assert "s3cret" not in run.err
    assert timeless(dump(server)) == before
    assert parked.state() is State.SCHEDULED
