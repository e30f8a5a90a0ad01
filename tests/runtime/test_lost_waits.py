"""Waits for work that come to nothing, again and again, while Redis answers everything else."""

from __future__ import annotations

import itertools
import logging
import time

import pytest

from tenure.core.errors import AccessDenied
from tenure.core.steps import WaitLost
from tenure.runtime import waiting
from tenure.runtime.jobs.reports import Reports
from tenure.runtime.loops import MonitoredDriver
from tenure.runtime.ports import Env
from tests.runtime.fakes import FakeDriver, Rig
from tests.support.fakes import FakeEngine


@pytest.mark.parametrize("error", [WaitLost("closed"), AccessDenied("no rights to BLPOP")], ids=["lost", "refused"])
async def test_it_is_told_once_and_jobs_are_done_all_the_same(error: Exception, caplog: pytest.LogCaptureFixture):
    waits, broken = 0, True

    def fault(call: str) -> None:
        nonlocal waits
        if call == "wait":
            waits += 1
            if broken:
                raise error

    with caplog.at_level(logging.DEBUG, "tenure.worker"):
        async with Rig(lambda: None) as rig:
            rig.driver.fault = fault
            await rig.engine.until(lambda: waits > waiting.LOST_LOGGED + 1)
            rig.engine.add("a")
            await rig.ends("a")
            assert caplog.text.count("redis_lost what=wait") == 1
            broken = False
            await rig.engine.until(lambda: "redis_restored what=wait" in caplog.text)
    assert caplog.text.count("redis_restored what=wait") == 1
    assert not {"access", "loop_failed"} & set(caplog.text.replace("=", " ").split())


@pytest.mark.parametrize("silent", [False, True])
async def test_what_is_cut_after_a_quiet_while_is_no_news(silent: bool, caplog: pytest.LogCaptureFixture):
    """As by a proxy in between. It is, when nobody says that the connection is gone."""
    waits = 0

    def fault(call: str) -> None:
        nonlocal waits
        if call == "wait":
            waits += 1
            raise WaitLost("gone", silent)

    fast = Env(clock=lambda: time.monotonic() * 100_000)  # every wait lasts long
    async with Rig(lambda: None, env=fast) as rig:
        rig.driver.fault = fault
        await rig.engine.until(lambda: waits > waiting.LOST_LOGGED + 1)
    assert caplog.text.count("redis_lost what=wait") == int(silent)


async def test_one_of_many_that_is_lost_is_no_news(caplog: pytest.LogCaptureFixture):
    waits = 0

    def fault(call: str) -> None:
        nonlocal waits
        if call == "wait":
            waits += 1
            if waits % 2:
                raise WaitLost("gone")
            rig.engine.add(str(waits))

    async with Rig(lambda: None) as rig:
        rig.driver.fault = fault
        await rig.engine.until(lambda: waits > 4 * waiting.LOST_LOGGED)
    assert "woken" not in caplog.text


async def test_a_lost_wait_is_no_sign_of_life():
    """What an orchestrator looks at is the time of the last good reply."""
    engine = FakeEngine()
    driver, times = FakeDriver(), itertools.count(100)
    link = MonitoredDriver(driver, Env(clock=lambda: float(next(times))), Reports())
    before = link.good_at

    def fault(call: str) -> None:
        raise WaitLost("no reply in time")

    driver.fault = fault
    with pytest.raises(WaitLost):
        await link.wait(engine.wake(["q"], 20))
    assert link.good_at == before
    assert link.down_since is None
    driver.fault = None
    assert await link.wait(engine.wake(["q"], 20)) is None
    assert link.good_at > before
