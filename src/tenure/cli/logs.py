"""Where the log of a command goes, and how it looks."""

from __future__ import annotations

import logging
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Final, TextIO

import click

from tenure.core.log_events import LOG_EVENTS, OUTCOMES
from tenure.core.logfmt import PARTS, line
from tenure.core.names import LOG_ERRORS, LOG_FORMATS
from tenure.runtime.log import JOBS, log_event
from tenure.runtime.observe.format import HumanFormatter, JsonFormatter, formatter
from tenure.settings import Settings

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_COLOURS: Final = {logging.DEBUG: _DIM, logging.INFO: "\x1b[32m", logging.WARNING: "\x1b[33m"} | dict.fromkeys(
    (logging.ERROR, logging.CRITICAL), "\x1b[31m"
)
LEVELS: Final = ("debug", "info", "warning", "error")
OURS: Final = logging.getLogger("tenure")
LOG_END_S: Final = 2
"""How long the last lines of a log may take to be written."""

STALL_MS: Final = 1_000
"""How long a line waits for stderr, once, before lines are dropped."""


class StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr. Drops lines while stderr accepts none: a pipe that no program reads must not stop a worker."""

    def __init__(self, descriptor: int = 2, stall_ms: int = STALL_MS) -> None:
        super().__init__(sys.stderr)
        self._stall_ms = stall_ms
        self._dropped = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        if not self._poll.poll(0 if self._dropped else self._stall_ms):
            self._dropped += 1
            return
        dropped, self._dropped = self._dropped, 0
        if dropped:
            log_event("log_restored", dropped=dropped)
        super().emit(record)


def set_up_logging(level: str, form: str | None = None, jobs: bool | None = None, *, by_app: bool = False) -> None:
    """Log on stderr from this level on. `form`: `human` or `json`; None: by TENURE_LOG_FORMAT.

    `jobs`: also each start and each good end of a job, at any level; None: by TENURE_LOG_JOBS, else at info and
    debug. `by_app`: see `log_to`. Raises `NotConfigured` for another value of a variable.
    """
    handler, settings = StderrHandler(), Settings.load(log_format=form, log_jobs=jobs)
    form, jobs = settings.log_format, settings.log_jobs
    handler.setFormatter(TerminalFormatter() if form == "human" and draws_colours(sys.stderr) else formatter(form))
    log_to(handler, logging.getLevelNamesMapping()[level.upper()], by_app=by_app)
    if jobs or (jobs is None and level in ("debug", "info")):
        JOBS.setLevel(logging.INFO)


def log_to(handler: logging.Handler, level: int, *, by_app: bool) -> None:
    """Log Tenure's lines with this handler, and the lines of the app until its code has configured logging.

    The app is loaded later and may call `logging.config.dictConfig` or `basicConfig` at any time. So the root logger
    gets no handler: `basicConfig` would do nothing then, and each line of the worker would come twice. The handler of
    last resort writes what no other handler takes, also when the app's configuration removes Tenure's handler.
    `by_app`: the app's handlers get Tenure's lines, too.
    """
    logging.lastResort = handler
    logging.getLogger().setLevel(level)
    if not by_app:
        OURS.handlers, OURS.propagate = [handler], False
        OURS.setLevel(level)


@dataclass(frozen=True, slots=True)
class LogSetup:
    """How this process logs, for one that it starts."""

    level: int
    form: str
    by_app: bool

    @classmethod
    def current(cls) -> LogSetup:
        """Read it before the app is loaded, because the app may change it."""
        handler = logging.lastResort
        is_json = handler is not None and isinstance(handler.formatter, JsonFormatter)
        return cls(logging.getLogger().level, "json" if is_json else "human", OURS.propagate)


def logs_as_asked(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a worker's log to a command, which is called with the log set up."""

    @click.option(
        "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What to log on stderr."
    )
    @click.option(
        "--log-format", type=click.Choice(LOG_FORMATS), help="How to log it. [default: TENURE_LOG_FORMAT, or human]"
    )
    @click.option(
        "--log-jobs/--no-log-jobs", default=None,
        help="Log the start and the end of each job, or of none. [default: TENURE_LOG_JOBS, or of each, and above 50 "
        "jobs a second a line a second with their number]",
    )  # fmt: skip
    @click.option(
        "--log-by-app", is_flag=True,
        help="The app configures the log of its worker, too: Tenure's lines go to the app's handlers only.",
    )  # fmt: skip
    @click.option(
        "--log-errors", type=click.Choice(LOG_ERRORS),
        help="How much of a job's error to log; less where errors hold data. [default: TENURE_LOG_ERRORS, or "
        "traceback]",
    )  # fmt: skip
    @wraps(command)
    def logging_command(
        *args: Any,
        log_level: str,
        log_format: str | None,
        log_jobs: bool | None,
        log_by_app: bool,
        log_errors: str | None,
        **options: Any,
    ) -> None:
        set_up_logging(log_level, log_format, log_jobs, by_app=log_by_app)
        # A keeper process logs in the same form.
        os.environ.update({"TENURE_LOG_FORMAT": log_format} if log_format else {})
        os.environ.update({"TENURE_LOG_ERRORS": log_errors} if log_errors else {})
        os.environ.update({} if log_jobs is None else {"TENURE_LOG_JOBS": str(int(log_jobs))})
        command(*args, **options)

    return logging_command


def log_in_thread() -> Callable[[], bool]:
    """Write the log in a thread of its own from now on: stderr may be slow, and heartbeats must not wait for it.

    The function that it returns ends the thread. It returns False if stderr has accepted nothing for `LOG_END_S`: then
    the end of the interpreter would wait for stderr, too.
    """
    handler, lines = logging.lastResort, queue.SimpleQueue[logging.LogRecord]()
    assert handler is not None
    writer, level = QueueListener(lines, handler), logging.getLogger().level
    log_to(_Unformatted(lines), level, by_app=False)
    writer.start()

    def end() -> bool:
        ending = threading.Thread(target=writer.stop, daemon=True)
        ending.start()
        ending.join(LOG_END_S)
        log_to(handler, level, by_app=False)
        return not ending.is_alive()

    return end


def draws_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal that draws colours, and its user has not set NO_COLOR (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class TerminalFormatter(HumanFormatter):
    """The time of day, the level and the name of the event in colour, and the message of an event as a sentence."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        parts = getattr(record, PARTS, None)
        text = record.getMessage()
        if parts is not None and parts[0] not in OUTCOMES:
            text = f"{line(*parts)} {_DIM}{LOG_EVENTS[parts[0]].message}{_PLAIN}"
        name, space, rest = text.partition(" ")
        colour = _COLOURS.get(record.levelno, "")
        text = f"{_DIM}{at}{_PLAIN} {colour}{record.levelname:<7}{_PLAIN} {_BOLD}{name}{_PLAIN}{space}{rest}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return text


class _Unformatted(QueueHandler):
    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # the formatters need the fields of an event
