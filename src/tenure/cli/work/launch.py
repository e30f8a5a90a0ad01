"""The program of a job process, which `tenure worker` starts for tasks with `run_in="process"`. Not for users.

It loads the app by the same MODULE:APP as its worker. Jobs only name a task; they cannot name a module.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import Final

from tenure.bootstrap import command_of
from tenure.cli.errors import UserError, tell
from tenure.cli.loader import load
from tenure.cli.logs import LogSetup, StderrHandler, log_to
from tenure.runtime.isolation.channel import WorkerChannel
from tenure.runtime.isolation.child import Launch
from tenure.runtime.isolation.main import ignore_signals, serve
from tenure.runtime.observe.format import formatter

FAILED: Final = 1


def launch(app: str, log: LogSetup) -> Launch:
    """Return how the worker of this app starts its job processes. They log as the worker did before its app was loaded,
    and load the app, too."""
    words = command_of("tenure.cli.work.launch", app, str(log.level), log.form, "app" if log.by_app else "")
    return Launch(lambda descriptor: [*words, str(descriptor)], dict(os.environ))


def main(words: Sequence[str]) -> None:
    target, level, form, by_app, descriptor = words
    ignore_signals()
    channel = WorkerChannel(socket.socket(fileno=int(descriptor)))
    sys.path[:] = map(os.fsdecode, channel.begin().path)
    handler = StderrHandler()
    handler.setFormatter(formatter(form))
    log_to(handler, int(level), by_app=bool(by_app))
    logging.getLogger("asyncio").setLevel(logging.INFO)  # as in the worker
    # One job at a time: a sync handler below async middleware holds up no other job.
    os.environ["TENURE_SYNC_ON_LOOP"] = "allow"
    try:
        app = load(target)
    except UserError as error:
        tell(error.format_message())
        sys.exit(FAILED)
    serve(channel, app.specs, app.layers, app.lifespan, app.payloads)


if __name__ == "__main__":
    main(sys.argv[1:])
