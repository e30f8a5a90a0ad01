"""Products that are broken, or old, on purpose: chosen by the environment, in every process of a run.

TENURE_MUTANT=name   scripts with a mistake in them (tests/support/mutants.py and tests/faults/mutants.py)
FAULTS_VERSION=text     scripts of another release: the same but for a line of comment, so Redis knows them apart
FAULTS_LOOP=name:times  the background loop `name` of a worker raises so many times ("all": each of them)
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tenure.core.steps import Script
from tenure.engines.native.scripts import SCRIPTS

ROOT: Final = Path(__file__).parents[3]
MUTANT: Final = "TENURE_MUTANT"
VERSION: Final = "FAULTS_VERSION"
LOOP: Final = "FAULTS_LOOP"


def environment(**more: str) -> dict[str, str]:
    """For a process that is to find the tests, and to be broken as this one is."""
    chosen = {**os.environ, **more}
    paths = [str(ROOT / "src"), str(ROOT)]
    if any(chosen.get(name) for name in (MUTANT, VERSION, LOOP)):
        paths.insert(0, str(Path(__file__).parent / "hooks"))
    return {**chosen, "PYTHONPATH": os.pathsep.join(paths)}


def apply(environ: Mapping[str, str] = os.environ) -> None:
    """Break this process. Once: what has been broken has nothing left to change."""
    if environ.get(MUTANT):
        from tests.faults import mutants

        mutants.apply(environ[MUTANT])
    if environ.get(VERSION):
        note = f"\n-- {environ[VERSION]}"
        SCRIPTS.update({name: Script(name, script.text + note) for name, script in SCRIPTS.items()})
    if environ.get(LOOP):
        name, _, times = environ[LOOP].partition(":")
        _break_loop(name, int(times))


def _break_loop(victim: str, times: int) -> None:
    from tenure.runtime import worker

    module: Any = worker
    whole: Callable[..., Awaitable[None]] = module.supervised
    left: dict[str, int] = {}

    def supervised(name: str, run: Callable[[], Awaitable[None]], *rest: Any) -> Awaitable[None]:
        async def broken() -> None:
            if victim in (name, "all") and left.setdefault(name, times) > 0:
                left[name] -= 1
                raise RuntimeError("broken on purpose")
            await run()

        return whole(name, broken, *rest)

    module.supervised = supervised
