"""Where the partitions of a queue lie on a cluster: their keys are named so that each node has about as many."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core import names
from tenure.core.errors import InvalidArgument
from tenure.core.partitions import MAX_PARTITIONS, place_of
from tenure.engines.native.keys import SLOTS, TRIES, queue_of, queue_prefix
from tenure.redis.slots import slot_of_key
from tests.support.cluster import fullest_node


def is_queue_name(text: str) -> bool:
    try:
        return bool(names.queue_name(text))
    except InvalidArgument:
        return False


QUEUES = st.text(min_size=1, max_size=30).filter(is_queue_name)


@given(QUEUES)
@settings(max_examples=50)
def test_no_node_has_many_more_partitions_than_the_others(queue: str) -> None:
    """At most one more than the mean, rounded up; and no more than the mean, where slots and partitions divide without
    a rest."""
    for partitions in (4, 8, 16, 64):
        for masters in (2, 3, 6, 16):
            rest = bool(SLOTS % masters or partitions % masters)
            assert fullest_node(queue, partitions, masters) <= -(-partitions // masters) + rest


def test_every_partition_has_a_cell_of_slots_of_its_own() -> None:
    prefixes = [queue_prefix("tenure", place_of("orders", n)) for n in range(MAX_PARTITIONS)]
    assert len({slot_of_key(prefix) * MAX_PARTITIONS // SLOTS for prefix in prefixes}) == MAX_PARTITIONS
    assert {queue_of(prefix) for prefix in prefixes} == {"orders"}


@pytest.mark.parametrize("begun", ["tenure:orders/1-", "x:y/255-"])
def test_a_number_of_three_digits_reaches_every_cell(begun: str) -> None:
    """So the search ends for every name: CRCs of texts of equal length, with another beginning, differ by the same
    bits, which only exchanges the cells."""
    slots = [slot_of_key(f"{begun}{number}") for number in range(100, TRIES)]
    assert len({slot * MAX_PARTITIONS // SLOTS for slot in slots}) == MAX_PARTITIONS
