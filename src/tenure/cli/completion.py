"""The `completion` command, and the names of queues and workers that a shell offers after TAB."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

from tenure.core import limits

if TYPE_CHECKING:
    from tenure.app.app import Tenure

COMPLETE_MS: Final = 300
"""How long shell completion waits for Redis."""
COMPLETE_MOST: Final = 200
"""Names that shell completion offers."""

SHELLS: Final = ("bash", "zsh", "fish")


@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """\b
    eval "$(tenure completion bash)"      in ~/.bashrc; Bash 4.4 or newer
    eval "$(tenure completion zsh)"       in ~/.zshrc, after compinit
    tenure completion fish | source       in ~/.config/fish/config.fish

    It completes commands, options, states, and the names of queues and workers: those are asked of the Redis that the
    line or the environment names, which has a third of a second to answer.

    Exit status: 0 done; 2 there is no such shell.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, "click has these three"
    click.echo(found(context.find_root().command, {}, "tenure", "_TENURE_COMPLETE").source())


def queue_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the queues with such a beginning. None if Redis does not answer soon: a shell can show no error."""
    return _names(context, incomplete, lambda app: app.inspect.queues())


def worker_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the workers with such a beginning."""
    return _names(context, incomplete, lambda app: (worker.id for worker in app.inspect.workers()))


def _names(context: click.Context, incomplete: str, ask: Callable[[Tenure], Iterable[str]]) -> list[str]:
    from tenure.app.app import Tenure
    from tenure.core.errors import TenureError

    soon = COMPLETE_MS / limits.SECOND
    given = {name: context.params.get(name) for name in ("url", "namespace", "protocol")}
    try:
        with Tenure(**given, patience=0, connect_timeout=soon, reply_timeout=soon) as app:
            if app.settings.url.startswith("embedded:"):
                return []  # completion starts no server
            return sorted(name for name in ask(app) if name.startswith(incomplete))[:COMPLETE_MOST]
    except TenureError:
        return []
