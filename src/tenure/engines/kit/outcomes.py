"""How an outcome is written for a script: a letter, a number of milliseconds, and the error or result."""

from __future__ import annotations

from typing import assert_never

from tenure.core.outcome import (
    Broken,
    Cancelled,
    Completed,
    Crashed,
    Failed,
    Outcome,
    Released,
    Retried,
    Unroutable,
)
from tenure.engines.kit.encoding import cancelled, write_error


def encode_outcome(outcome: Outcome) -> tuple[str, int, bytes]:
    """c completed: for how long its result is kept, and the result. r retried: after how long, and the error.

    f failed, b broken, x cancelled: the error. l released, k crashed, u unroutable: nothing more.
    """
    match outcome:
        case Completed():
            return "c", outcome.result_ttl_ms, outcome.result
        case Retried():
            return "r", outcome.delay_ms, write_error(outcome.error)
        case Failed():
            return "f", 0, write_error(outcome.error)
        case Broken():
            return "b", 0, write_error(outcome.error)
        case Released():
            return "l", 0, b""
        case Crashed():
            return "k", 0, b""
        case Unroutable():
            return "u", 0, b""
        case Cancelled():
            return "x", 0, cancelled(outcome.reason)
        case _:
            assert_never(outcome)
