"""Which prefixes a queue may have: no two queues have the same, and all can be written."""

from __future__ import annotations

import pytest

from tenure import RedisWorkQueue
from tenure.compat.redis_work_queue import KeyPrefix, WorkQueue
from tenure.core.errors import InvalidArgument
from tenure.engines.redis_work_queue import RedisWorkQueueEngine


@pytest.mark.parametrize("queues", [{"a": "jobs"}, {"a": "p", "b": "p"}, {"a": "p", "default": "p"}])
def test_two_queues_of_one_prefix_are_refused(queues: dict[str, str]) -> None:
    for make in (lambda: RedisWorkQueue("jobs", queues=queues), lambda: RedisWorkQueueEngine("jobs", None, queues)):
        with pytest.raises(InvalidArgument, match=r"'a'.*same prefix"):
            make()


@pytest.mark.parametrize(
    ("base", "queues"),
    [("jobs", {"im": "jobs:done"}), ("jobs:passing:w", {"im": "jobs"}), ("jobs", {"a": "p", "b": "p:x:queue"})],
)
def test_a_prefix_that_lies_where_another_queue_has_its_keys_is_refused(base: str, queues: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="is the name of a key of that queue"):
        RedisWorkQueue(base, queues=queues)
    RedisWorkQueue("done:jobs", queues={"a": "done", "b": "jobs:done"})  # beside each other


def test_a_name_whose_place_another_queue_has_is_refused() -> None:
    engine = RedisWorkQueueEngine("jobs", None, {"thumbs": "jobs:images"})
    assert (engine.prefix("thumbs"), engine.prefix("default"), engine.prefix("x")) == ("jobs:images", "jobs", "jobs:x")
    with pytest.raises(InvalidArgument, match=r"'thumbs' and 'images' have the same prefix, 'jobs:images'"):
        engine.prefix("images")


def test_the_default_queue_may_lie_elsewhere_or_be_named() -> None:
    assert RedisWorkQueueEngine("jobs", None, {"default": "jobs"}).prefix("default") == "jobs"
    assert RedisWorkQueueEngine("jobs", None, {"default": "p", "a": "jobs"}).prefix("a") == "jobs"


def test_a_prefix_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="UTF-8"):
        RedisWorkQueue("\ud800")
    with pytest.raises(InvalidArgument, match="UTF-8"):
        WorkQueue(KeyPrefix("\ud800"))


def test_queues_may_be_left_out() -> None:
    assert RedisWorkQueue("jobs", queues=None).text == "redis-work-queue:jobs"
    with pytest.raises(InvalidArgument, match="queues must be a dict"):
        RedisWorkQueue("jobs", queues=["a"])  # type: ignore[arg-type]
