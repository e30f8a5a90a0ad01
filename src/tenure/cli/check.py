"""The `check` command: checks that Redis is configured safely for jobs."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import textwrap
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.errors import Exit, visible
from tenure.cli.output.tables import Answer
from tenure.cli.reach import reaching
from tenure.client.connections import driver_options, refuse_outside_of_fixtures
from tenure.core.errors import RedisError
from tenure.core.text import masked
from tenure.manage.checks import inspect_all, layouts, lost_ends, outside
from tenure.manage.preflight import Finding, Inspection, Level, failed, no_waits
from tenure.protocols.registry import rights_of
from tenure.redis.drivers import asyncio_driver
from tenure.redis.url import Target, is_cluster

_COLORS: Final = {Level.OK: "green", Level.UNKNOWN: "yellow", Level.WARNING: "yellow", Level.ERROR: "red"}
# In Redis 6.2 a reset user may use all channels.
_FRESH: Final = ("reset", "resetchannels", "on", ">PASSWORD")
_PLAIN: Final = re.compile(r"[!#-&(-\[\]-~]+")
_LEVEL: Final = 9
_NAME: Final = 13


@click.option("--strict", is_flag=True, help="Count warnings as errors.")
@click.option(
    "--acl", metavar="USER", help="Print the command that grants this user exactly the rights that Tenure needs."
)
@click.option("--deep", is_flag=True, help="Also look for jobs that open flows wait for in vain. It takes longer.")
@click.option("--repair", is_flag=True, help="With --deep: let the flows count them.")
@reaching()
def check(strict: bool, acl: str | None, deep: bool, repair: bool, app: Tenure) -> Answer:
    """It checks the version, the role, the eviction policy, the memory, the connections, the persistence, the rights of
    the user (ACL), the clocks, the round trip, whether a newer release has written to a queue, and whether jobs lie in
    partitions that their queue does not have. It leaves no key behind. A worker runs the same checks when it
    starts, and refuses to start on an error; it claims nothing from a queue that a newer release has written to.
    Without a connection or access, that is the only finding.

    A failover of Redis can lose the word that a member of a flow has ended, and the flow stays open. --deep finds such
    members: it looks at each member of the open flows that has not ended. With --repair they count as what they ended
    as, or as cancelled if nothing is left of them.

    With --acl it connects to nothing: it prints the line for redis-cli, in which you replace PASSWORD.
    """
    if acl is not None:
        words = ("ACL", "SETUSER", acl, *_FRESH, *rights_of(app.engine, is_cluster(app.settings.url)).needed)
        return Answer({"acl": words}, [" ".join(map(_quoted, words))])
    if repair and not deep:
        raise click.UsageError("--repair needs --deep.")
    found = asyncio.run(_look(app, deep, repair))
    fit = not found.errors and not (strict and found.warnings)
    findings = [
        {"name": one.name, "level": one.level.value, "found": masked(one.found), "remedy": one.remedy}
        for one in found.findings
    ]
    document = {"url": str(Target.parse(app.settings.url)), "fit": fit, "findings": findings}
    return Answer(document, ["\n".join(map(_shown, found.findings))], status=Exit.OK if fit else Exit.FAILED)


def _quoted(word: str) -> str:
    """Quote the word for redis-cli if it has spaces, quotes, backslashes or bytes outside ASCII."""
    if _PLAIN.fullmatch(word):
        return word
    data = word.encode("utf-8", "surrogateescape")
    return '"' + "".join(char if _PLAIN.fullmatch(char := chr(byte)) else f"\\x{byte:02x}" for byte in data) + '"'


async def _look(app: Tenure, deep: bool, repair: bool) -> Inspection:
    """Run the checks. If Redis cannot be reached, or denies access, that is the only finding."""
    refuse_outside_of_fixtures(app.settings.url)
    driver = asyncio_driver(app.settings.url, **driver_options(app.settings))
    try:
        clustered = is_cluster(app.settings.url)
        found = await inspect_all(driver, app.engine, clustered, lambda error: (no_waits(str(error)),))
        queues = (*await driver.run(layouts(app.engine)), *await driver.run(outside(app.engine)))
        if deep:
            queues = (*queues, *await driver.run(lost_ends(app.engine, repair)))
        return Inspection((*found.findings, *queues))
    except RedisError as error:
        return failed(error)
    finally:
        await driver.close()


def _shown(one: Finding) -> str:
    """Format a finding and its remedy in lines of the terminal's width; in a pipe, one line each."""
    level = click.style(f"{one.level.value:<{_LEVEL}}", _COLORS[one.level])
    lines = [f"{level}{one.name:<{_NAME}}{_folded(masked(one.found))}"]
    if one.remedy:
        lines.append(" " * (_LEVEL + _NAME) + click.style(_folded(one.remedy), bold=True))
    return "\n".join(lines)


def _folded(text: str) -> str:
    text = visible(text)
    if not sys.stdout.isatty():
        return text
    indent = " " * (_LEVEL + _NAME)
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False).lstrip()
