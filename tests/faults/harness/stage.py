"""Where a scenario is played: a Redis, proxies, workers, a producer, and the diary of it all."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tenure import Tenure
from tenure.core.errors import NotDurable, NotUnique, QueueFull, RedisError, Unreachable
from tenure.core.job import State
from tenure.testing.server import RedisServer
from tests.faults.harness import ending, jobs
from tests.faults.harness.chaos import Chaos, Plan, Sites
from tests.faults.harness.ending import Stuck
from tests.faults.harness.fleet import Fleet
from tests.faults.harness.history import Diary, Event, Op, Tail
from tests.faults.harness.proxy import Dice, Proxy, Weather
from tests.faults.harness.torn import forget_torn_end
from tests.support.native import audit

ALWAYS: Final = ("--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
"""What was answered is in the file, whatever becomes of the process."""
TICK_S: Final = 0.01
LOOK_S: Final = 0.1
STILL_S: Final = 0.4
"""A queue that has been empty for so long stays empty."""
WAIT_S: Final = 60.0
CHUNK: Final = 200
PROBES: Final = 3
LISTED: Final = 5


class Stage:
    """Everything on it ends with it. One thread plays; `draw` is its chance, by the seed.

    with Stage(7, 200, folder, find_server()) as stage: scenario.play(stage)
    """

    def __init__(self, seed: int, size: int, folder: Path, binary: str) -> None:
        self.seed = seed
        self.size = size
        self.folder = folder
        self.draw = random.Random(seed)
        self.diary = Diary(folder)
        self.tail = Tail(folder)
        self.sampling = True
        self.sample_s = 1.0
        self.queues = [jobs.QUEUE]
        self.binary = binary
        self.added = 0
        self._fleets: list[Fleet] = []
        self.ticks: list[Callable[[], None]] = []
        self._sample_at = 0.0
        self.open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.open.__enter__()
        self.open.callback(self.diary.close)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.open.__exit__(kind, error, tb)

    # --------------------------------------------------------------------------------------------------------- scenery

    def serve(self, binary: str | None = None) -> RedisServer:
        """Start the Redis of this stage, and an app that reaches it without detours."""
        self.server = self.open.enter_context(RedisServer(binary or self.binary, args=ALWAYS))
        self.app = self.open.enter_context(jobs.make_app(self.server.url))
        return self.server

    def borrow(self, server: RedisServer, url: str) -> None:
        """A Redis that somebody else has started, and how it is reached."""
        self.server = server
        self.app = self.open.enter_context(jobs.make_app(url))

    def proxy(self, dice: Dice | None = None, weather: Weather | None = None) -> Proxy:
        draw = random.Random(self.draw.random())
        proxy = Proxy(self.server.socket_path, dice or Dice(), draw, weather)
        return self.open.enter_context(proxy)

    def app_at(self, url: str) -> Tenure:
        """Another app, for a producer behind a proxy."""
        return self.open.enter_context(jobs.make_app(url))

    def fleet(
        self,
        size: int,
        slots: int = 2,
        url: str | None = None,
        *,
        args: Sequence[str] = (),
        replace: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> Fleet:
        """Worker processes, started."""
        surroundings = {
            "TENURE_URL": url or self.server.url,
            jobs.FOLDER: str(self.folder),
            **(environment or {}),
        }
        fleet = Fleet(size, slots, surroundings, self.folder, self.diary, args=args, replace=replace)
        self._fleets.append(self.open.enter_context(fleet))
        fleet.wait_until_started()
        return fleet

    def chaos(self, plan: Plan, fleet: Fleet, ask_for_work: Callable[[], None] = lambda: None) -> Chaos:
        """Faults that come by themselves while the stage waits."""
        sites = Sites(self.server, fleet, self.tail, self.diary, ask_for_work)
        chaos = Chaos(plan, sites, self.server.url, random.Random(self.draw.random()))
        self.open.callback(chaos.end)
        self.ticks.append(chaos.go_on)
        return chaos

    # ---------------------------------------------------------------------------------------------------- what happens

    def add(
        self,
        count: int,
        task: str,
        *args: object,
        meant: str = "completed",
        app: Tenure | None = None,
        lane: str = "",
    ) -> list[str]:
        """Enqueue jobs with ids of ours, many in a call, of one lane if it is named. Answers the ids."""
        numbers = [self._number() for _ in range(count)]
        ids = [f"job{n:06}" for n in numbers]
        called = (app or self.app).tasks[task]
        for start in range(0, count, CHUNK):
            part = slice(start, start + CHUNK)
            own = zip(ids[part], numbers[part], strict=True)
            calls = [called.using(id=id, lane=lane or None).call(n, *args) for id, n in own]
            self._offer(ids[part], numbers[part], meant, lambda calls=calls: called.enqueue_many(calls), lane)  # type: ignore[misc]
        return ids

    def add_one(
        self, task: str, *args: object, meant: str = "completed", app: Tenure | None = None, **options: Any
    ) -> str:
        n = self._number()
        id = f"job{n:06}"
        called = (app or self.app).tasks[task].using(id=id, **options)
        self._offer([id], [n], meant, lambda: called.enqueue(n, *args))
        return id

    def add_raw(self, payload: bytes, app: Tenure | None = None) -> str:
        """A raw payload on a queue of its own."""
        if jobs.RAW not in self.queues:
            self.queues.append(jobs.RAW)
        n = self._number()
        id = f"raw{n:06}"
        self._offer([id], [n], "completed", lambda: (app or self.app).queue(jobs.RAW).enqueue(payload, id=id))
        return id

    def _number(self) -> int:
        self.added += 1
        return self.added - 1

    def _offer(
        self, ids: list[str], numbers: list[int], meant: str, send: Callable[[], object], lane: str = ""
    ) -> None:
        jobs_of = list(zip(ids, numbers, strict=True))
        asked = [Event(Op.ENQUEUE, phase="invoke", job=id, lane=lane, n=n, note=meant) for id, n in jobs_of]
        self.diary.write_all(asked)
        phase = "ok"
        try:
            send()
        except (QueueFull, NotUnique):
            phase = "fail"
        except (NotDurable, Unreachable):
            phase = "unknown"
        self.diary.write_all([Event(Op.ENQUEUE, phase=phase, job=id, lane=lane, n=n) for id, n in jobs_of])

    def restart(self, held: int) -> None:
        """Kill Redis and start it again on its data. `held`: how many jobs run, for the diary."""
        self.diary.write(Event(Op.RESTART, phase="invoke", n=held))
        self.server.restart(kill=True)
        forget_torn_end(self.server)
        self.diary.write(Event(Op.RESTART, phase="ok"))

    def fault(self, kind: str, times: int = 1) -> None:
        """Write down that something has hit."""
        self.diary.write(Event(Op.FAULT, note=kind, n=times))

    def heal(self) -> None:
        """Write down that the faults are over. With workers, some jobs more show that they do not only look alive."""
        self.diary.write(Event(Op.HEAL))
        if self._fleets:
            self.add(PROBES, jobs.STEP, 1)

    def expect(self, so: bool, text: str) -> None:
        """Write down whether something is as the scenario demands it."""
        self.diary.write(Event(Op.EXPECT, phase="ok" if so else "fail", note=text))

    # ----------------------------------------------------------------------------------------------------- to its end

    def until(self, condition: Callable[[], bool], what: str, limit_s: float = WAIT_S) -> None:
        """Go on until this is so. Raises `Stuck`."""
        end = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > end:
                raise Stuck(f"{what}: not within {limit_s:g} s\n{self.state()}")
            self.tick()
            time.sleep(TICK_S)

    def spend(self, seconds: float) -> None:
        """Go on for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick()
            time.sleep(TICK_S)

    def tick(self) -> None:
        for tick in self.ticks:
            tick()
        for fleet in self._fleets:
            fleet.look_after()
        now = time.monotonic()
        if self.sampling and now >= self._sample_at:
            self._sample_at = now + self.sample_s
            self.sample()

    def sample(self) -> None:
        """Look at the keys: each job is in one place, each key has an owner."""
        wrong = audit(self.server, jobs.NAMESPACE)
        self.diary.write(Event(Op.SAMPLE, n=len(wrong), note="; ".join(wrong[:LISTED])))

    def left(self) -> int:
        """How many jobs have not ended."""
        return sum(ending.left(self.app, queue) for queue in self.queues)

    def started(self, ids: Iterable[str]) -> bool:
        """Whether all of these are running just now."""
        self.tail.poll()
        running = {job for attempts in self.tail.running.values() for job, _ in attempts}
        return set(ids) <= running

    def runner(self, id: str) -> int:
        """The process that runs this job."""
        self.tail.poll()
        return next(pid for pid, attempts in self.tail.running.items() if any(job == id for job, _ in attempts))

    def view(self, id: str) -> Any:
        return self.app.inspect.job(jobs.RAW if id.startswith("raw") else jobs.QUEUE, id)

    def drain(self, limit_s: float = WAIT_S) -> None:
        """Until nothing is left to do, and stays so. Raises `Stuck`."""
        empty_since = [0.0]
        look_at = [0.0]

        def empty() -> bool:
            now = time.monotonic()
            if now < look_at[0]:
                return False
            look_at[0] = now + LOOK_S
            try:
                if self.left():
                    empty_since[0] = 0.0
                    return False
            except RedisError:
                return False
            empty_since[0] = empty_since[0] or now
            return now - empty_since[0] > STILL_S

        self.until(empty, "the queue was to be drained", limit_s)
        self.diary.write(Event(Op.DRAINED), at_ns=time.monotonic_ns() - round(STILL_S * 1e9))

    def recover(self) -> None:
        """The faults are over: what is left is done."""
        self.heal()
        self.drain()

    def finish(self) -> None:
        """Write down what Redis says in the end."""
        self.sample()
        totals: dict[str, int] = {}
        for queue in self.queues:
            for name, value in ending.write_ends(self.app, queue, self.diary).items():
                totals[name] = totals.get(name, 0) + value
        ending.write_totals(totals, self.diary)
        ending.write_keys(self.server, self.diary)

    def state(self) -> str:
        """The queue as it is now, for who has to find out why nothing goes on."""
        lines = [f"seed {self.seed}"]
        with contextlib.suppress(RedisError):
            for queue in self.queues:
                view = self.app.inspect.queue(queue)
                lines.append(f"{queue}: counts {dict(view.counts)}, totals {view.totals}")
                for state in (State.ACTIVE, State.SCHEDULED, State.READY):
                    lines += [str(one)[:400] for one in self.app.inspect.page(queue, state).jobs[:LISTED]]
        return "\n".join([*lines, *(fleet.trouble() for fleet in self._fleets)])
