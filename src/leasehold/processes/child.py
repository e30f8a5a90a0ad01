"""One worker process, as its supervisor sees it: started, told to stop, heard, killed by its pid."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence

from leasehold.bootstrap import command_of
from leasehold.processes.link import CHILD_LINE_MAX, HARD, STOP
from leasehold.processes.report import WorkerState, WorkerStatus
from leasehold.processes.system import is_over
from leasehold.runtime.waits import catch_up


class WorkerProcess:
    """See the module. `heard` and `ended` are called on the loop, `ended` once and last.

    child = await WorkerProcess.start(0, lambda descriptor: [...], heard, ended)
    """

    def __init__(
        self, place: int, process: asyncio.subprocess.Process, writer: asyncio.StreamWriter, began_at: float
    ) -> None:
        self.place = place
        self.pid = process.pid
        self.began_at = began_at
        self.condition = WorkerStatus(process.pid, WorkerState.STARTING, began_at)
        self.was_ready = False
        """Whether it has ever been running."""
        self.leaving = False
        """It was told to stop."""
        self._silent = False
        self._process = process
        self._writer = writer

    @classmethod
    async def start(
        cls,
        place: int,
        command: Callable[[int], Sequence[str]],
        heard: Callable[[WorkerProcess], None],
        ended: Callable[[WorkerProcess, int], None],
        *,
        alone: bool = False,
    ) -> WorkerProcess:
        """Start it with the command that belongs to the descriptor of its tether. `alone`: it has our stdin.

        Raises `OSError` when the system cannot start a process.
        """
        ours, theirs = socket.socketpair()
        try:
            began_at = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *command(theirs.fileno()),
                stdin=None if alone else asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours, limit=CHILD_LINE_MAX)
        child = cls(place, process, writer, began_at)
        child._following = asyncio.create_task(child._follow(reader, heard, ended))
        return child

    _following: asyncio.Task[None]

    @property
    def over(self) -> bool:
        """Whether it has ended, or only waits for its keeper to give back its jobs."""
        return self._silent or is_over(self.pid)

    def order(self, *, hard: bool = False) -> None:
        """Tell it to stop. Harmless when it has ended, or was told before."""
        self.leaving = True
        if not self._writer.is_closing():
            self._writer.write(HARD if hard else STOP)

    def hurry(self) -> None:
        """Tell one that only waits for its keeper to end at once. It has no line to us any more, so by a signal."""
        if self._process.returncode is None and self.over:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        """End it by force. Its keeper gives back what it held."""
        self.leaving = True
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _follow(
        self,
        reader: asyncio.StreamReader,
        heard: Callable[[WorkerProcess], None],
        ended: Callable[[WorkerProcess, int], None],
    ) -> None:
        listening = asyncio.create_task(self._listen(reader, heard))
        status = await self._process.wait()
        # What it said last counts as well, and lies in the line already. The end of the line is not waited for: what
        # holds it open now, as a child does that a handler has forked, is no worker.
        await catch_up()
        listening.cancel()
        self._writer.close()
        ended(self, status)

    async def _listen(self, reader: asyncio.StreamReader, heard: Callable[[WorkerProcess], None]) -> None:
        while True:
            try:
                line = await reader.readline()
            except (OSError, ValueError):  # ValueError: longer than any line of ours
                return
            if not line:
                self._silent = True
                return
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self.condition = WorkerStatus.from_line(line)
                heard(self)


def how_it_ended(status: int) -> str:
    """The end of a process in words.

    >>> how_it_ended(-9)
    'SIGKILL'
    """
    if status >= 0:
        return f"status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


def another_worker(arguments: Sequence[str], ours: Sequence[str], original: Sequence[str], program: str) -> list[str]:
    """The command line of a Leasehold command with these arguments, run as this process is.

    `ours`: the arguments of this process (`sys.argv[1:]`), `original`: all that it was started with (`sys.orig_argv`),
    which has options of Python's too. What cannot be told apart is left out.

    >>> another_worker(["worker"], ["dev", "a:b"], ["python", "-X", "dev", "-m", "leasehold", "dev", "a:b"], "python3")
    ['python3', '-X', 'dev', '-m', 'leasehold', 'worker']
    """
    head = list(original[1 : len(original) - len(ours)])
    if list(original[len(original) - len(ours) :]) != list(ours) or not _is_leasehold(head):
        return command_of("leasehold", *arguments)
    return [program, *head, *arguments]


def _is_leasehold(head: Sequence[str]) -> bool:
    return bool(head) and (list(head[-2:]) == ["-m", "leasehold"] or os.path.basename(head[-1]) == "leasehold")
