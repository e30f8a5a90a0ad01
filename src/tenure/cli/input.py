"""What the user enters: payloads and arguments from an option, stdin or an editor, and confirmations."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from tenure.cli.errors import NotDone, UserError, safe
from tenure.core.encoding.codec import decode_json, encode_json
from tenure.core.errors import PayloadInvalid, PayloadTooLarge


def given(text: str, limit: int) -> bytes:
    """Return the bytes of an option: its text, or for `-` the input from stdin, up to `limit` bytes.

    Raises `PayloadTooLarge`, and `UserError` if stdin is a terminal, where the user would not know that it waits.
    """
    if text != "-":
        return text.encode("utf-8", "surrogateescape")
    if sys.stdin.isatty():
        raise UserError("`-` stands for what comes on stdin, and that is the terminal; expected a pipe or a file.")
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise PayloadTooLarge(len(data), limit)
    return data


def arguments(texts: tuple[str, ...], limit: int) -> tuple[list[Any], dict[str, Any]]:
    """Parse positional and named arguments from a JSON array, a JSON object, or one of each.

        arguments(('["cat.png"]', '{"size": 64}'), 1_000)      # (["cat.png"], {"size": 64})

    Raises `UserError`, with no value in the message.
    """
    found: dict[type, Any] = {}
    for text in texts:
        try:
            value = decode_json(given(text, limit))
        except PayloadInvalid as error:
            raise UserError(f"ARGS: {error} Expected JSON, as in '[\"cat.png\"]' '{{\"size\": 64}}'.") from None
        if not isinstance(value, list | dict) or type(value) in found:
            raise UserError(
                "ARGS must be a JSON array of positional arguments, an object of named ones, or one of each, as in "
                "'[\"cat.png\"]' '{\"size\": 64}'."
            )
        found[type(value)] = value
    return found.get(list, []), found.get(dict, {})


def edited(payload: bytes, *, is_json: bool, why: str) -> bytes:
    """Let the user edit a payload. The editor gets JSON over several lines; the result is compact again.

    `why`: the error of the previous round. Raises `NotDone` when nothing was changed, `UserError` for a payload that
    is no text, and `PayloadInvalid`.
    """
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise UserError("The payload is no UTF-8 text, so no editor can show it; expected --payload.") from None
    if is_json:
        text = _spread(text)
    changed = click.edit(text, extension=".json" if is_json else ".txt", require_save=not why)
    if changed is None or (changed == text and not why):
        raise NotDone("Nothing was changed in the editor, so nothing was done.")
    if is_json:
        return encode_json(decode_json(changed.encode()))
    # Editors add a newline to the last line.
    return (changed if text.endswith("\n") else changed.removesuffix("\n")).encode()


def _spread(text: str) -> str:
    """Format JSON over several lines; other text stays unchanged, as after an error in the editor."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    except ValueError:
        return text


def sure(question: str, *, yes: bool, why: str, undone: str) -> None:
    """Continue only after a confirmation.

        sure("Remove 7 failed jobs of queue 'emails'?", yes=yes, why="It removes jobs for good", undone="...")

    `yes`: given on the command line. `why`: the reason in the error for a program without `--yes`. `undone`: the
    message after a no. The question is empty if there is nothing to change; a program without `--yes` fails even then,
    so that it does not work only sometimes. Raises `UserError` without a terminal, `NotDone` after a no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{why}. Without a terminal to ask at, pass --yes.")
    if question and not click.confirm(safe(question), err=True):
        raise NotDone(undone)
