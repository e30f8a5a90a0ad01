"""Hears at once what the next beat or announcement would say anyway: jobs to be cancelled, and whether to be quiet."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.errors import AccessDenied
from leasehold.runtime.executor import Executor
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.log import brief, log_event
from leasehold.runtime.maintainer import Maintainer
from leasehold.runtime.ports import Driver, Env, Messages

LOOK_S: Final = limits.MINUTE / limits.SECOND
"""After a minute without a message the subscription is entered once more: that revives one that was refused meanwhile,
and costs nothing when all is well. A user who may not subscribe tries again this often."""


class Subscriber:
    """One subscription. Messages are hints: a lost one costs the time to the next beat or announcement."""

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        worker: str,
        queues: Sequence[str],
        inflight: Inflight,
        executor: Executor,
        maintainer: Maintainer,
        env: Env,
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._worker = worker
        self._channel = engine.signal_channel(worker)
        self._queues = frozenset(queues)
        self._inflight = inflight
        self._executor = executor
        self._maintainer = maintainer
        self._env = env
        self._told = False

    async def run(self) -> None:
        while True:
            try:
                async with self._driver.subscribe(self._channel) as messages:
                    await self._listen(messages)
            except AccessDenied as error:
                if not self._told:
                    self._told = True
                    log_event(logging.WARNING, "not_listening", error=brief(error))
                await self._env.sleep(LOOK_S)

    async def _listen(self, messages: Messages) -> None:
        while True:
            first = await messages.get(LOOK_S)
            if first is None:
                async with self._driver.subscribe(self._channel):
                    continue
            # Jobs that are cancelled together come as many messages about one queue: ask once.
            names = {first}
            for _ in range(limits.MAX_MESSAGES):
                more = await messages.get(0)
                if more is None:
                    break
                names.add(more)
            for name in names:
                await self._act(name.decode("utf-8", "surrogateescape"))

    async def _act(self, queue: str) -> None:
        if not queue:
            await self._maintainer.announce()
        elif queue in self._queues:
            held = [ref for ref in self._inflight.snapshot() if ref.queue == queue]
            if held:
                beat = await self._driver.run(self._engine.heartbeat(self._worker, (queue,), held))
                for asked in beat.cancelled:
                    self._executor.cancel(asked.ref, asked.reason)
