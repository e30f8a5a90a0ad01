"""All scenarios by name, and those that tests elsewhere play in full."""

from __future__ import annotations

from typing import Final

from tests.faults.harness.scenario import Pointer, Scenario
from tests.faults.scenarios import (
    clocks,
    clusters,
    deaths,
    failovers,
    flows,
    inputs,
    inside,
    limit_storm,
    limited,
    moves,
    network,
    partings,
    replies,
    reuse,
    server,
    shared_machine,
    ticks,
    zombies,
)

_PARTS: Final = (
    deaths,
    zombies,
    reuse,
    replies,
    network,
    server,
    clusters,
    moves,
    failovers,
    partings,
    clocks,
    inside,
    inputs,
    ticks,
    flows,
    limited,
    limit_storm,
    shared_machine,
)
SCENARIOS: Final[dict[str, Scenario]] = {one.name: one for part in _PARTS for one in part.ALL}

IN_TESTS: Final = ("S03", "S06", "S09", "S10", "S11", "S12", "S16", "S17", "S23", "S30", "S42", "S45", "S50", "S76")
"""One scenario for each kind of fault, which `make test` plays, too. All others are for `make faults`; in the tests the
crash matrix, the walks of limits and the tests of workers and drivers stand for them."""
LANES: Final = "S40"
"""Has a stage of its own: tests/faults/lanes."""
POINTERS: Final[dict[str, Pointer]] = {
    one.name: one
    for one in (
        Pointer(
            "S61",
            "workers of queue-farm's package for Node and of Tenure are killed",
            ("tests/wire/queue_farm/test_node.py::test_every_queue_runs_in_order_while_workers_are_killed",),
        ),
        Pointer(
            "S02",
            "a process dies before or after each call that an operation makes, exhaustively",
            ("tests/faults/test_crash_matrix.py",),
        ),
        Pointer(
            "S24",
            "a Redis that evicts keys",
            ("tests/acceptance/test_cli_worker.py::test_a_redis_that_evicts_is_refused_unless_accepted",),
        ),
        Pointer(
            "S34",
            "a handler holds the interpreter's lock for three leases (in S33, too)",
            ("tests/runtime/test_keeper.py::TestWorkers::test_a_blocked_worker_is_not_taken_for_dead",),
        ),
        Pointer(
            "S35",
            "the process that keeps a worker's leases is killed, is stopped, or cannot start",
            (
                "tests/runtime/test_keeper.py::TestWorkers::test_a_killed_keeper_costs_nothing",
                "tests/runtime/test_keeper.py::TestWorkers::test_a_stopped_keeper_is_replaced_before_the_lease_is_gone",
                "tests/runtime/test_heartbeat.py::test_many_deaths_in_a_minute_end_the_worker",
            ),
        ),
        Pointer(
            "S38",
            "a call is cancelled at every await, or interrupted",
            (
                "tests/redis/test_aio.py::test_a_call_cancelled_at_any_await_never_mixes_replies",
                "tests/redis/test_aio.py::test_calls_cancelled_at_random_never_mix_replies",
                "tests/redis/test_aio.py::test_a_cancellation_is_not_swallowed_and_takes_the_session_along",
                "tests/redis/test_sync.py::test_an_interrupted_call_leaves_no_reply_behind",
            ),
        ),
        Pointer(
            "S39",
            "a process forks after it has connected",
            (
                "tests/redis/test_sync.py::test_parent_and_child_share_nothing_after_a_fork",
                "tests/redis/test_aio.py::test_a_child_makes_connections_and_sessions_of_its_own",
                "tests/runtime/test_keeper.py::TestWorkers::test_a_copy_that_a_forking_handler_left_ends",
            ),
        ),
    )
}
