"""Payloads in a store of the user: read before the handler runs, deleted after the job has completed."""

from __future__ import annotations

import asyncio
import contextlib

from tenure.core.job import ErrorInfo
from tenure.core.outcome import Broken, Completed
from tenure.core.stores import PayloadStore, data_of, is_own, key_of
from tenure.runtime.jobs.held import Batch, Held, Outcomes
from tenure.runtime.jobs.outcomes import Random, outcome_of_error
from tenure.runtime.jobs.reports import Subscriber


def has_stored(run: Held | Batch) -> bool:
    """Whether a payload of this run is in a store. Most jobs have no headers at all."""
    if type(run) is Held:
        return run.lease.record.headers is not None and key_of(run.lease.record.headers) is not None
    return any(key_of(held.lease.record.headers) is not None for held in run.members)


class StoredPayloads(Subscriber):
    """Reads and deletes the payloads of jobs. `store`: None for an app without one."""

    def __init__(self, store: PayloadStore | None = None) -> None:
        self._store = store

    def load(self, run: Held | Batch, random: Random) -> Outcomes:
        """Read the payloads of a run, in a thread. Return the outcomes of jobs with payloads that cannot be read.

        A missing payload ends its job in `broken`; any other error of the store counts as a failed attempt.
        """
        failed: Outcomes = []
        for held in run.members:
            key = key_of(held.lease.record.headers)
            if key is None:
                continue
            if not is_own(key, held.lease.record.id):
                text = "The record names the payload of another job."
                failed.append((held, Broken(ErrorInfo("PayloadMissing", text))))
                continue
            if self._store is None:
                text = "The payload is in a store, and the app of this worker has none: Tenure(large=...)."
                failed.append((held, Broken(ErrorInfo("NoPayloadStore", text))))
                continue
            try:
                held.read_payload(data_of(self._store, key))
            except LookupError:
                text = f"The store has no payload {key}."
                failed.append((held, Broken(ErrorInfo("PayloadMissing", text))))
            except Exception as error:
                failed.append((held, outcome_of_error(held, error, random)))
        return failed

    def settled(self, items: Outcomes) -> None:
        """Delete the payloads of jobs that have completed, each in a thread."""
        for held, outcome in items:
            if type(outcome) is Completed and key_of(held.lease.record.headers) is not None:
                asyncio.get_running_loop().run_in_executor(None, self.delete, held)

    def delete(self, held: Held) -> None:
        """Delete the payload of a completed job. If that fails, `tenure clean --payloads` does it later."""
        key = key_of(held.lease.record.headers)
        if key is None or self._store is None or held.persistent:
            return
        if is_own(key, held.lease.record.id):
            with contextlib.suppress(Exception):
                self._store.delete(key)
