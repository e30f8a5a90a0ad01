"""Looks at some queues again and again, decides how many workers they need, and answers requests for that number."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Sequence
from typing import Final

from tenure.core.errors import TenureError
from tenure.core.text import masked
from tenure.core.values import replace
from tenure.manage.documents import scale_document
from tenure.manage.inspect import JobSearch
from tenure.processes.http import Request, Response
from tenure.runtime.log import Once, log_event
from tenure.scale import Decision, Policy, Sample, beginning, desired

STALE: Final = "The load cannot be read, so the last decision stays: "


class Autoscaler:
    """The decisions for some queues. `token`: what requests send as `Authorization: Bearer TOKEN`; empty: any
    request is answered.

    scaler = Autoscaler(app.inspect, ["orders"], Policy(max=20))
    await scaler.run(lambda decision: print(decision.reason))
    """

    def __init__(self, inspect: JobSearch, queues: Sequence[str], policy: Policy, token: str = "") -> None:
        self.decision: Decision | None = None
        """None: Redis has not answered yet."""
        self._inspect = inspect
        self._queues = queues
        self._policy = policy
        self._bearer = f"Bearer {token}".encode() if token else b""
        self._sample: Sample | None = None
        self._unknown: set[str] = set()
        self._trouble = Once()

    async def run(self, decided: Callable[[Decision], None], every_s: float = 5.0) -> None:
        """Look until it is cancelled. `decided` is called with the first decision, and when the number changes."""
        while True:
            before = self.decision
            await self.look()
            if self.decision is not None and (before is None or before.workers != self.decision.workers):
                decided(self.decision)
            await asyncio.sleep(every_s)

    async def look(self) -> None:
        """Decide by the load of this moment. While Redis does not answer, the last decision stays."""
        try:
            sample = await self._inspect.aload(self._queues, self._policy.spin_up)
        except TenureError as error:
            if self._trouble.is_new(str(error)):
                log_event("redis_lost", what="autoscaler", error=masked(str(error)))
            if self.decision is not None and not self.decision.reason.startswith(STALE):
                self.decision = replace(self.decision, reason=STALE + self.decision.reason)
            return
        if self._trouble.forget():
            log_event("redis_restored", what="autoscaler")
        for load in sample.queues:
            if not load.is_known and load.name not in self._unknown:
                self._unknown.add(load.name)
                log_event("queue_unknown", queue=load.name)
        sample = sample if self._sample is None else sample.after(self._sample)
        self._sample = sample
        self.decision = desired(sample, self._policy, self.decision or beginning(sample, self._policy))

    async def answer(self, request: Request) -> Response:
        """Answer GET /scale with JSON, and GET /metrics with gauges for Prometheus."""
        if self._bearer and not hmac.compare_digest(request.authorization.encode("latin-1"), self._bearer):
            return Response(401, b"Send the token: Authorization: Bearer TOKEN\n")
        if request.path not in ("/scale", "/metrics"):
            return Response(404, b"Ask for /scale or /metrics.\n")
        if self.decision is None:
            return Response(503, b"Redis has not answered yet.\n")
        if request.path == "/scale":
            return Response(200, json.dumps(scale_document(self.decision)).encode() + b"\n", "application/json")
        return Response(200, self._gauges(self.decision).encode(), "text/plain; version=0.0.4; charset=utf-8")

    @staticmethod
    def _gauges(decision: Decision) -> str:
        name = "tenure_workers_desired"
        lines = [f"# HELP {name} How many workers the queues need.", f"# TYPE {name} gauge"]
        lines += [f"{name} {decision.workers}"]
        if decision.tiers:
            name = "tenure_tier_workers_desired"
            lines += [f"# HELP {name} How many of them each tier has.", f"# TYPE {name} gauge"]
            lines += [f'{name}{{tier="{tier}"}} {count}' for tier, count in decision.tiers.items()]
        return "\n".join([*lines, ""])
