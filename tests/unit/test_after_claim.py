"""What follows a claim: the next one, a wait, or the end of a burst."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tenure.core.job import Dropped, JobRecord, Lease, Leased
from tenure.core.shape import PLAIN, Shape
from tenure.runtime.claimer import Claimed
from tenure.runtime.fetcher import Following, after_claim

CLAIM, LAST_LOOK, WAIT, END = Following.CLAIM, Following.LAST_LOOK, Following.WAIT, Following.END


def leased(shape: Shape) -> tuple[Lease, ...]:
    return (Lease("w", 1, JobRecord("1", "q", b"", 0, shape=shape), 0, 0),)


NONE: Final = Claimed(Leased(next_ms=900), 4)
JOB: Final = Claimed(Leased(leased(PLAIN), next_ms=900), 4)
LASTING: Final = Claimed(Leased(leased(Shape(persistent=True)), next_ms=900), 4)
WOKEN: Final = Claimed(JOB.leased, 4, woken=True)
REFUSED: Final = Claimed(Leased(next_ms=900), 4, is_refused=True)
BURST: Final = {"is_burst": True}
ONLY_LASTING: Final = {"is_burst": True, "only_lasting": True}


@pytest.mark.parametrize(
    ("claimed", "state", "follows"),
    [
        (NONE, {"is_empty": True}, WAIT),
        (Claimed(Leased(), 0), {}, WAIT),
        (JOB, {}, CLAIM),
        (Claimed(LASTING.leased, 1), ONLY_LASTING, CLAIM),  # full: there may be more
        # A claim without a job that did not look at everything.
        (Claimed(Leased(next_ms=0), 4), {}, CLAIM),
        (Claimed(Leased(dropped=(Dropped("q", "1", "its record has gone"),)), 4), {}, CLAIM),
        (NONE, {"looks_again": True}, CLAIM),
        # A worker that was woken for short jobs waits without another claim.
        (WOKEN, {"only_settles": True}, WAIT),
        (WOKEN, {}, CLAIM),
        (JOB, {"only_settles": True}, CLAIM),
        (Claimed(JOB.leased, 4, woken=False), {"only_settles": True}, CLAIM),
        (Claimed(JOB.leased, 1, woken=True), {"only_settles": True}, CLAIM),
        (Claimed(Leased(leased(PLAIN), next_ms=0), 4, woken=True), {"only_settles": True}, CLAIM),
        # A job that is to run alone.
        (WOKEN, {"looks_again": True, "only_settles": True, **ONLY_LASTING}, CLAIM),
        # A burst ends when nothing but persistent jobs ran during a claim that brought no other.
        (NONE, {**ONLY_LASTING, "is_empty": True}, END),
        (NONE, ONLY_LASTING, END),
        (NONE, {**BURST, "is_empty": True}, CLAIM),
        (NONE, BURST, WAIT),
        (REFUSED, {**ONLY_LASTING, "is_empty": True}, WAIT),
        (Claimed(Leased(next_ms=0), 4), ONLY_LASTING, CLAIM),
        (JOB, {**ONLY_LASTING, "is_last_look": True}, CLAIM),
        (LASTING, {}, CLAIM),
        (LASTING, BURST, CLAIM),
        (LASTING, ONLY_LASTING, LAST_LOOK),
        (LASTING, {**ONLY_LASTING, "is_last_look": True}, END),
        (Claimed(LASTING.leased, 4, is_refused=True), {**ONLY_LASTING, "is_last_look": True}, CLAIM),
    ],
)
def test_what_follows_a_claim(claimed: Claimed, state: dict[str, Any], follows: Following):
    assert after_claim(claimed, **state) is follows
