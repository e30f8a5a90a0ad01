"""What random histories are made of: few ids, lanes, keys and numbers, so that everything meets everything."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from tenure.core.engine import Timing
from tenure.core.job import ErrorInfo, State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import PLAIN, Conflict, LaneFailure, Shape, UniqueRule, Until
from tests.property import model as spans
from tests.support.engines import Options

QUEUES: Final = ("q", "p")
LANES: Final = ("A", "B", "C")
WORKERS: Final = ("w1", "w2")
RECENT: Final = 4
"""So many of the last leases are used."""
ERROR: Final = ErrorInfo("Boom", "no")
HAND_MS: Final = 350_000
WINDOW_MS: Final = 250_000
WAIT_MS: Final = 150_000
OUTCOMES: Final[list[Outcome]] = [
    Completed(b"r", 350_000),
    Completed(b"", 0),
    Retried(ERROR),
    Retried(ERROR, 150_000),
    Failed(ERROR),
    Broken(ERROR),
    Released(),
    Crashed(),
    Unroutable(),
    Cancelled("x"),
]
OPTIONS: Final = Options(
    timing=Timing(lease_ms=spans.LEASE_MS, grace_ms=spans.GRACE_MS, steady_ms=spans.STEADY_MS),
    outage_ms=spans.OUTAGE_MS,
    amnesty_ms=spans.AMNESTY_MS,
    max_crashes=spans.MAX_CRASHES,
    alone_after_crashes=spans.ALONE,
    failed_ttl_ms=spans.KEEP_MS,
)

queues = st.sampled_from("qqp")
workers = st.sampled_from(WORKERS)
ids = st.sampled_from(["", "", "", *"abc"])
"""Of new jobs; empty: one that there was never before."""
tasks = st.sampled_from([None, "t", "u"])
outcomes = st.sampled_from(OUTCOMES)
batches = st.sampled_from([1, 3, 2])
picks = st.integers(0, 2 * RECENT - 1)
delays = st.sampled_from([0, 0, 0, 0, 150_000])
timeouts = st.sampled_from([0, 1_000])
"""Shorter than any step: the time that passes takes no job from a worker that beats."""
purgeable: Final = [state for state in State if state is not State.ACTIVE]
lanes = st.sampled_from(LANES)
many = st.one_of(lanes, lanes, st.sampled_from([None, *purgeable]))
changes = st.one_of(
    st.fixed_dictionaries({"lane_failure": st.sampled_from(LaneFailure)}),
    st.fixed_dictionaries({"paused": st.sampled_from([False, False, False, True])}),
    st.fixed_dictionaries({"max_length": st.sampled_from([0, 0, 5])}),
)

rules = st.builds(
    UniqueRule,
    key=st.sampled_from("kkl"),
    until=st.sampled_from(Until),
    conflict=st.sampled_from(Conflict),
    window_ms=st.just(WINDOW_MS),
    wait_ms=st.just(WAIT_MS),
)
"""Every meaning of a unique key with every way out of a conflict."""
own_rules = st.sampled_from([False, False, False, True]).flatmap(lambda has: rules if has else st.none())
persistence = st.sampled_from([False, False, False, True])
in_lanes = st.builds(
    Shape,
    lane=st.sampled_from("AAABBC"),
    lane_limit=st.sampled_from([1, 1, 1, 1, 1, 2]),
    unique=own_rules,
    persistent=persistence,
)
on_levels = st.builds(Shape, priority=st.sampled_from([-5, 0, 5]), unique=own_rules, persistent=persistence)
plain_lanes = st.builds(Shape, lane=lanes)
shapes = st.one_of(st.just(PLAIN), plain_lanes, in_lanes, in_lanes, on_levels)
UNNUMBERED: Final = frozenset({"heartbeat", "maintain", "progress", "register", "partitions"})
"""Scripts that may run twice: all others answer a copy of a call as they answered the call."""
