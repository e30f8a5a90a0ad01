"""What a user sees when something goes wrong: one message on stderr and an exit status, no traceback, no password."""

from __future__ import annotations

import errno
import os
import re
import sys
import unicodedata
from enum import IntEnum
from typing import Final

import click

from leasehold.core.errors import InvalidArgument, LeaseholdError, NotConfigured
from leasehold.processes.status import Status

_CREDENTIALS: Final = re.compile(r"(?<=://)(?!\[user:password@\]host:6379/0(?:[\s,]|$))\S*@")
"""Greedy: a password may hold an @. Only the example of a URL in our own texts is left as it is."""
_UNWRITABLE: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What may become of our output, and is no bug of ours."""
_JOINERS: Final = "\u200c\u200d"
"""Invisible, and part of words and emoji."""


class Exit(IntEnum):
    """The exit status of a command.

    0    done
    1    it could not be done, or a check failed: no Redis, no such job, a job that did not complete. Later it may work
    2    the command line, the app or a setting is wrong: the same call will fail again
    3    a worker was told a second time to stop, and did not wait for its jobs
    4    a worker process has run enough jobs, has grown too large, or has all slots occupied by handlers that do not
         end: whoever runs it is to start the next
    130  stopped with Ctrl-C
    """

    OK = Status.DONE
    FAILED = Status.FAILED
    WRONG = Status.WRONG
    HARD = Status.HARD
    RECYCLED = Status.RECYCLED
    INTERRUPTED = 130


class UserError(click.ClickException):
    """A mistake on the command line or in the user's app, found by a command."""

    exit_code = Exit.WRONG


class NotDone(click.ClickException):
    """What was asked for could not be done, though the command line is as it should be. Nothing was changed."""

    exit_code = Exit.FAILED


def run(commands: click.Command, args: list[str]) -> int:
    """Run a command line and answer its exit status.

    What is not an error of Leasehold, of click or of the user's app is a bug of ours, and is raised.
    """
    if sys.stdout is None:  # it was closed by whoever started us (`>&-`)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as we live
    try:
        status = commands.main(args or ["--help"], prog_name="leasehold", standalone_mode=False)
        sys.stdout.flush()
    except click.Abort:
        return Exit.INTERRUPTED
    except click.ClickException as error:
        tell(_message_of(error))
        return error.exit_code
    except LeaseholdError as error:
        tell(str(error))
        return Exit.WRONG if isinstance(error, InvalidArgument | NotConfigured) else Exit.FAILED
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        # Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader of our output (`| head`) has gone, and knows
            tell(f"It could not be written: {error.strerror}.")
        return Exit.FAILED
    return status if isinstance(status, int) else Exit.OK


def tell(message: str) -> None:
    """Say on stderr what went wrong."""
    print(f"Error: {safe(message)}", file=sys.stderr)


def note(message: str) -> None:
    """Say on stderr what is worth knowing and no error."""
    print(f"Note: {safe(message)}", file=sys.stderr)


def safe(text: str) -> str:
    """The text without credentials of URLs and without what would move the terminal's cursor.

    >>> safe("no answer from redis://me:secret@example.org/0")
    'no answer from redis://***@example.org/0'
    """
    return visible(masked(text))


def masked(text: str) -> str:
    """The text without credentials of URLs. For what may quote one: not for names, which are shown as they are."""
    return _CREDENTIALS.sub("***@", text)


def visible(text: str) -> str:
    """The text without what would move the terminal's cursor, or turn what is written.

    >>> visible("a\\tb c")
    'a\\\\tb c'
    """
    return "".join(char if _shows(char) else ascii(char)[1:-1] for char in text)


def _shows(char: str) -> bool:
    return char.isprintable() or char == "\n" or char in _JOINERS or unicodedata.category(char) == "Zs"


def _message_of(error: click.ClickException) -> str:
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    return message if context is None else f"{message}\nSee: {context.command_path} --help"
