"""The `check` command: whether a Redis is fit to keep jobs, and how to put it right."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

import click

from leasehold.app.preflight import Finding, Inspection, Level, failed, inspection, layouts
from leasehold.cli.errors import Exit, masked, visible
from leasehold.cli.output.jobs import dump
from leasehold.cli.reach import Where, reach, reaching
from leasehold.client.connections import Connections
from leasehold.core.errors import RedisError
from leasehold.protocols.registry import rights_of
from leasehold.redis.url import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.app.app import Leasehold

_STYLES: Final = {Level.OK: "green", Level.UNKNOWN: "yellow", Level.WARNING: "yellow", Level.ERROR: "bold red"}
# Redis 6.2 gives a user that was reset all channels.
_FRESH: Final = ("reset", "resetchannels", "on", ">PASSWORD")
_PLAIN: Final = re.compile(r"[!#-&(-\[\]-~]+")
_LEVEL: Final = 9
_NAME: Final = 13


@click.command()
@click.option("--strict", is_flag=True, help="Let warnings count as errors.")
@click.option("--acl", metavar="USER", help="Print the command that gives this user the rights needed and no others.")
@reaching
@click.pass_context
def check(context: click.Context, strict: bool, acl: str | None, where: Where, as_json: bool) -> None:
    """Look whether a Redis is fit to keep jobs, and say how to put it right.

    It looks at the version, the role, the eviction policy, the memory, the connections, the persistence, the rights of
    the user (ACL), the clocks and the round trip, and whether a newer release has written to a queue. No key is left
    behind. A worker looks at the same when it starts, and does not start when there is an error; of a queue that a
    newer release has written to it claims nothing, and says so. Without a connection, or for a user who is not let in,
    that is all it finds.

    With --acl it connects to nothing: it prints the line for redis-cli, with a password that you choose.

    Exit status: 0 fit, perhaps with warnings; 1 there are errors (with --strict: or warnings), or Redis could not be
    reached; 2 the command line or a setting is wrong.
    """
    with reach(where) as app:
        if acl is not None:
            words = ("ACL", "SETUSER", acl, *_FRESH, *rights_of(app.engine).needed)
            click.echo(dump({"acl": words}) if as_json else " ".join(map(_quoted, words)))
            return
        server, found = str(Target.parse(app.settings.url)), _look(app)
    fit = not found.errors and not (strict and found.warnings)
    if as_json:
        click.echo(dump({"url": server, "fit": fit, "findings": [_json(one) for one in found.findings]}))
    else:
        _show(server, found)
    context.exit(Exit.OK if fit else Exit.FAILED)


def _quoted(word: str) -> str:
    """The word as redis-cli reads it: in quotes where it has spaces, quotes, backslashes or bytes that are no ASCII."""
    if _PLAIN.fullmatch(word):
        return word
    data = word.encode("utf-8", "surrogateescape")
    return '"' + "".join(char if _PLAIN.fullmatch(char := chr(byte)) else f"\\x{byte:02x}" for byte in data) + '"'


def _look(app: Leasehold) -> Inspection:
    """What is found; of a Redis that cannot be reached, or lets nobody in, that it is so."""
    connections = Connections(app.settings)
    try:
        found = connections.run(inspection(rights_of(app.engine)))
        return Inspection((*found.findings, connections.run(layouts(app.engine))))
    except RedisError as error:
        return failed(error)
    finally:
        connections.close()


def _json(one: Finding) -> dict[str, str]:
    return {"name": one.name, "level": one.level.value, "found": masked(one.found), "remedy": one.remedy}


def _show(server: str, found: Inspection) -> None:
    """A line for each finding, the remedy below it; on a terminal as wide as it is."""
    if not sys.stdout.isatty():
        for level, name, text in _lines(found):
            click.echo(visible(f"{level:<{_LEVEL}}{name:<{_NAME}}{text}"))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for level, name, text in _lines(found):
        style = _STYLES[Level(level)] if level else "bold"
        table.add_row(Text(level, style), Text(name), Text(visible(text), "" if level else "bold"))
    console = Console()
    console.print(Text(server, "dim"))
    console.print(table)


def _lines(found: Inspection) -> Iterator[tuple[str, str, str]]:
    for one in found.findings:
        yield one.level.value, one.name, masked(one.found)
        if one.remedy:
            yield "", "", one.remedy
