"""The log of a worker and of its parent: while stderr accepts nothing, and beside what the app configures."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from logging.config import dictConfig
from typing import Any

import pytest

from tenure.cli.logs import StderrHandler, log_in_thread, log_to
from tenure.redis.log import log_event as redis_event
from tenure.runtime.log import JOBS, log_event
from tenure.runtime.observe.job_lines import logs_jobs

OURS, ROOT = logging.getLogger("tenure"), logging.getLogger()


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.names.append(record.getMessage().split()[0])


THEIRS = Lines()


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    loggers = [one for one in ROOT.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    before = [
        (one, {name: vars(one)[name] for name in ("propagate", "disabled")} | {"handlers": one.handlers[:]})
        for one in loggers
    ]
    levels = [one.level for one in loggers]
    last, level = logging.lastResort, ROOT.level
    yield
    logging.lastResort = last
    ROOT.setLevel(level)
    ROOT.removeHandler(THEIRS)
    for (logger, values), was in zip(before, levels, strict=True):
        vars(logger).update(values)
        logger.setLevel(was)


def begin(handler: logging.Handler, *, by_app: bool = False) -> None:
    """As at the start of a worker."""
    ROOT.handlers = []  # those of pytest
    THEIRS.names.clear()
    log_to(handler, logging.INFO, by_app=by_app)


class Blocked(logging.Handler):
    """Stderr as a pipe that no program reads."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.open.wait()
        self.lines.append(record.getMessage())


@pytest.mark.parametrize("is_open", [True, False])
def test_the_end_of_the_log_does_not_wait_for_a_blocked_stderr(is_open: bool) -> None:
    handler = Blocked()
    begin(handler)
    end = log_in_thread()
    logging.getLogger("tenure.worker").error("a line")
    if is_open:
        handler.open.set()
    assert end() is is_open
    handler.open.set()
    assert handler.lines == ["a line"] or not is_open


def test_lines_are_dropped_and_counted_while_no_program_reads_the_pipe() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while True:
        try:
            os.write(writing, b"x" * 1024)
        except BlockingIOError:
            break
    os.set_blocking(writing, True)
    handler = StderrHandler(writing, stall_ms=1)
    with open(writing, "w") as stream, open(reading, "rb", buffering=0) as reader:
        handler.setStream(stream)
        begin(handler)
        logging.getLogger("tenure.worker").error("lost")
        reader.read(1 << 20)
        logging.getLogger("tenure.worker").error("written")
        notice, line = reader.read(1000).decode().splitlines()
    assert "dropped=1" in notice
    assert line == "written"


def theirs() -> Lines:
    """Made by `dictConfig`."""
    return THEIRS


def config(**more: Any) -> Callable[[], None]:
    """As in a project's settings."""
    handlers = {"app": {"()": theirs}}
    return lambda: dictConfig({"version": 1, "handlers": handlers, "root": {"handlers": ["app"]}, **more})


CONFIGURES = {
    "dictConfig": config(),
    "dictConfig, a level of tenure": config(loggers={"tenure": {"level": "INFO"}}),
    "dictConfig, a level of tenure.worker": config(loggers={"tenure.worker": {"level": "INFO"}}),
    "basicConfig": lambda: logging.basicConfig(handlers=[THEIRS], level="INFO"),
    "basicConfig, by force": lambda: logging.basicConfig(handlers=[THEIRS], level="INFO", force=True),
    "a handler": lambda: ROOT.addHandler(THEIRS),
}


@pytest.mark.parametrize("configure", CONFIGURES.values(), ids=CONFIGURES)
def test_what_an_app_configures_silences_and_doubles_no_line(configure: Callable[[], None]) -> None:
    ours, app = Lines(), logging.getLogger("shop")
    app.disabled = False
    begin(ours)
    app.info("before")
    configure()
    app.disabled = False  # their affair
    app.warning("after")
    log_event("worker_started")
    assert ours.names == ["before", "worker_started"]
    assert THEIRS.names == ["after"]


WHO: dict[str, tuple[bool, Callable[[], None]]] = {
    "the option": (True, config()),
    "a handler of tenure": (False, config(loggers={"tenure": {"handlers": ["app"], "level": "INFO"}}, root={})),
    "tenure propagates": (False, config(loggers={"tenure": {"propagate": True, "level": "INFO"}})),
}


@pytest.mark.parametrize(("by_app", "configure"), WHO.values(), ids=WHO)
def test_the_app_may_take_the_lines(by_app: bool, configure: Callable[[], None]) -> None:
    ours = Lines()
    begin(ours, by_app=by_app)
    log_event("worker_started")
    configure()
    log_event("redis_lost")
    assert (ours.names, THEIRS.names) == (["worker_started"], ["redis_lost"])


def test_the_lines_of_jobs_survive_a_dict_config_and_do_not_come_by_one() -> None:
    begin(Lines())
    JOBS.setLevel(logging.INFO)
    config()()
    assert logs_jobs()
    config(loggers={"tenure": {"level": "DEBUG"}})()
    assert not logs_jobs()


def test_a_program_that_has_not_configured_logging_sees_no_lines_about_connections() -> None:
    ROOT.handlers = []
    last = Lines()
    logging.lastResort = last
    redis_event("redis_lost", what="enqueue")
    assert last.names == []
    config()()
    THEIRS.names.clear()
    redis_event("redis_lost", what="enqueue")
    assert THEIRS.names == ["redis_lost"]
