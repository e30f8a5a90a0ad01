"""Programs for the original Python package run here after a change of the import, and get the same answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest
import redis

from tenure.compat import redis_work_queue as ours
from tenure.testing.server import RedisServer
from tests.wire.redis_work_queue.originals import python_package
from tests.wire.redis_work_queue.programs import PROGRAMS, Program, sent_on

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the original uses old commands of the client
REFUSED: Final = "raises InvalidArgument"
DIFFERENT: Final[dict[str, Any]] = {
    # A number as data.
    "data_int": REFUSED,
    "data_zero": REFUSED,
    "data_bool": REFUSED,
    "parse_int_data": REFUSED,
    # Adding.
    "add_answers": True,
    "add_an_id_twice": (1, b"1"),
    "pipeline_answers": [1],
    "pipeline_as_the_client": REFUSED,
    # Subclasses and attributes.
    "methods_that_a_subclass_overrides": [],
    "attributes_that_are_set": 0,
    # Leasing.
    "lease_of_fraction": ({"data": b"1", "id": "a"}, 2, True),
    "lease_of_millennia": REFUSED,
    "an_id_without_an_item": ({"data": b"1", "id": "a"}, 1),
    "a_lease_that_is_deleted_by_hand": (0, 1),
    # Completing.
    "keys_deleted_by_hand": ({"data": b"2", "id": "a"}, 1, False, 0),
    "complete_what_still_waits": (True, 0, None),
}
"""Our answers where they differ, each with its row in the table of docs/howto/redis-work-queue.md. Besides, a program
that raises another error there may raise `InvalidArgument` here."""


def answer(program: Program, package: Any, server: RedisServer, decode: bool = False) -> Any:
    server.flush()
    db = redis.Redis.from_url(server.url, decode_responses=decode)
    try:
        return program(package, db)
    except Exception as error:
        return f"raises {type(error).__name__}"
    finally:
        db.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gets_the_answers_of_the_original(server: RedisServer, name: str) -> None:
    here = answer(PROGRAMS[name], ours, server)
    there = answer(PROGRAMS[name], python_package(), server)
    if name in DIFFERENT:
        assert here == DIFFERENT[name]
        assert here != there, "it does not differ any more"
    elif here == REFUSED:
        assert str(there).startswith("raises ")
    else:
        assert here == there


def test_a_program_gets_the_same_answers_on_a_client_that_decodes(server: RedisServer) -> None:
    """The original cannot decode data that is no UTF-8. Ours can."""
    for name in ("the_life_of_an_item", "copies_of_a_queue", "pipeline_adds", "lease_exists"):
        assert answer(PROGRAMS[name], ours, server, True) == answer(PROGRAMS[name], python_package(), server, True)
    assert answer(PROGRAMS["complete_a_pickled_item"], ours, server, True) is True


@pytest.mark.parametrize("kind", [ours.WorkQueue, ours.AsyncWorkQueue])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, sent_on])
def test_a_copy_of_a_queue_is_a_session_of_its_own(kind: Any, copied: Callable[[Any], Any]) -> None:
    queue = kind(ours.KeyPrefix("jobs"), grace=7)
    twin = copied(queue)
    assert type(twin) is kind
    assert twin._session != queue._session
    assert twin._nonces is not queue._nonces
    assert twin._nonces.take().name != queue._nonces.take().name
    assert (twin._prefix, twin._config) == (queue._prefix, queue._config)
