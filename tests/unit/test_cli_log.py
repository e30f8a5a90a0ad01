"""The log of the parent process, which a thread writes."""

from __future__ import annotations

import logging
import threading

import pytest

from leasehold.cli.logs import log_in_thread


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
    logging.getLogger("leasehold.worker").error("a line")
    if is_open:
        handler.open.set()
    assert end() is is_open
    handler.open.set()
    assert handler.lines == ["a line"] or not is_open
