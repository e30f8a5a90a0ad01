"""The `help` command."""

from __future__ import annotations

from typing import cast

import click

from tenure.cli.reach import CONNECTION


@click.argument("command", required=False)
@click.pass_context
def help(context: click.Context, command: str | None) -> None:
    """\b
    tenure help              all commands
    tenure help retry        one command, as `tenure retry --help`
    tenure help connection   --app, --url, --namespace and --protocol

    Exit status: 0 done; 2 there is no such command.
    """
    group = context.find_root()
    if command is None:
        click.echo(group.get_help())
        return
    found: click.Command | None = CONNECTION
    if command != CONNECTION.name:
        _, found, _ = cast(click.Group, group.command).resolve_command(group, [command])
    assert found is not None, "resolve_command refuses unknown names"
    name = "COMMAND" if found is CONNECTION else command
    click.echo(found.get_help(click.Context(found, info_name=name, parent=group)))
