"""Hash slots: of keys, of calls, and in the reply of a node."""

from __future__ import annotations

import pytest

from tenure.core.errors import InvalidArgument
from tenure.core.steps import Arg, Command, Invoke, Script
from tenure.redis.slots import SLOTS, keys_of, read_slots, slot_of_key, split_wait

SCRIPT = Script("none", "return 1")


@pytest.mark.parametrize(
    ("key", "slot"),
    [("123456789", 0x31C3), ("foo", 12182), ("{foo}bar", 12182), ("a{foo}{bar}", 12182), ("foo{}", 5542)],
)
def test_a_slot_is_that_of_the_hash_tag(key: str, slot: int) -> None:
    assert slot_of_key(key) == slot_of_key(key.encode()) == slot


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("PING",), ()),
        (("publish", "channel", "x"), ()),
        (("HGET", "a", "field"), ("a",)),
        (("BLPOP", "a", "b", "1.5"), ("a", "b")),
        (("BLMOVE", "a", "b", "LEFT", "LEFT", "1"), ("a",)),
        (("SCAN", 0, "MATCH", r"{jobs\[1\]}:item:*", "COUNT", 10), ("{jobs[1]}:item:*",)),
    ],
)
def test_the_keys_of_a_command(words: tuple[Arg, ...], keys: tuple[str, ...]) -> None:
    assert keys_of(Command(words)) == keys


def test_a_script_is_where_its_first_key_is() -> None:
    assert keys_of(Invoke(SCRIPT, ("a", "b"), ())) == ("a",)


def test_what_one_node_knows_of_itself_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="SCAN is about one node"):
        keys_of(Command(("SCAN", "0", "MATCH", "jobs:*")))


def test_a_wait_is_split_by_slots_in_the_order_of_its_keys() -> None:
    parts = split_wait(Command(("BLPOP", "{a}1", "{b}1", "{a}2", "2.000"), block_ms=2_000))
    assert [part.args for part in parts] == [("BLPOP", "{a}1", "{a}2", "2.000"), ("BLPOP", "{b}1", "2.000")]
    assert {part.block_ms for part in parts} == {2_000}


def test_a_map_has_masters_replicas_and_slots_without_a_node() -> None:
    reply = [
        [0, 99, [b"10.0.0.1", 7000, b"id"], [b"10.0.0.2", 7001, b"id"]],
        [200, SLOTS - 1, [b"", 7002, b"id"], [b"?", 7003, b"id"]],
    ]
    found = read_slots(reply, ("node", 7002))
    owners = found.owners()
    assert (owners[0], owners[99], owners[100], owners[200]) == (("10.0.0.1", 7000),) * 2 + (None, ("node", 7002))
    assert found.replicas == (("10.0.0.2", 7001),)
    assert len(owners) == SLOTS
