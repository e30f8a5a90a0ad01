"""The `dashboard` command: pages and an API in the browser, or a user for its password file."""

from __future__ import annotations

import sys
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.errors import UserError, note
from tenure.cli.logs import set_up_logging
from tenure.cli.output.tables import Answer
from tenure.cli.reach import reaching

LOCAL: Final = ("localhost", "127.0.0.1", "::1")


@click.argument("app", required=False, metavar="[MODULE:APP]")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8020, show_default=True, help="The port; 0: any.")
@click.option("--password-file", metavar="FILE", help="The users: name:role:scrypt$..., a line each.")
@click.option("--read-only", is_flag=True, help="Allow no changes.")
@click.option("--root-path", metavar="PATH", help="The path under which a proxy serves it, if it removes that.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A name of this host in requests; may be repeated.")
@click.option("--proxied", is_flag=True, help="A proxy on this machine sets X-Forwarded-For to the client's address.")
@click.option("--title", default="", help="Shown at the top of each page.")
@click.option("--redact", multiple=True, metavar="FIELD", help="Hide this field of payloads; may be repeated.")
@click.option("--add-user", metavar="NAME", help="Add a user to the password file, or replace one.")
@click.option(
    "--role", type=click.Choice(["viewer", "operator"]), default="viewer", show_default=True, help="The role of NAME."
)
@reaching(by_argument=True)
def dashboard(
    app: Tenure,
    host: str,
    port: int,
    password_file: str | None,
    read_only: bool,
    root_path: str | None,
    allow_host: tuple[str, ...],
    proxied: bool,
    title: str,
    redact: tuple[str, ...],
    add_user: str | None,
    role: str,
) -> Answer:
    """\b
    tenure dashboard                    the queues of TENURE_URL, at http://127.0.0.1:8020
    tenure dashboard shop:app           the same, and jobs of its tasks can be enqueued and checked
    tenure dashboard --add-user ada --role operator --password-file users.txt
    tenure dashboard --host 0.0.0.0 --password-file users.txt --allow-host ops.example.org

    Without a password file it serves only this machine. Needs `pip install 'tenure[web]'`. To mount it in an app of
    your own, see docs/howto/dashboard.md.
    """
    from tenure.web.access import Access, Passwords, is_local
    from tenure.web.access import add_user as add
    from tenure.web.serve import serve
    from tenure.web.site import site

    if add_user is not None:
        if password_file is None:
            raise click.UsageError("--add-user needs --password-file.")
        add(password_file, add_user, role, _password())
        return Answer({"user": add_user, "role": role}, f"User {add_user!r} is in {password_file}.")
    if password_file is None and not is_local(host):
        raise UserError(f"--host {host} can be reached from other machines, so it needs --password-file.")
    passwords = None if password_file is None else Passwords(password_file)
    asgi = site(app, Access(passwords=passwords, read_only=read_only), title=title, redact=redact, root_path=root_path)
    set_up_logging("info")

    def began(url: str) -> None:
        note(f"The dashboard is at {url} (Ctrl-C stops it).")

    serve(asgi, host, port, (*LOCAL, host, *allow_host), began, proxied=proxied)
    return Answer({}, "")


def _password() -> str:
    """Ask for a password twice; in a pipe, read one line."""
    if not sys.stdin.isatty():
        return sys.stdin.readline(10_000).rstrip("\n")
    password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return password
