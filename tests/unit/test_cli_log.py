"""The log of a worker and of its parent, while stderr accepts nothing."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from tenure.cli.logs import StderrHandler, log_in_thread


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
def test_the_end_of_the_log_does_not_wait_for_a_blocked_stderr(monkeypatch: pytest.MonkeyPatch, is_open: bool) -> None:
    handler = Blocked()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    end = log_in_thread()
    logging.getLogger("tenure.worker").error("a line")
    if is_open:
        handler.open.set()
    assert end() is is_open
    handler.open.set()
    assert handler.lines == ["a line"] or not is_open


def test_lines_are_dropped_and_counted_while_no_program_reads_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
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
        monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
        logging.getLogger("tenure.worker").error("lost")
        reader.read(1 << 20)
        logging.getLogger("tenure.worker").error("written")
        notice, line = reader.read(1000).decode().splitlines()
    assert "dropped=1" in notice
    assert line == "written"
