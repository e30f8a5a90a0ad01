"""The log lines of jobs.

A failed attempt is logged with the error's type and message and the place in the user's code, and a job that failed for
good with the traceback, without local variables. Less is logged where errors may contain data: see `ErrorDetail`.
"""

from __future__ import annotations

import logging
import shlex

from tenure.core.job import ErrorInfo, Lease
from tenure.core.logfmt import is_on, log_line
from tenure.core.names import ErrorDetail
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.text import masked
from tenure.runtime.log import JOBS, LOGGER, log_traceback, source_location


def logs_jobs() -> bool:
    """Whether starts and good ends are logged."""
    return JOBS.level != logging.NOTSET and is_on(JOBS, logging.INFO)


def started(lease: Lease, waited: float | None = None) -> None:
    _of("started", lease, {"attempt": lease.attempt, "waited": waited}, JOBS)


def ended(
    lease: Lease,
    outcome: Outcome,
    seconds: float | None = None,
    errors: ErrorDetail = "traceback",
    waited: float | None = None,
) -> None:
    """Log how an attempt ended. `seconds`: how long it took; `waited`: how long the job was ready before; None:
    unknown. `errors`: how much of an error to show."""
    match outcome:
        case Completed() | Cancelled():  # first, as it is the common case
            if logs_jobs():
                _of(type(outcome).__name__.lower(), lease, {"seconds": seconds, "waited": waited}, JOBS)
        case Released() | Unroutable():
            if LOGGER.isEnabledFor(logging.DEBUG):
                _of(type(outcome).__name__.lower(), lease)
        case Retried(error, delay_ms, deferred=True):
            _error("deferred", lease, error, errors, {"delay_ms": delay_ms})
        case Retried(error, delay_ms):
            _error("retried", lease, error, errors, {"delay_ms": delay_ms or None})
            if errors == "traceback":
                log_traceback(error, _names_of(lease), logging.DEBUG)
        case Failed(error) | Broken(error):
            record = lease.record
            see = shlex.join(["tenure", "job", record.queue, record.id])
            _error(type(outcome).__name__.lower(), lease, error, errors, {"see": see})
            if errors == "traceback":
                log_traceback(error, _names_of(lease), logging.ERROR)
        case Crashed():
            _of("crashed", lease)


def lost(lease: Lease, noticed: str, outcome: Outcome | None, certain: bool) -> None:
    """Log that the worker lost a lease. `outcome`: what does not count any more."""
    about: dict[str, object] = {"token": lease.token, "noticed_by": noticed}
    if outcome is not None:
        about |= {"outcome": type(outcome).__name__.lower(), "certain": certain}
    match outcome:
        case Retried(error) | Failed(error) | Broken(error):
            about |= {"error": error.type, "at": source_location(error.traceback)}
    _of("lease_lost", lease, about)


def _names_of(lease: Lease) -> dict[str, object]:
    return {"queue": lease.record.queue, "id": lease.record.id}


def _of(name: str, lease: Lease, fields: dict[str, object] | None = None, logger: logging.Logger = LOGGER) -> None:
    record = lease.record
    log_line(logger, name, None, {"queue": record.queue, "task": record.task, "id": record.id, **(fields or {})})


def _error(name: str, lease: Lease, error: ErrorInfo, errors: ErrorDetail, fields: dict[str, object]) -> None:
    message = None if errors == "type" else masked(error.message) or None
    about = {"attempt": lease.attempt, "error": error.type, "error_message": message}
    _of(name, lease, {**about, "at": source_location(error.traceback), **fields})
