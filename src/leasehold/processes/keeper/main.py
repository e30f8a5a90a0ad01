"""The keeper: a process that keeps one worker's leases and runs no user code.

    python -m leasehold.processes.keeper.main

Its first line on stdin says what to keep (the URL with its password goes this way, never by argument); every later line
what the worker holds. On stdout it writes a line for every beat, and while Redis lets it wait for one: all of them are
in `keeperlines`. It ends when stdin does, or when the worker's process has died.

It outlives a worker that dies without a goodbye (kill -9, out of memory, os._exit in a handler) by a moment, ends its
job processes, and gives back all that it held, as crashed. So it does for one that has stopped while handlers go on
beside which nothing may run. A worker that lives but has closed its files is not kept, and nothing of it is given back:
it may be running jobs. Its leases lapse.

A worker that is stopped (SIGSTOP, Ctrl-Z) is not kept: it does no work, so its jobs should go to others.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import signal
import sys
import time
from typing import Final

from leasehold.core import limits
from leasehold.core.clock import lease_clock
from leasehold.core.engine import CancelAsked, FullEngine, HeartbeatReply
from leasehold.core.errors import RedisError, Unreachable
from leasehold.core.job import Lease, LeaseRef
from leasehold.processes.keeper.messages import BEQUESTS, GOODBYE, KeeperReport, Orders, Snapshot
from leasehold.processes.keeper.overdue import Overdue
from leasehold.processes.system import HAND_BACK_MS, PARENT_LOOK_MS, Parent, ProcessGroup, end, is_stopped
from leasehold.protocols.registry import engine_of
from leasehold.redis.sync import SyncDriver

BEQUEST_MS: Final = 30 * limits.SECOND
"""How long a keeper waits for the end of a process whose worker has ended before its handlers."""
KEEPER_REST_MS: Final = 2 * limits.SECOND
"""How often a keeper reports while its worker holds no jobs: it does not send heartbeats then."""
GROUPS_MS: Final = 1 * limits.SECOND
"""How long the keeper waits for the death of the job processes that it kills before it releases their jobs."""

STDIN: Final = 0
STDOUT: Final = 1
RETRY_MS: Final = 300
"""Between two tries while Redis does not answer."""
TRY_MS: Final = 1_000
"""One try: a reply that takes longer is given up and asked for again."""
AWAY_TOLD_MS: Final = 5_000
"""For so long Redis has not answered before that is a trouble to tell of: the worker's own connection tells at once."""
ALIVE_MS: Final = 400
"""While Redis lets a beat wait, the worker is told this often that it is not the keeper that hangs."""
OUTBOX_MAX: Final = 1024 * 1024
"""Reports that a busy worker has not read yet. Beyond that they are left out; what is lost is said again."""

LAST_READS: Final = 3
"""Of a megabyte each, when the worker has died: what it said before."""


class Pipe:
    """Both directions to the worker. Nothing here blocks, but for `pause`, which waits for stdin or the time."""

    def __init__(self, parent: Parent, stdin: int = STDIN, stdout: int = STDOUT) -> None:
        os.set_blocking(stdin, False)
        os.set_blocking(stdout, False)
        self._parent = parent
        self._stdin, self._stdout = stdin, stdout
        self._inbox = b""
        self._outbox = b""
        self.ended = False
        """The worker says nothing more."""
        self.unheard = False
        """It does not listen any more. What it said before may still have to be read."""

    def pause(self, seconds: float) -> list[bytes]:
        """Wait so long, or less when something comes in or the worker dies. The whole lines that came."""
        writers = [self._stdout] if self._outbox and not self.unheard else []
        readable, writable, _ = select.select([self._stdin, *self._parent.signs], writers, [], max(0.0, seconds))
        if writable:
            self.send(b"")
        if self._stdin not in readable:
            return []
        try:
            chunk = os.read(self._stdin, 1 << 20)
        except BlockingIOError:
            return []
        if not chunk:
            self.ended = True
        *lines, self._inbox = (self._inbox + chunk).split(b"\n")
        return lines

    def send(self, line: bytes) -> None:
        if len(self._outbox) < OUTBOX_MAX:
            self._outbox += line
        try:
            self._outbox = self._outbox[os.write(self._stdout, self._outbox) :]
        except BlockingIOError:
            pass
        except OSError:
            self.unheard = True


class KeeperProcess:
    """The loop: while the worker is there and not stopped, beat the queues of which it may hold something.

    A claim begins its lease by itself, so a queue that is new among those has its first beat half a beat later at the
    earliest. The other queues get theirs every `KEEPER_TEND_MS`: a worker whose slots are all busy does not claim, and
    would not find the jobs of dead workers there.
    """

    def __init__(self, orders: Orders, parent: Parent, pipe: Pipe, engine: FullEngine, driver: SyncDriver) -> None:
        self._orders = orders
        self._parent = parent
        self._pipe = pipe
        self._engine = engine
        self._driver = driver
        self._beat_s = engine.timing.beat_ms / limits.SECOND
        self._overdue = Overdue(engine, orders.worker, orders.timeouts)
        self._groups: tuple[ProcessGroup, ...] = ()
        self._kept = dict.fromkeys(orders.queues, -math.inf)  # queue -> since when; all, until we are told
        self._beaten = dict.fromkeys(orders.queues, -math.inf)  # queue -> when last
        self._good = dict.fromkeys(orders.queues, 0.0)  # queue -> when its last good beat was sent, by `lease_clock`
        self._look = dict.fromkeys(orders.queues, math.inf)  # queue -> when something may be due there
        self._woken = -math.inf
        self._said = -math.inf
        self._pause = 0.0
        self._goodbye = False
        self._crashed = True
        """Whether what is given back counts as crashed."""
        self._until = math.inf
        """For how long to keep on."""
        self._troubles: dict[str, str] = {}
        self._away_at: float | None = None
        """Since when Redis has not answered."""

    def run(self) -> None:
        signal.signal(signal.SIGALRM, lambda *_: self._say(None))
        self._keep_on()
        self._hear_out()
        # The worker may live and only have closed its files. Then its leases run out while this waits.
        ended = self._goodbye or self._parent.wait(self._engine.timing.lease_ms / limits.SECOND)
        self._hear_out()
        if not self._goodbye and (ended or time.monotonic() >= self._until):
            self._hand_back(bequeathed=self._until < math.inf)

    def _hear_out(self) -> None:
        """What it said last may have come during a beat, and whoever does not listen any more may have said it."""
        for _ in range(LAST_READS):
            if not self._pipe.ended:
                self._hear(0)

    def _keep_on(self) -> None:
        pipe = self._pipe
        while not (self._goodbye or pipe.ended or pipe.unheard or self._over()):
            now = time.monotonic()
            if now >= self._until:
                return
            if now < self._due():
                bequeathed = self._until < math.inf
                self._hear(min(self._due() - now, PARENT_LOOK_MS / limits.SECOND if bequeathed else math.inf))
            elif is_stopped(self._orders.parent):
                self._hear(self._beat_s / 2)
            elif not self._kept:
                self._say(HeartbeatReply())
                self._said = now
            else:
                beat = self._beat(now)
                self._say(beat)
                self._said = now if beat is not None else time.monotonic()
                self._pause = min(self._beat_s, RETRY_MS / limits.SECOND)
                if beat is not None:
                    # A dead worker's jobs come back when they are due, not with the next beat.
                    soon = max(min(self._look.values()) - self._said, self._beat_s / 5)
                    self._pause = min(self._beat_s, soon)

    def _over(self) -> bool:
        """Whether the worker is. After a bequest it becomes another program, and a child that a handler has forked may
        hold its ends of the pipe."""
        return self._parent.dead or (self._until < math.inf and self._parent.over)

    def _hand_back(self, bequeathed: bool) -> None:
        """The worker is dead: what it held need not wait for its leases to run out. Redis may be away just now, or
        refuse to write."""
        end(self._groups, GROUPS_MS / limits.SECOND)  # no job is given back that still runs in one of them
        worker, until = self._orders.worker, time.monotonic() + HAND_BACK_MS / limits.SECOND
        queues = [*self._kept, *(queue for queue in self._orders.queues if queue not in self._kept)]
        while True:
            try:
                count = self._driver.run(self._engine.leave(worker, queues, crashed=self._crashed))
            except RedisError as error:
                if time.monotonic() >= until:
                    # A refusal may be about one queue: what is held of the others was given back.
                    what = "not_given_back" if isinstance(error, Unreachable) else "not_all_given_back"
                    _log(bequeathed, worker=worker, **{what: str(error)})
                    return
                time.sleep(RETRY_MS / limits.SECOND)
            else:
                _log(bequeathed, worker=worker, given_back=count)
                return

    def _due(self) -> float:
        if not self._kept:
            return self._said + KEEPER_REST_MS / limits.SECOND
        return max(self._said, self._woken) + self._pause

    def _say(self, beat: HeartbeatReply | None) -> None:
        kept_at = {queue: self._good[queue] for queue in self._kept}
        self._pipe.send(KeeperReport(beat, next(iter(self._troubles.values()), ""), kept_at).to_line())

    def _hear(self, seconds: float) -> None:
        """Hear what the worker says, for so long at most."""
        for line in self._pipe.pause(seconds):
            if line == GOODBYE:
                self._goodbye = True
                continue
            if line in BEQUESTS.values():
                self._crashed = line == BEQUESTS[True]
                self._until = time.monotonic() + BEQUEST_MS / limits.SECOND
                continue
            told = Snapshot.from_line(line)
            self._overdue.leases = self._overdue.leases if told.leases is None else told.leases
            self._groups = self._groups if told.groups is None else told.groups
            if told.keep is not None:
                now = time.monotonic()
                if not self._kept:
                    self._woken = now
                for queue in told.keep - self._kept.keys():
                    self._good[queue] = lease_clock()  # whatever is claimed there is newer than this line
                self._kept = {queue: self._kept.get(queue, now) for queue in told.keep}

    def _beat(self, now: float) -> HeartbeatReply | None:
        """Queue by queue: a refusal on one (a foreign key in its place) must not cost the leases on the others."""
        due = [queue for queue in self._orders.queues if self._needs(queue, now)]
        lost: set[LeaseRef] = set()
        strays: list[Lease] = []
        cancelled: list[CancelAsked] = []
        done = not due
        signal.setitimer(signal.ITIMER_REAL, ALIVE_MS / limits.SECOND, ALIVE_MS / limits.SECOND)
        try:
            for queue in due:
                sent_at = lease_clock()
                try:
                    beat, refusal = self._driver.run(self._overdue.beat(queue, now))
                except RedisError as error:
                    text = f"{type(error).__name__}: {error.found or error}"
                    if isinstance(error, Unreachable):
                        self._away_at = now if self._away_at is None else self._away_at
                        if now - self._away_at >= AWAY_TOLD_MS / limits.SECOND:
                            self._troubles[""] = text
                        break
                    self._troubles[queue] = text
                    self._beaten[queue] = now
                    continue
                done = True
                self._beaten[queue], self._good[queue] = now, sent_at
                self._look[queue] = math.inf if beat.next_ms is None else now + beat.next_ms / limits.SECOND
                self._troubles.pop(queue, None)
                self._troubles.pop("", None)
                if refusal:
                    self._troubles[queue] = refusal
                self._away_at = None
                lost |= beat.lost
                strays += beat.strays
                cancelled += beat.cancelled
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return HeartbeatReply(frozenset(lost), tuple(strays), cancelled=tuple(cancelled)) if done else None

    def _needs(self, queue: str, now: float) -> bool:
        if now >= self._look[queue]:
            return True
        since = self._kept.get(queue)
        if since is not None and now - since >= self._beat_s / 2:
            return True
        # Half a beat too early rather than too late.
        return now - self._beaten[queue] >= limits.KEEPER_TEND_MS / limits.SECOND - self._beat_s / 2


def _log(bequeathed: bool, **fields: object) -> None:
    """On stderr, which is the worker's, in the form of its log: it cannot say so itself any more."""
    from leasehold.runtime.log import log_event  # here: most keepers never say a word, and start sooner without
    from leasehold.runtime.observe.format import formatter

    with contextlib.suppress(OSError):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(formatter(os.environ.get("LEASEHOLD_LOG_FORMAT", "human")))
        logging.basicConfig(handlers=[handler])
        if bequeathed:
            log_event(logging.WARNING, "bequeathed" if "given_back" in fields else "bequest_lapses", **fields)
        else:
            log_event(logging.WARNING, "worker_died", **fields)


def main() -> int:
    # Ctrl-C, `kill` and the end of a terminal go to the whole group: the worker decides when to stop, and tells us.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(STDIN, "rb", buffering=0, closefd=False) as stdin:
        first = stdin.readline()
    if not first.endswith(b"\n"):
        return 0
    orders = Orders.from_line(first)
    parent = Parent(orders.parent)
    pipe = Pipe(parent)
    try:
        driver = SyncDriver(
            orders.url, patience_ms=RETRY_MS, connect_timeout_ms=TRY_MS, reply_timeout_ms=TRY_MS, max_idle=1
        )
        KeeperProcess(orders, parent, pipe, engine_of(orders.recipe), driver).run()
    except Exception as error:
        pipe.send(KeeperReport(None, f"{type(error).__name__}: {error}").to_line())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
