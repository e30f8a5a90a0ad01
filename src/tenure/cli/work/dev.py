"""The `dev` command: a Redis, a worker and a reload on every change, for the desk."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

import click

from tenure.cli.errors import UserError, note
from tenure.cli.logs import set_up_logging
from tenure.cli.work.processes import run_parent, worker_command
from tenure.core import limits
from tenure.processes.config import ParentConfig

FOLDER: Final = ".tenure"
"""In the current directory: the data of the embedded Redis."""
_URL: Final = f"embedded:{FOLDER}/redis"
_VARIABLES: Final = ("TENURE_URL", "REDIS_URL")


@click.argument("app", metavar="MODULE:APP")
@click.option("queues", "--queue", "-q", multiple=True, metavar="QUEUE", help="As for `worker`.")
@click.option("weights", "--weight", multiple=True, metavar="QUEUE=N", help="As for `worker`.")
@click.option(
    "--concurrency", "-c", type=click.IntRange(1, limits.MAX_CONCURRENCY), default=limits.CONCURRENCY, metavar="N",
    show_default=True, help="How many jobs may run at one time.",
)  # fmt: skip
@click.option(
    "--log-level", type=click.Choice(("debug", "info", "warning", "error")), default="debug", show_default=True,
    help="What to log on stderr. At debug also jobs that return to their queue, and tracebacks of retried attempts.",
)  # fmt: skip
@click.pass_context
def dev(
    context: click.Context,
    app: str,
    queues: tuple[str, ...],
    weights: tuple[str, ...],
    concurrency: int,
    log_level: str,
) -> None:
    """MODULE:APP names a Tenure, as for `tenure worker`. When neither TENURE_URL nor REDIS_URL is set, the app
    gets an embedded Redis with its data in .tenure in the current directory; an app with a URL of its own
    keeps it. When *.py files below the current directory change, running jobs have a moment to end, and the worker
    starts with the new code. Ctrl-C ends all.

    Needs `pip install 'tenure[reload]'`, and `tenure[embedded]` or a redis-server for the Redis.
    """
    set_up_logging(log_level)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    if not any(os.environ.get(name, "").strip() for name in _VARIABLES):
        _make_folder(Path(FOLDER))
        os.environ["TENURE_URL"] = _URL
        note(
            f"Redis is embedded, with its data in {FOLDER}. For programs that enqueue, in this directory: "
            f"export TENURE_URL={_URL}"
        )
    arguments = [f"--concurrency={concurrency}", f"--log-level={log_level}"]
    arguments += [*(f"--queue={one}" for one in queues), *(f"--weight={one}" for one in weights)]
    context.exit(run_parent(ParentConfig(worker_command([*arguments, "--", app]), watched=os.getcwd())))


def _make_folder(folder: Path) -> None:
    """The folder hides itself from git, so the user need not."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("# Made by tenure dev: the data of its Redis.\n*\n", "utf-8")
    except OSError as error:
        raise UserError(f"The folder {FOLDER} for the embedded Redis cannot be made here: {error}.") from None
