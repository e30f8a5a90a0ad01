"""Who is compared, in the order of the tables; what an adapter says of its peer; how an adapter is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from bench.environments import NODE, Pins, environment_for, packages_for

PEERS: Final = Path(__file__).parent / "peers"
NAMES: Final = ("tenure", "rq", "saq", "arq", "dramatiq", "huey", "celery", "taskiq", "streaq")
OTHERS: Final = ("docket", "potatoq", "bullmqpy", "redisworkqueue", "bullmq")
"""Peers whose speed is measured, but not how they recover."""
FAST: Final = "fast"
"""The variant with the settings for speed."""
LOOPS: Final = ("bare", "batch")
"""No queues, but what any queue on redis-py could reach at most."""
OURS: Final = ("tenure", "wire", "dropin")
"""Tenure, and Tenure on the layout of redis-work-queue: its worker, and its drop-in for the client."""
ALL: Final = ("tenure", *LOOPS, *NAMES[1:], *OTHERS, "dropin", "wire")
"""All whose speed is measured, in the order of the tables."""
FACTS_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Variant:
    """One way to set a peer up: its name on the command line, and what a table says of it."""

    name: str
    settings: str


@dataclass(frozen=True)
class Facts:
    """What an adapter says of its peer. `fast`: the settings of the variant that is measured for speed; `sweep`: others
    that are tried; `no_bulk`, `no_single`: why many jobs, or one, cannot be put with one call."""

    title: str
    kinds: tuple[str, ...]
    versions: dict[str, str]
    variants: tuple[Variant, ...]
    fast: str = ""
    sweep: tuple[Variant, ...] = ()
    no_bulk: str = ""
    no_single: str = ""


@dataclass(frozen=True)
class Adapter:
    """A peer that can be run: its name, the program of its environment (a Python, or where Node's packages are), the
    run that its processes belong to, and the variant that is measured for speed."""

    name: str
    python: Path
    run: str = ""
    fast: str = FAST

    def command(self, *words: str) -> list[str]:
        """The command line of the adapter. Its names are ours: nothing in it comes from data."""
        assert self.name in ALL, f"{self.name!r} is no peer: expected one of {', '.join(ALL)}"
        if self.name in NODE:
            return ["node", str(PEERS / f"{self.name}_peer.mjs"), *words]
        program = f"from contract import run; from {self.name}_peer import PEER; run(PEER)"
        return [str(self.python), "-c", program, *words]

    def environment(self, url: str, variant: str, more: Mapping[str, str]) -> dict[str, str]:
        """The variables that an adapter reads; those of Tenure and of this environment are left out."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "BENCH_"))}
        path = f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        if self.name in NODE:
            kept["NODE_PATH"] = str(self.python)
        ours = {"PATH": path, "PYTHONPATH": str(PEERS), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        return {**kept, **ours, "BENCH_RUN": self.run, "BENCH_URL": url, "BENCH_VARIANT": variant, **more}

    def facts(self) -> Facts:
        """Title, versions and variants. Nothing is connected to, so the URL may be any."""
        done = subprocess.run(
            self.command("facts"),
            env=self.environment("redis://127.0.0.1:1/0", "default", {}),
            cwd=PEERS,
            capture_output=True,
            timeout=FACTS_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"the adapter of {self.name} failed:\n{done.stderr.decode(errors='replace')}")
        return msgspec.json.decode(done.stdout, type=Facts)


def adapters(names: Sequence[str], pins: Mapping[str, Pins], cache: Path, run: str = "") -> list[Adapter]:
    """The adapters of these peers, in the order of the tables. Environments are made where they are missing."""
    found = []
    for name in ALL:
        if name in names:
            found.append(Adapter(name, program(name, pins, cache), run))
    return found


def program(name: str, pins: Mapping[str, Pins], cache: Path) -> Path:
    if name in NODE:
        return packages_for(name, pins[name], cache)
    # Tenure runs from the checkout, and the bare loops beside it: in the environment of whoever asks.
    return environment_for(name, pins[name], cache) if name in pins else Path(sys.executable)
