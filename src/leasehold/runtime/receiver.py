"""Takes claimed leases in: refuses or parks what cannot run here, and has the rest started."""

from __future__ import annotations

import logging
from typing import Final

from leasehold.core.job import Lease
from leasehold.core.outcome import Broken, Unroutable
from leasehold.runtime.context import WorkerContext
from leasehold.runtime.executor import Executor
from leasehold.runtime.handlers.routes import UNROUTABLE, Routes
from leasehold.runtime.intake import Intake
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.log import Once, ended, log_event
from leasehold.runtime.settler import Settler

UNROUTABLE_LOGGED: Final = 100
"""Tasks without a route that a worker logs, each once."""


class Receiver:
    """See the module."""

    def __init__(
        self,
        context: WorkerContext,
        inflight: Inflight,
        intake: Intake,
        settler: Settler,
        executor: Executor,
        routes: Routes,
    ) -> None:
        self._context = context
        self._inflight = inflight
        self._intake = intake
        self._settler = settler
        self._executor = executor
        self._routes = routes
        self._logged = Once(UNROUTABLE_LOGGED)

    def accept(self, leases: tuple[Lease, ...], asked_at: float) -> None:
        """Take leases in and start those for which a slot is free. `asked_at`: when the claim was sent."""
        now, events = self._context.env.clock(), self._context.events
        for lease in leases:
            refusal = self._routes.refusal(lease)
            spec = None if refusal else self._routes.route(lease)
            held = self._inflight.add(lease, spec or UNROUTABLE, now, spec is not None, asked_at)
            if held is None:
                continue
            if events is not None:
                events.claimed(lease)
            if refusal:
                outcome = Broken(refusal)
                self._settler.put(held, outcome)
                ended(lease, outcome)
            elif spec is None:
                self._settler.put(held, Unroutable())
                self._log_unroutable(lease)
        if asked_at <= self._intake.kept.lapsed_before:
            self._executor.release_doubtful()
        self._executor.dispatch()

    def _log_unroutable(self, lease: Lease) -> None:
        record = lease.record
        if self._logged.is_new(f"{record.queue} {record.task}"):
            log_event("unroutable", logging.WARNING, queue=record.queue, task=record.task, id=record.id)
