"""Errors for users: one message on stderr and an exit status, without traceback or password."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import unicodedata
from enum import IntEnum
from typing import Final

import click

from tenure.core.errors import InvalidArgument, NotConfigured, TenureError
from tenure.core.text import masked
from tenure.processes.status import Status

_UNWRITABLE: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of the output that are no bug of Tenure."""


class Exit(IntEnum):
    """The exit status of a command.

    0    done
    1    not done, or a check failed: no Redis, no such job, a job that did not complete; it may work
         later
    2    the command line, the app or a setting is wrong: the same call will fail again
    3    a worker got a second signal, and did not wait for its jobs
    4    a worker process that its parent replaces: it has run enough jobs, has grown too large, has
         lost its parent, or handlers that do not end occupy all its slots
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
    """The command line is right, but the command could not be done. `document`: what `--json` prints nevertheless."""

    exit_code = Exit.FAILED

    def __init__(self, message: str, document: object = None) -> None:
        super().__init__(message)
        self.document = document


def run(commands: click.Command, args: list[str]) -> int:
    """Run a command line and return its exit status.

    Raises any error that is not of Tenure, click or the user's app: it is a bug.
    """
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # for a locale that lacks a character of a job
    try:
        status = commands.main(args or ["--help"], prog_name="tenure", standalone_mode=False)
        with contextlib.suppress(ValueError, AttributeError):  # the app of a worker has closed or removed it
            sys.stdout.flush()
    except click.Abort:
        return Exit.INTERRUPTED
    except click.ClickException as error:
        tell(_message_of(error))
        return error.exit_code
    except TenureError as error:
        tell(str(error))
        return Exit.WRONG if isinstance(error, InvalidArgument | NotConfigured) else Exit.FAILED
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        # Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # not for a reader that has left (`| head`)
            tell(f"The output could not be written: {error.strerror}.")
        return Exit.FAILED
    return status if isinstance(status, int) else Exit.OK


def _open_closed_streams() -> None:
    """Open /dev/null for each stream that the caller has closed (`<&-`). Otherwise a connection gets its number, and a
    job's child that prints writes into it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest free number, the number of the stream
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode))  # noqa: SIM115 - open until the process ends


def tell(message: str) -> None:
    """Print an error to stderr."""
    print(f"Error: {safe(message)}", file=sys.stderr)


def note(message: str) -> None:
    """Print a note to stderr."""
    print(f"Note: {safe(message)}", file=sys.stderr)


def safe(text: str) -> str:
    """Return the text without credentials of URLs and without control characters.

    >>> safe("no answer from redis://me:secret@example.org/0")
    'no answer from redis://***@example.org/0'
    """
    return visible(masked(text))


def visible(text: str) -> str:
    """Return the text with escapes for characters that move the cursor or change the writing direction.

    >>> visible("a\\tb c")
    'a\\\\tb c'
    """
    return "".join(char if _shows(char) else ascii(char)[1:-1] for char in text)


def _shows(char: str) -> bool:
    # The last two characters are invisible, and part of words and emoji.
    return char.isprintable() or unicodedata.category(char) == "Zs" or char in "\n\u200c\u200d"


def _message_of(error: click.ClickException) -> str:
    message = error.format_message().replace("\n\t", " ")  # click lists choices with tabs
    context = error.ctx if isinstance(error, click.UsageError) else None
    return message if context is None else f"{message}\nSee: {context.command_path} --help"
