"""Starts a module of Leasehold in a new process: `python -P bootstrap.py MODULE [ARGUMENT]...`. Run by its path.

The new process uses the Leasehold that started it, wherever that is: in site-packages, in a checkout, in the current
directory. The environment stays as it is. PYTHONPATH cannot say where Leasehold is: its folders come before the
standard library, and the folder of an installed Leasehold is site-packages, where another package may have a module
with the name of a standard one.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).resolve()


def command_of(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module as `python -m` does.

    command_of("leasehold", "worker", "jobs:app")
    """
    # -P: the current directory is not searched for modules either.
    return [sys.executable, "-P", str(FILE), module, *arguments]


def _main() -> None:
    folder = str(FILE.parent.parent)
    # The package first, by its place: another Leasehold may come earlier on the path.
    spec = PathFinder.find_spec(FILE.parent.name, [folder])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    if folder not in sys.path:
        sys.path.append(folder)  # its dependencies may be beside it (`pip install --target`)
    import runpy

    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
