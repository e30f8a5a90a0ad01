"""The commands of an outbox in an SQL database: `relay` and `sql-clean`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from tenure.cli.errors import NotDone, UserError
from tenure.cli.loader import load_object
from tenure.cli.logs import set_up_logging
from tenure.cli.output.tables import Answer, Table
from tenure.cli.output.text import jobs_text
from tenure.cli.stop import stopped_by_signals
from tenure.cli.units import Age
from tenure.core.values import as_dict

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from tenure.outbox import Outbox, OutboxStatus

_TARGET: Final = click.argument("target", metavar="MODULE:OUTBOX")
_DATABASE: Final = click.option(
    "--database", envvar="TENURE_DATABASE", metavar="URL",
    help="The database, as SQLAlchemy names it. [default: TENURE_DATABASE, then the engine of the outbox]",
)  # fmt: skip
_JSON: Final = click.option("as_json", "--json", is_flag=True, help="Print JSON, for programs.")


@_TARGET
@_DATABASE
@click.option("--status", is_flag=True, help="Show how many rows wait, and those with an error, and end.")
@click.option("as_json", "--json", is_flag=True, help="With --status: print JSON, for programs.")
def relay(target: str, database: str | None, status: bool, as_json: bool) -> int:
    """\b
    tenure relay shop.jobs:outbox
    tenure relay shop.jobs:outbox --status

    Any number of relays may run, on any machine. A committed row becomes exactly one job, wherever relays end. While
    the database or Redis does not respond, a relay waits. A row that cannot be enqueued stays with its error, and does
    not stop the others. Needs `pip install 'tenure[sql]'`. docs/howto/outbox.md has the steps.

    Exit status: 0 a signal stopped it, or --status has no row with an error; 1 --status has such rows, or the database
    cannot be used; 2 the command line, the outbox or a setting is wrong, a table does not exist, or a package is
    missing.
    """
    from tenure.outbox import Relay

    outbox, engine = _outbox(target, database)
    with _blaming_the_database():
        if status:
            return _status(outbox, outbox.status(engine)).print(as_json)
        set_up_logging("info")
        with stopped_by_signals() as stopped:
            Relay(outbox, engine).run(stopped)
    return 0


@_TARGET
@_DATABASE
@click.option(
    "--older-than", type=Age(), required=True, metavar="AGE", help="Forget effects of at least this age, as in 30d."
)
@_JSON
def sql_clean(target: str, database: str | None, older_than: float, as_json: bool) -> int:
    """\b
    tenure sql-clean shop.jobs:outbox --older-than 30d

    `once` notes each job in the table tenure_done. A job that runs again after its row is gone has its effect again: so
    choose an age that no job reaches between its first run and its last retry. Run it once a day.

    Exit status: 0 done; 1 the database cannot be used; 2 the command line, the outbox or a setting is wrong, a table
    does not exist, or a package is missing.
    """
    from tenure.outbox import clean

    _, engine = _outbox(target, database)
    with _blaming_the_database():
        count = clean(engine, older_than)
    return Answer({"forgotten": count}, f"The effects of {jobs_text(count)} were forgotten.").print(as_json)


def _outbox(target: str, database: str | None) -> tuple[Outbox, Engine]:
    """Return the outbox, and the engine of its database. Raises `UserError`."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError

    from tenure.outbox import Outbox

    outbox = load_object(target, Outbox, "outbox")
    if database is None:
        if outbox.engine is None:
            raise UserError(f"{target} has no engine. Write Outbox(app, engine=engine), or add --database URL.")
        return outbox, outbox.engine
    try:
        engine = create_engine(database, pool_pre_ping=True)
    except (ArgumentError, ImportError) as error:
        # The URL may have a password, so it is not shown.
        why = "its driver is not installed" if isinstance(error, ImportError) else "it is not a URL of SQLAlchemy"
        raise UserError(f"--database cannot be used: {why}.") from None
    if engine.dialect.is_async:
        raise UserError("--database needs a blocking driver, as in postgresql+psycopg:// or sqlite://.")
    return outbox, engine


@contextmanager
def _blaming_the_database() -> Iterator[None]:
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        # Without the statement and its parameters, which may be arguments of jobs.
        first, *_ = str(error.orig).splitlines() or [""]
        raise NotDone(f"The database cannot be used: {type(error.orig).__name__}: {first}") from None


def _status(outbox: Outbox, found: OutboxStatus) -> Answer:
    document: dict[str, Any] = {"table": outbox.table, **as_dict(found), "rows": [as_dict(one) for one in found.rows]}
    oldest = "" if found.oldest_s is None else f" The oldest row is {found.oldest_s:,.0f} s old."
    text = (
        f"Outbox {outbox.table}: {found.waiting:,} rows wait, {found.moving:,} are on their way, {found.refused:,} "
        f"have an error.{oldest}"
    )
    rows = tuple(
        {
            "row": str(one.row),
            "queue": one.queue,
            "id": one.id,
            "task": one.task or "",
            "again": "yes" if one.will_retry else "no",
            "error": one.error,
        }
        for one in found.rows
    )
    errors = [f"{found.refused:,} rows of the outbox cannot be enqueued."] if found.refused else []
    return Answer(document, [text, Table("Rows with an error", rows, right=("row",))] if rows else text, errors=errors)
