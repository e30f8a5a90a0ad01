"""The worker's log: one line for each event, `event key=value`, also for ids with line breaks."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from tenure.core.logfmt import PARTS, line, log_line
from tenure.core.text import masked

if TYPE_CHECKING:
    from tenure.core.job import Dropped, ErrorInfo

LOGGER = logging.getLogger("tenure.worker")
JOBS: Final = logging.getLogger("tenure.jobs")
"""The starts and good ends of jobs. Off unless its level is set, as `tenure worker` does."""
if JOBS.level == logging.NOTSET:
    JOBS.setLevel(logging.WARNING)
DROPS_EVERY_S: Final = 10.0
"""How long after a line about dropped entries the next one may follow."""
DROPS_NAMED: Final = 5
"""Ids in one of these lines."""
TRACEBACK: Final = "traceback"
"""The only field that is not cut to `MAX_LOG_TEXT`: it is bounded already."""
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)')
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def log_event(name: str, level: int | None = None, /, **fields: object) -> None:
    """Log one event at its level in the registry, or at `level`. Never give it a payload."""
    log_line(LOGGER, name, level, fields)


class Once:
    """Which texts are new, of those that are repeated. It remembers `most`: further texts are not new.

    >>> once = Once(most=2)
    >>> [once.is_new(text) for text in ("a", "b", "a", "c")]
    [True, True, False, False]
    """

    def __init__(self, most: int = 5) -> None:
        self._most = most
        self._told: set[str] = set()

    def is_new(self, text: str) -> bool:
        if text in self._told or len(self._told) >= self._most:
            return False
        self._told.add(text)
        return True

    def forget(self) -> bool:
        """Take every text for new from now on. Return whether there was any: then the end of the trouble is news."""
        had_any = bool(self._told)
        self._told.clear()
        return had_any


class Drops:
    """Logs the entries that claims dropped: one line for a queue, with their count, at most every `DROPS_EVERY_S`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._first: dict[str, list[Dropped]] = {}
        """At most `DROPS_NAMED` for each queue."""
        self._due_at = 0.0

    def add(self, dropped: Iterable[Dropped]) -> None:
        for one in dropped:
            self._counts[one.queue] = self._counts.get(one.queue, 0) + 1
            first = self._first.setdefault(one.queue, [])
            if len(first) < DROPS_NAMED:
                first.append(one)

    def log(self, *, at_once: bool = False) -> None:
        """Log what was added since the last line, if a line may follow now."""
        if not self._counts or (self._clock() < self._due_at and not at_once):
            return
        for queue, first in self._first.items():
            ids = ",".join(one.id for one in first)
            log_event("entry_dropped", queue=queue, count=self._counts[queue], ids=ids, reason=first[0].reason)
        self._counts.clear()
        self._first.clear()
        self._due_at = self._clock() + DROPS_EVERY_S


def callback_failed(
    kind: str, error: BaseException, function: Callable[..., Any], level: int | None = None, /, **fields: object
) -> None:
    """Log that a callback of the user raised or broke a rule: the error's type and place, the rest at debug.

    If the error was raised outside of the callback (a timeout, a wrong return value, other arguments), the place is the
    callback's first line.
    """
    from tenure.runtime.errors import describe  # here: each command logs, and few call user code

    info = describe(error)
    at = source_location(info.traceback) or _first_line(function)
    log_event("callback_failed", level, kind=kind, **fields, error=info.type, at=at)
    log_traceback(info, fields, logging.DEBUG)


def log_traceback(error: ErrorInfo, fields: dict[str, object], level: int) -> None:
    if error.traceback and LOGGER.isEnabledFor(level):
        text = masked(error.traceback)
        lines = "".join(f"\n  | {_printable(one)}" for one in text.splitlines())
        parts = ("traceback", fields | {TRACEBACK: text})
        LOGGER.log(level, "%s%s", line("traceback", fields), lines, extra={PARTS: parts})


def source_location(traceback: str) -> str | None:
    """The last frame of the user's code, as `file:line in function`. None without a traceback, or if the last frame is
    of Tenure, as for a payload that the task does not take.

    >>> source_location('  File "/app/shop.py", line 7, in order\\n    raise KeyError\\nKeyError: 1')
    '/app/shop.py:7 in order'
    """
    # The frames come before the text of the error, which begins in the first column and may look like anything.
    lines = takewhile(lambda one: one[:2] == "  ", traceback.split("\n"))
    frames = [found for one in lines if (found := _FRAME.fullmatch(one))]
    if not frames:
        return None
    last = next((frame for frame in reversed(frames) if is_users(frame["file"])), frames[-1])
    if last["file"].startswith(_OURS):
        return None
    return f"{last['file']}:{last['line']} in {last['function']}"


def _first_line(function: Callable[..., Any]) -> str | None:
    """Where a function begins, as `file:line in function`; None if it is not written in Python."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}"


def is_users(file: str) -> bool:
    """Whether a file is the user's: not of Python, not of an installed package, not of Tenure."""
    return not file.startswith(("<", _LIBRARY, _OURS)) and "site-packages" not in file and "dist-packages" not in file


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def brief(error: BaseException) -> str:
    """An error in one line, with the place where it was raised."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        where = f" at {trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"
        trace = trace.tb_next
    try:
        return f"{type(error).__name__}: {error}{where}"
    except Exception:
        return f"{type(error).__name__}{where}"
