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

from bench.environments import Pins, environment_for

PEERS: Final = Path(__file__).parent / "peers"
NAMES: Final = ("leasehold", "rq", "saq", "arq", "dramatiq", "huey", "celery", "taskiq", "streaq")
FACTS_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Variant:
    """One way to set a peer up: its name on the command line, and what a table says of it."""

    name: str
    settings: str


@dataclass(frozen=True)
class Facts:
    """What an adapter says of its peer."""

    title: str
    kinds: tuple[str, ...]
    versions: dict[str, str]
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class Adapter:
    """A peer that can be run: its name, the Python of its environment, and the run that its processes belong to."""

    name: str
    python: Path
    run: str = ""

    def command(self, *words: str) -> list[str]:
        """The command line of the adapter. Its names are ours: nothing in it comes from data."""
        assert self.name in NAMES, f"{self.name!r} is no peer: expected one of {', '.join(NAMES)}"
        program = f"from contract import run; from {self.name}_peer import PEER; run(PEER)"
        return [str(self.python), "-c", program, *words]

    def environment(self, url: str, variant: str, more: Mapping[str, str]) -> dict[str, str]:
        """The variables that an adapter reads; those of Leasehold and of this environment are left out."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "BENCH_"))}
        path = f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
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
    for name in NAMES:
        if name in names:
            # Leasehold runs from the checkout: in the environment of whoever asks.
            python = environment_for(name, pins[name], cache) if name in pins else Path(sys.executable)
            found.append(Adapter(name, python, run))
    return found
