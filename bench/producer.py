"""What an enqueue costs its producer: many at once, one by one beside a bare EVALSHA, and many callers of one loop.

    python -m bench.producer [--against ../other/src] [--rounds 5] [--only many,one,loop]

Starts a Redis of its own and prints a table in Markdown. `--against`: the source folder of another version, which is
measured in turns with this one. Producer and Redis are pinned to a processor each, where there are two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import redis

from tenure import Tenure
from tenure.core.job import NewJob
from tenure.core.steps import Draw, Invoke, Nonce
from tenure.testing.server import RedisServer, available_binaries

MANY: Final = 10_000
ONE: Final = 2_000
CALLERS: Final = 100
TURNS: Final = 30
TEXT: Final = "x" * 88
RECORD: Final[dict[str, object]] = {"user": 17, "name": "ada", "tags": ["a", "b"], "at": {"x": 1.5, "y": None}}
SOURCE: Final = str(Path(__file__).parent.parent / "src")


def figures(url: str, only: set[str]) -> dict[str, float]:
    """Measure this version: microseconds of its processor a job (`cpu`), and jobs a second (`rate`)."""
    found: dict[str, float] = {}
    with Tenure(url) as app, redis.Redis.from_url(url) as client:
        tasks: dict[str, Any] = {
            "str": app.task(queue="bench", name="text")(_text),
            "dict": app.task(queue="bench", name="record")(_record),
            "typed": app.task(queue="bench", name="typed")(_typed),
        }
        arguments: dict[str, object] = {"str": TEXT, "dict": RECORD, "typed": RECORD}
        for kind, task in tasks.items() if "many" in only else ():
            task.enqueue(arguments[kind])
            client.flushdb()
            found |= _timed(f"many {kind}", MANY, lambda: _many(task, arguments[kind]))  # noqa: B023
        if "one" in only:
            found |= _one(app, client, tasks["str"])
        if "loop" in only:
            found |= asyncio.run(_on_a_loop(app, tasks["str"]))
    return found


def _text(value: str) -> None: ...
def _record(value: dict) -> None: ...  # type: ignore[type-arg]
def _typed(value: dict[str, Any]) -> None: ...


def _many(task: Any, argument: object) -> None:
    task.enqueue_many(task.call(argument) for _ in range(MANY))


def _timed(name: str, count: int, work: Callable[[], object]) -> dict[str, float]:
    began, spent = time.perf_counter(), time.process_time()
    work()
    spent, seconds = time.process_time() - spent, time.perf_counter() - began
    return {f"{name}: cpu": spent / count * 1e6, f"{name}: rate": count / seconds}


def _one(app: Tenure, client: redis.Redis, task: Any) -> dict[str, float]:
    """One by one, in turns with redis-py sending the same calls that were made before."""
    calls = [_call_of(app, number) for number in range(ONE)]
    sha = client.script_load(calls[0].script.text)
    rounds: dict[str, list[dict[str, float]]] = {"one": [], "bare": []}

    def ours() -> None:
        for _ in range(ONE // 4):
            task.enqueue(TEXT)

    def bare(part: list[Invoke]) -> None:
        for call in part:
            client.evalsha(sha, len(call.keys), *call.keys, *call.args)

    ours()
    for turn in range(4):
        client.flushdb()
        rounds["one"].append(_timed("one", ONE // 4, ours))
        part = calls[turn * ONE // 4 : (turn + 1) * ONE // 4]
        rounds["bare"].append(_timed("bare", ONE // 4, lambda: bare(part)))  # noqa: B023
    return {key: median(one[key] for one in found) for found in rounds.values() for key in found[0]}


def _call_of(app: Tenure, number: int) -> Invoke:
    """The call that enqueues one job of the task."""
    job = NewJob("bench", f"bare{number:010}", json.dumps([[TEXT], {}]).encode(), task="text")
    steps = app.engine.enqueue([job])
    call = next(steps)
    while True:
        if isinstance(call, Invoke) and call.script.name != "register":
            return call
        call = steps.send(Nonce("bare", number + 1) if isinstance(call, Draw) else None)


async def _on_a_loop(app: Tenure, task: Any) -> dict[str, float]:
    """Many callers at once, beside one call for as many jobs."""
    async with app:
        await asyncio.gather(*(task.aenqueue(TEXT) for _ in range(CALLERS)))
        found: dict[str, float] = {}
        jobs = CALLERS * TURNS
        for name in ("callers", "as many"):
            began, spent = time.perf_counter(), time.process_time()
            for _ in range(TURNS):
                if name == "callers":
                    await asyncio.gather(*(task.aenqueue(TEXT) for _ in range(CALLERS)))
                else:
                    await task.aenqueue_many([task.call(TEXT) for _ in range(CALLERS)])
            spent, seconds = time.process_time() - spent, time.perf_counter() - began
            found |= {f"{name}: cpu": spent / jobs * 1e6, f"{name}: rate": jobs / seconds}
        return found


def _child(source: str, url: str, only: str, cores: list[int]) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(Path(__file__).parent.parent)])}
    words = [sys.executable, "-m", "bench.producer", "--url", url, "--only", only]
    if len(cores) > 1:
        words += ["--core", str(cores[0])]
    done = subprocess.run(words, env=environment, capture_output=True, check=False, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _rows(rounds: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    sides = list(rounds)
    yield f"| | {' | '.join(sides)} |{' ratio |' if len(sides) > 1 else ''}"
    yield "|---|" + "---:|" * (len(sides) + (len(sides) > 1))
    for key in rounds[sides[0]][0]:
        values = [median(one[key] for one in rounds[side]) for side in sides]
        shown = " | ".join(f"{value:,.1f}" for value in values)
        yield f"| {key} | {shown} |" + (f" {values[0] / values[1]:.2f} |" if len(values) > 1 else "")


def main() -> None:
    """Start a Redis, measure in turns, and print the table; or measure one version, for the program that started it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", help="the src folder of another version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="many,one,loop")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.url:
        if given.core is not None:
            os.sched_setaffinity(0, {given.core})
        sys.stdout.write(json.dumps(figures(given.url, set(given.only.split(",")))))
        return
    sources = {"this": SOURCE} | ({"other": str(Path(given.against).resolve())} if given.against else {})
    rounds: dict[str, list[dict[str, float]]] = {side: [] for side in sources}
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    with RedisServer([*available_binaries().values()][-1], aof=False, tcp=True) as server:
        if len(cores) > 1:
            os.sched_setaffinity(server.pid, {cores[1]})
        for _ in range(given.rounds):
            for side, source in sources.items():
                server.flush()
                rounds[side].append(_child(source, server.tcp_url, given.only, cores))
    sys.stdout.write("\n".join(_rows(rounds)) + "\n")


if __name__ == "__main__":
    main()
