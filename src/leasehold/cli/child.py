"""The program of a job process, which `leasehold worker` starts for tasks with `run_in="process"`. Not for users.

It loads the app by the same MODULE:APP that the worker was given on its command line, and takes nothing but a task's
name and a payload from the line to it.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from leasehold.cli.errors import UserError, tell
from leasehold.cli.loader import load
from leasehold.runtime.child import Launch
from leasehold.runtime.inside import ignore_signals, serve
from leasehold.runtime.line import Line
from leasehold.runtime.logformat import JsonFormatter, formatter

FAILED: Final = 1


def launch(app: str) -> Launch:
    """How the worker of this app starts its job processes. They log as this process does now."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    paths = [root, inherited] if inherited else [root]
    logger = logging.getLogger()
    form = "json" if any(isinstance(one.formatter, JsonFormatter) for one in logger.handlers) else "human"
    # -P: the current directory is not searched for modules, so what runs before the app is loaded is ours.
    words = [sys.executable, "-P", "-m", "leasehold.cli.child", app, str(logger.level), form]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return Launch(lambda descriptor: [*words, str(descriptor)], environment, inherited)


def main(words: Sequence[str]) -> None:
    target, level, form, descriptor = words
    ignore_signals()
    line = Line(socket.socket(fileno=int(descriptor)))
    setup = line.begin()
    if setup.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = setup.python_path
    sys.path[:] = setup.path
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form))
    logging.basicConfig(level=int(level), handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.INFO)  # as in the worker
    try:
        app = load(target)
    except UserError as error:
        tell(error.format_message())
        sys.exit(FAILED)
    serve(line, app.specs, app.layers)


if __name__ == "__main__":
    main(sys.argv[1:])
