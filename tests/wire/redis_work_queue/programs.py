"""Small programs written for the original Python package. `p` is the package, `db` a client of an empty Redis.

Each returns what the program would see. A program that raises has the name of the exception as its answer.
"""

from __future__ import annotations

import array
import copy
import inspect
import json
import multiprocessing
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import redis

Program = Callable[[Any, Any], Any]
PROGRAMS: Final[dict[str, Program]] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def _with(make: Callable[[Any, Any, Any], Any], value: Any, p: Any, db: Any) -> Any:
    return make(p, db, value)


def several(name: str, values: dict[str, Any], make: Callable[[Any, Any, Any], Any]) -> None:
    """One program for each value."""
    for label, value in values.items():
        PROGRAMS[f"{name}_{label}"] = partial(_with, make, value)


def jobs(p: Any, prefix: str = "jobs") -> Any:
    return p.WorkQueue(p.KeyPrefix(prefix))


def seconds_left(db: Any, queue: Any, id: str) -> int:
    return -(int(db.pttl(queue._lease_key.of(id))) // -1_000)


def sent_on(value: Any) -> Any:
    """A copy, as multiprocessing sends it to another process."""
    return ForkingPickler.loads(ForkingPickler.dumps(value))


class Bytes:
    def __bytes__(self) -> bytes:
        return b"B!"


class Index:
    def __index__(self) -> int:
        return 3


# Items.

several(
    "data",
    {
        "list": [1, 2],
        "tuple": (1, 2),
        "array": array.array("b", [1, 2]),
        "array_i": array.array("i", [1, 2]),
        "bytes_method": Bytes(),
        "index_method": Index(),
        "int": 3,
        "zero": 0,
        "negative": -1,
        "bool": True,
        "none": None,
        "float": 1.5,
        "set": {5},
        "dict": {1: 2},
        "range": range(3),
        "over_a_byte": [300],
        "texts": ["a"],
        "bytearray": bytearray(b"x"),
        "memoryview": memoryview(b"abcd")[::2],
        "object": object(),
        "surrogate": "\ud800",
    },
    lambda p, db, data: (p.Item(data, "i").data(), type(p.Item(data, "i")["data"])),
)
several(
    "id",
    {
        "none": None,
        "empty": "",
        "int": 3,
        "bytes": b"b",
        "float": 1.5,
        "false": False,
        "uuid": uuid.UUID(int=5),
        "tuple": (1,),
    },
    lambda p, db, id: p.Item(b"", id).id() if id is not None else len(p.Item(b"", id).id()),
)
several(
    "from_dict",
    {
        "no_id": {"data": b"1"},
        "int_id": {"data": "1", "id": 3},
        "none_id": {"data": "1", "id": None},
        "empty_id": {"data": "1", "id": ""},
        "more": {"data": "1", "id": "i", "x": 2},
        "no_data": {"id": "1"},
        "none": None,
        "list": [],
    },
    lambda p, db, value: (p.Item.from_dict(value).data(), (value.get("id") is None) or p.Item.from_dict(value)),
)
several(
    "parse",
    {
        "text": '{"data":"1","id":"2"}',
        "bytes": b'{"data":"1","id":2}',
        "list_data": '{"data":[1,2],"id":"2"}',
        "null_data": '{"data":null,"id":"2"}',
        "int_data": '{"data":3,"id":"2"}',
        "list": "[]",
        "empty": "{}",
        "no_json": "x",
    },
    lambda p, db, text: p.Item.parse(text),
)
several(
    "json",
    {
        "number": 1,
        "none": None,
        "nested": {"a": [{"b": "é"}]},
        "nan": float("nan"),
        "tuple": (1, 2),
        "bytes": b"x",
        "set": {1},
    },
    lambda p, db, value: (p.Item.from_json_data(value, "i").data(), repr(p.Item.from_json_data(value).data_json())),
)


@program
def item_as_a_dict(p: Any, db: Any) -> Any:
    item = p.Item(b"1", "2")
    item["x"] = 6
    item.update(data=b"zz")
    copied = type(item | {"y": 1}), type(item.copy()), type(copy.copy(item)) is p.Item
    return item, item.data(), list(item), len(item), {**item}, item.get("y", "z"), repr(item), str(item), copied


@program
def item_equality(p: Any, db: Any) -> Any:
    item = p.Item(b"1", "2")
    return item == p.Item("1", 2), item == {"data": b"1", "id": "2"}, item != p.Item(b"1", "3")


@program
def item_is_not_hashable(p: Any, db: Any) -> Any:
    return {p.Item(b"1", "2")}


@program
def item_without_its_data(p: Any, db: Any) -> Any:
    item = p.Item(b"1")
    del item["data"]
    return item.data()


@program
def item_arguments(p: Any, db: Any) -> Any:
    return p.Item(data=b"1", id="2"), p.Item(b"1", "2"), p.Item.from_json_data(data=1, id="2"), vars(p.Item(b"1"))


@program
def item_without_arguments(p: Any, db: Any) -> Any:
    return p.Item()


@program
def item_has_attributes_of_the_caller(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "2"))
    item = queue.lease(db, 5)
    item.started = 5
    return sent_on(item).started, copy.deepcopy(item).started, item, queue.complete(db, item)


@program
def item_to_json(p: Any, db: Any) -> Any:
    return json.dumps(p.Item(b"1", "2"), default=lambda data: data.decode())


@program
def item_to_json_needs_text(p: Any, db: Any) -> Any:
    return json.dumps(p.Item(b"1", "2"))


@program
def item_data_that_is_no_json(p: Any, db: Any) -> Any:
    return p.Item(b"not json").data_json()


@program
def item_data_that_is_no_text(p: Any, db: Any) -> Any:
    return p.Item(b"\xff").data_json()


@program
def item_subclass(p: Any, db: Any) -> Any:
    class Mail(p.Item):  # type: ignore[misc]
        def __init__(self, data: Any, id: Any = None, to: str = "all") -> None:
            super().__init__(data, id)
            self.to = to

    queue = jobs(p)
    queue.add_item(db, Mail.from_json_data({"a": 1}, "m"))
    leased = queue.lease(db, 5)
    return Mail(b"1").to, type(Mail.parse('{"data":"1"}')) is Mail, type(leased) is p.Item, leased


@program
def item_subclass_with_ids_of_its_own(p: Any, db: Any) -> Any:
    class Tagged(p.Item):  # type: ignore[misc]
        def id(self) -> str:
            return "x:" + str(super().id())

    queue = jobs(p)
    queue.add_item(db, Tagged(b"1", "2"))
    return db.exists("jobs:item:x:2"), queue.lease(db, 5), queue.complete(db, Tagged(b"1", "2"))


# Prefixes.


@program
def prefixes(p: Any, db: Any) -> Any:
    jobs = p.KeyPrefix("jobs")
    same = sent_on(jobs), copy.deepcopy(jobs)
    return (
        jobs.of(":a"), jobs.prefix, p.KeyPrefix.concat(jobs, ":b").of(":c"), p.KeyPrefix("").of(":queue"),
        [one.of("") for one in same], jobs == p.KeyPrefix("jobs"), vars(jobs), p.KeyPrefix(prefix="a").of(name="b"),
    )  # fmt: skip


several("prefix", {"bytes": b"a", "int": 3, "none": None}, lambda p, db, value: p.KeyPrefix(value).of(":a"))
several("queue_of", {"text": "a", "none": None}, lambda p, db, value: type(p.WorkQueue(value)))


@program
def prefix_subclass(p: Any, db: Any) -> Any:
    class Tenant(p.KeyPrefix):  # type: ignore[misc]
        def of(self, name: str) -> str:
            return "tenant:" + str(super().of(name))

    queue = p.WorkQueue(Tenant("jobs"))
    queue.add_item(db, p.Item(b"1", "2"))
    return db.lrange("tenant:jobs:queue", 0, -1), queue.lease(db, 5), queue._lease_key.of("1")


def _life(p: Any, db: Any, prefix: str) -> Any:
    queue = p.WorkQueue(name=p.KeyPrefix(prefix))
    queue.add_item(db, p.Item(b"1", "2"))
    item = queue.lease(db, 5)
    seen = item, db.exists(f"{prefix}:item:2"), db.lrange(f"{prefix}:processing", 0, -1)
    return *seen, queue.complete(db, item), queue.queue_len(db), queue.processing(db)


several(
    "queue_at",
    {
        "empty": "",
        "nested": "shop:item:import",
        "lease": "car:lease",
        "unicode": "été☃",
        "glob": "a[b]*?",
        "space": " ",
    },
    _life,
)

# Queues.


@program
def the_life_of_an_item(p: Any, db: Any) -> Any:
    queue = jobs(p)

    def lengths() -> Any:
        return queue.queue_len(db), queue.processing(db)

    seen = [lengths()]
    for n in range(3):
        queue.add_item(db, p.Item.from_json_data({"n": n}, str(n)))
    seen.append(lengths())
    items = [queue.lease(db, 5) for _ in range(3)]
    seen.append(lengths())
    ended = [queue.complete(db, item) for item in items + items]
    return items, [item.data_json() for item in items], ended, [*seen, lengths()], queue.lease(db, 5, False)


@program
def add_answers(p: Any, db: Any) -> Any:
    return jobs(p).add_item(db, p.Item(b"1"))


@program
def add_an_id_twice(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    queue.add_item(db, p.Item(b"2", "a"))
    return queue.queue_len(db), db.get("jobs:item:a")


@program
def add_an_id_again_after_its_end(p: Any, db: Any) -> Any:
    queue, seen = jobs(p), []
    for data in (b"1", b"2"):
        queue.add_item(db, p.Item(data, "a"))
        item = queue.lease(db, 5)
        seen.append((item, queue.complete(db, item)))
    return seen


several(
    "lease_of",
    {
        "text": "30",
        "bytes": b"30",
        "days": timedelta(days=30),
        "thirty_days": 30 * 86_400,
        "ten_years": 10 * 365 * 86_400,
        "int": 1,
        "fraction": 1.5,
        "zero": 0,
        "negative": -1,
        "true": True,
        "none": None,
        "word": "soon",
        "millennia": 10**12,
    },
    lambda p, db, seconds: _leased(p, db, seconds),
)


def _leased(p: Any, db: Any, seconds: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    item = queue.lease(db, seconds)
    return item, seconds_left(db, queue, "a"), queue.complete(db, item)


several(
    "timeout",
    {"text": "1", "fraction": 0.2, "float": 1.0},
    lambda p, db, seconds: jobs(p).lease(db, 5, timeout=seconds),
)
several(
    "timeout_ignored",
    {"negative": -1, "text": "x", "none": None},
    lambda p, db, seconds: jobs(p).lease(db, 5, block=False, timeout=seconds),
)
several("timeout_bad", {"negative": -1, "word": "x"}, lambda p, db, seconds: jobs(p).lease(db, 5, timeout=seconds))
several("block", {"zero": 0, "empty": "", "none": None}, lambda p, db, block: jobs(p).lease(db, 5, block))


@program
def timeout_of_none_when_an_item_waits(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    return queue.lease(db, 5, True, None)


@program
def arguments_by_keyword(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(item=p.Item(data=b"1", id="a"), db=db)
    item = queue.lease(db=db, lease_secs=5, block=True, timeout=0)
    queue.light_clean(db=db)
    return item, queue.complete(item=item, db=db), queue.queue_len(db=db), queue.processing(db=db)


@program
def names_and_defaults_of_parameters(p: Any, db: Any) -> Any:
    answers = []
    for owner in (p.WorkQueue, p.Item, p.KeyPrefix):
        for name in ("add_item", "add_item_to_pipeline", "lease", "light_clean", "queue_len", "parse", "of", "concat"):
            if hasattr(owner, name):
                found = inspect.signature(getattr(owner, name)).parameters.values()
                # More of them that go by keyword only change no call.
                shared = [one for one in found if one.kind is not one.KEYWORD_ONLY]
                answers.append((owner.__name__, name, [(one.name, one.default) for one in shared]))
    return answers


@program
def modules(p: Any, db: Any) -> Any:
    names = ("item.Item", "keyprefix.KeyPrefix", "workqueue.WorkQueue", "workqueue.Item", "workqueue.KeyPrefix")
    parts = [name.split(".") for name in names]
    return [getattr(sys.modules[f"{p.__name__}.{module}"], name) is getattr(p, name) for module, name in parts]


@program
def attributes(p: Any, db: Any) -> Any:
    queue = jobs(p)
    texts = queue._main_queue_key, queue._processing_key, queue._cleaning_key, len(queue._session)
    prefixes = queue._lease_key, queue._item_data_key
    return texts, [one.of("1") for one in prefixes], [type(one) is p.KeyPrefix for one in prefixes]


@program
def lease_exists(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    seen = [queue._lease_exists(db, "a")]
    item = queue.lease(db, 5)
    seen.append(queue._lease_exists(db, "a"))
    queue.complete(db, item)
    return [*seen, queue._lease_exists(db, "a")]


@program
def queues_are_compared_by_identity(p: Any, db: Any) -> Any:
    queue = jobs(p)
    return queue == queue, queue == jobs(p), len({queue, jobs(p)})


@program
def two_queues(p: Any, db: Any) -> Any:
    first, second = jobs(p, "a"), jobs(p, "a:b")
    first.add_item(db, p.Item(b"1", "x"))
    second.add_item(db, p.Item(b"2", "x"))
    items = first.lease(db, 5), second.lease(db, 5)
    return items, first.complete(db, items[0]), second.complete(db, items[1])


@program
def complete_from_another_queue_object(p: Any, db: Any) -> Any:
    jobs(p).add_item(db, p.Item("text", "a"))
    item = jobs(p).lease(db, 5)
    text = json.dumps({"data": item.data().decode(), "id": item.id()})
    return jobs(p).complete(db, p.Item.parse(text)), jobs(p).complete(db, item)


@program
def complete_a_pickled_item(p: Any, db: Any) -> Any:
    jobs(p).add_item(db, p.Item(b"\xff", "a"))
    item = jobs(p).lease(db, 5)
    return jobs(p).complete(db, sent_on(item))


@program
def complete_by_the_id_alone(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    queue.lease(db, 5)
    return queue.complete(db, p.Item(b"", "a")), queue.processing(db), db.exists("jobs:item:a")


@program
def complete_what_was_changed(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item.from_json_data({"n": 1}, "a"))
    item = queue.lease(db, 5)
    item["data"] = None
    return queue.complete(db, item), queue.processing(db)


@program
def complete_what_is_not_there(p: Any, db: Any) -> Any:
    return jobs(p).complete(db, p.Item(b"1", "a"))


@program
def complete_what_still_waits(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    return queue.complete(db, p.Item(b"1", "a")), db.exists("jobs:item:a"), queue.lease(db, 5, block=False)


@program
def add_what_was_changed(p: Any, db: Any) -> Any:
    queue, item = jobs(p), p.Item(b"1", "a")
    item["data"], item["id"] = "text", "b"
    queue.add_item(db, item)
    return queue.lease(db, 5), queue.queue_len(db)


@program
def add_an_id_that_became_a_number(p: Any, db: Any) -> Any:
    item = p.Item(b"1", "a")
    item["id"] = 5
    return jobs(p).add_item(db, item)


@program
def add_what_is_no_item(p: Any, db: Any) -> Any:
    return jobs(p).add_item(db, {"data": b"1", "id": "a"})


@program
def add_without_a_client(p: Any, db: Any) -> Any:
    return jobs(p).add_item(None, p.Item(b"1"))


@program
def a_redis_that_is_not_there(p: Any, db: Any) -> Any:
    return jobs(p).lease(redis.Redis(unix_socket_path="/nowhere/redis"), 5)


@program
def a_key_of_another_program(p: Any, db: Any) -> Any:
    db.set("jobs:queue", "x")
    return jobs(p).lease(db, 5, block=False)


def _round(p: Any, db: Any, data: bytes, id: str) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(data, id))
    item = queue.lease(db, 5)
    return item, queue.processing(db), queue.complete(db, item), queue.processing(db)


several(
    "data_kept",
    {"every_byte": bytes(range(256)), "large": b"x" * 2_000_000, "lines": b"\r\n\x00", "number": b"5"},
    lambda p, db, data: _round(p, db, data, "a"),
)
several(
    "id_kept",
    {
        "empty": "",
        "long": "x" * 300,
        "very_long": "é" * 5_000,
        "glob": "a*b?[c]",
        "lines": "a\r\nb\x00",
        "unicode": "☃🎿",
        "colons": "a:item:b:queue",
        "at": "@now",
        "space": " ",
    },
    lambda p, db, id: _round(p, db, b"data", id),
)


@program
def empty_data(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"", "a"))
    return queue.lease(db, 5, block=False)


@program
def an_id_without_an_item(p: Any, db: Any) -> Any:
    queue = jobs(p)
    db.lpush("jobs:queue", "ghost")
    queue.add_item(db, p.Item(b"1", "a"))
    return queue.lease(db, 5), queue.processing(db)


@program
def an_expired_lease(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    queue.lease(db, 1)
    time.sleep(1.1)  # the lease is a time of Redis
    queue.light_clean(db)
    return queue.queue_len(db), queue.processing(db), queue.lease(db, 5, block=False)


@program
def a_lease_that_waits_for_an_item(p: Any, db: Any) -> Any:
    queue = jobs(p)
    timer = threading.Timer(0.1, queue.add_item, (db, p.Item(b"1", "a")))
    timer.start()
    try:
        return queue.lease(db, 5, timeout=20)
    finally:
        timer.join()


# Pipelines.


@program
def pipeline_adds(p: Any, db: Any) -> Any:
    queue = jobs(p)
    with db.pipeline() as pipeline:
        answers = [queue.add_item_to_pipeline(pipeline, p.Item(b"1", str(n))) for n in range(3)]
        before = queue.queue_len(db)
        pipeline.execute()
    return answers, before, [queue.lease(db, 5).id() for _ in range(3)]


@program
def pipeline_without_transaction(p: Any, db: Any) -> Any:
    queue = jobs(p)
    pipeline = db.pipeline(transaction=False)
    queue.add_item_to_pipeline(pipeline=pipeline, item=p.Item(b"1", "a"))
    pipeline.execute()
    return queue.lease(db, 5)


@program
def pipeline_with_other_commands(p: Any, db: Any) -> Any:
    pipeline = db.pipeline()
    pipeline.set("x", 1)
    jobs(p).add_item_to_pipeline(pipeline, p.Item(b"1", "a"))
    pipeline.get("x")
    answers = pipeline.execute()
    return answers[0], answers[-1], jobs(p).queue_len(db)


@program
def pipeline_answers(p: Any, db: Any) -> Any:
    pipeline = db.pipeline()
    jobs(p).add_item_to_pipeline(pipeline, p.Item(b"1", "a"))
    return pipeline.execute()


@program
def pipeline_as_the_client(p: Any, db: Any) -> Any:
    jobs(p).add_item(db.pipeline(), p.Item(b"1", "a"))
    return jobs(p).queue_len(db)


@program
def pipeline_that_is_dropped(p: Any, db: Any) -> Any:
    pipeline = db.pipeline()
    jobs(p).add_item_to_pipeline(pipeline, p.Item(b"1", "a"))
    pipeline.reset()
    return jobs(p).queue_len(db)


# Copies, subclasses, threads, processes.


@program
def copies_of_a_queue(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    queue.note = [1]
    copies = sent_on(queue), copy.deepcopy(queue), copy.copy(queue)
    for number, one in enumerate(copies):
        one.add_item(db, p.Item(b"1", str(number)))
    return [(type(one) is p.WorkQueue, one._main_queue_key, one.note, one.lease(db, 5)) for one in copies]


class Shop:
    """A program that keeps its queue, and is pickled with it."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue


@program
def an_object_with_a_queue(p: Any, db: Any) -> Any:
    shop = sent_on(Shop(jobs(p)))
    shop.queue.add_item(db, p.Item(b"1", "a"))
    return shop.queue.lease(db, 5)


@program
def queue_subclass(p: Any, db: Any) -> Any:
    class Mails(p.WorkQueue):  # type: ignore[misc]
        def __init__(self, db: Any) -> None:
            super().__init__(p.KeyPrefix("mails"))
            self.db = db

        def lease(self, secs: int = 5) -> Any:
            return super().lease(self.db, secs, False)

        def waiting(self) -> Any:
            return self.db.lrange(self._main_queue_key, 0, -1)

    queue = Mails(db)
    queue.add_item(db, p.Item(b"1", "a"))
    return queue.waiting(), queue.lease(), queue.lease(), queue.waiting()


@program
def methods_that_a_subclass_overrides(p: Any, db: Any) -> Any:
    class Logged(p.WorkQueue):  # type: ignore[misc]
        def add_item_to_pipeline(self, pipeline: Any, item: Any) -> None:
            logged.append(item.id())
            super().add_item_to_pipeline(pipeline, item)

    logged: list[str] = []
    Logged(p.KeyPrefix("jobs")).add_item(db, p.Item(b"1", "a"))
    return logged


@program
def attributes_that_are_set(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue._main_queue_key = "other"
    queue.add_item(db, p.Item(b"1", "a"))
    return db.llen("other")


@program
def a_lease_that_is_deleted_by_hand(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    queue.lease(db, 30)
    db.delete(queue._lease_key.of("a"))
    queue.light_clean(db)
    return queue.queue_len(db), queue.processing(db)


@program
def keys_deleted_by_hand(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    first = queue.lease(db, 30)
    db.delete("jobs:item:a", "jobs:processing", queue._lease_key.of("a"))
    queue.add_item(db, p.Item(b"2", "a"))
    return queue.lease(db, 30), queue.processing(db), queue.complete(db, first), queue.queue_len(db)


@program
def a_flush_in_between(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    item = queue.lease(db, 30)
    db.flushall()
    db.script_flush()
    ended = queue.complete(db, item)
    queue.add_item(db, item)
    return ended, queue.lease(db, 30)


@program
def keys_that_are_left(p: Any, db: Any) -> Any:
    queue = jobs(p)
    queue.add_item(db, p.Item(b"1", "a"))
    queue.complete(db, queue.lease(db, 30))
    return [key for key in db.scan_iter() if b":done:" not in key]


@program
def client_with_resp3(p: Any, db: Any) -> Any:
    with redis.Redis(unix_socket_path=db.connection_pool.connection_kwargs["path"], protocol=3) as client:
        return _life(p, client, "jobs")


@program
def client_with_one_connection(p: Any, db: Any) -> Any:
    path = db.connection_pool.connection_kwargs["path"]
    with redis.Redis(unix_socket_path=path, single_connection_client=True) as client:
        return _life(p, client, "jobs")


@program
def threads(p: Any, db: Any) -> Any:
    queue, ended = jobs(p), []
    for n in range(40):
        queue.add_item(db, p.Item(b"1", str(n)))

    def work() -> None:
        while (item := queue.lease(db, 30, block=False)) is not None:
            if queue.complete(db, item):
                ended.append(int(item.id()))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sorted(ended), queue.queue_len(db), queue.processing(db)


def in_a_process(queue: Any, path: str, sent: Any) -> None:
    db = redis.Redis(unix_socket_path=path)
    while (item := queue.lease(db, 30, False)) is not None:
        sent.put((item.id(), queue.complete(db, item)))
    db.close()


def _processes(p: Any, db: Any, how: str) -> Any:
    queue, context = jobs(p), multiprocessing.get_context(how)
    for n in range(10):
        queue.add_item(db, p.Item(b"1", str(n)))
    first = queue.lease(db, 30)
    sent = context.Queue()
    path = db.connection_pool.connection_kwargs["path"]
    workers = [context.Process(target=in_a_process, args=(queue, path, sent)) for _ in range(2)]  # type: ignore[attr-defined]
    for worker in workers:
        worker.start()
    ended = sorted(sent.get(timeout=60) for _ in range(9))
    for worker in workers:
        worker.join()
    return ended, queue.complete(db, first), queue.processing(db)


several("processes", {"fork": "fork", "spawn": "spawn", "forkserver": "forkserver"}, _processes)
