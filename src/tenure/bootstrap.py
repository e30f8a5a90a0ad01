"""Starts a module of Tenure in a new process: `python -P bootstrap.py MODULE [ARGUMENT]...`.

The new process uses the same Tenure, wherever it is: in site-packages, in a checkout, in the current directory. The
environment stays unchanged. PYTHONPATH cannot do this: its folders come before the standard library, and site-packages
may contain a module with the name of a standard one.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).resolve()


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module as `python -m` does, with the options of this Python (-W, -X, ...).

    command_of("tenure", "worker", "jobs:app")
    """
    options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    # -P: do not search the current directory for modules.
    return [sys.executable, *options, "-P", str(FILE), module, *arguments]


def _main() -> None:
    if any(word.startswith("--parent=") for word in sys.argv):
        # A worker process. Ctrl-C on a terminal reaches its parent too, which stops it.
        signal.signal(signal.SIGINT, lambda *_: None)
        # It holds no job until it has loaded the app and handles signals itself.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        gc.disable()  # until the app is loaded: the collector would look again and again at what stays
    folder = str(FILE.parent.parent)
    # Load the package by its location: another Tenure may come earlier on the path.
    spec = PathFinder.find_spec(FILE.parent.name, [folder])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    if folder not in sys.path:
        sys.path.append(folder)  # `pip install --target` puts the dependencies next to the package
    import runpy

    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
