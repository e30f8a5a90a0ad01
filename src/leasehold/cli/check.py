"""The `check` command: checks that Redis is configured safely for jobs."""

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
# In Redis 6.2 a reset user may use all channels.
_FRESH: Final = ("reset", "resetchannels", "on", ">PASSWORD")
_PLAIN: Final = re.compile(r"[!#-&(-\[\]-~]+")
_LEVEL: Final = 9
_NAME: Final = 13


@click.command()
@click.option("--strict", is_flag=True, help="Count warnings as errors.")
@click.option(
    "--acl", metavar="USER", help="Print the command that grants this user exactly the rights that Leasehold needs."
)
@reaching
@click.pass_context
def check(context: click.Context, strict: bool, acl: str | None, where: Where, as_json: bool) -> None:
    """Check that Redis is configured safely for jobs, and explain how to fix it.

    It checks the version, the role, the eviction policy, the memory, the connections, the persistence, the rights of
    the user (ACL), the clocks, the round trip, and whether a newer release has written to a queue. It leaves no key
    behind. A worker runs the same checks when it starts, and refuses to start on an error; it claims nothing from a
    queue that a newer release has written to. Without a connection or access, that is the only finding.

    With --acl it connects to nothing: it prints the line for redis-cli, in which you replace PASSWORD.

    Exit status: 0 safe, perhaps with warnings; 1 there are errors (with --strict: or warnings), or Redis could not be
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
    """Quote the word for redis-cli if it has spaces, quotes, backslashes or bytes outside ASCII."""
    if _PLAIN.fullmatch(word):
        return word
    data = word.encode("utf-8", "surrogateescape")
    return '"' + "".join(char if _PLAIN.fullmatch(char := chr(byte)) else f"\\x{byte:02x}" for byte in data) + '"'


def _look(app: Leasehold) -> Inspection:
    """Run the checks. If Redis cannot be reached, or denies access, that is the only finding."""
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
    """Print a line for each finding and its fix below; on a terminal, fitted to its width."""
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
