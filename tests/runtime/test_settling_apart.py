"""Outcomes that are settled one by one, because Redis refuses one of them."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.core.errors import RedisError, ReplyError, WrongState
from leasehold.runtime.inflight import Inflight
from leasehold.runtime.ports import Env
from leasehold.runtime.settler import Settler
from tests.runtime.fakes import FakeDriver, FakeEngine


@pytest.mark.parametrize("refusal", [WrongState("foreign"), ReplyError("ERR", "attempt to compare nil with number")])
async def test_what_is_given_back_keeps_its_order(refusal: RedisError):
    engine: Any = FakeEngine(spoilt={"n1"}, refusal=refusal)
    driver = FakeDriver()
    engine.add(*(f"n{number}" for number in range(12)))
    leases = (await driver.run(engine.lease("w", ["q"], 12))).leases
    settler = Settler(engine, driver, Inflight(12), Env())
    for lease in leases:
        settler.put_stray(lease)
    with pytest.raises(type(refusal)):
        await settler.run()
    assert [lease.record.id for lease in engine.ready["q"]] == ["n0", *(f"n{number}" for number in range(2, 12))]
