"""Payloads and arguments from the command line: an option's text, stdin, or an editor."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import click

from leasehold.cli.errors import NotDone, UserError
from leasehold.core.codec import JsonCodec
from leasehold.core.errors import PayloadInvalid, PayloadTooLarge

STDIN: Final = "-"
_WORDS: Final = "Expected JSON"


def given(text: str, limit: int) -> bytes:
    """Return the bytes of an option: its text, or for `-` the input from stdin, up to `limit` bytes.

    Raises `PayloadTooLarge`, and `UserError` if stdin is a terminal, where the user would not know that it waits.
    """
    if text != STDIN:
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

    Raises `UserError`, whose message contains no value.
    """
    positional: list[Any] | None = None
    named: dict[str, Any] | None = None
    for text in texts:
        match _decoded(given(text, limit)):
            case list() as found if positional is None:
                positional = found
            case dict() as found if named is None:
                named = found
            case list() | dict():
                raise UserError(f"ARGS: both are of one kind. {_WORDS}: an array, an object, or one of each.")
            case other:
                raise UserError(
                    f"ARGS: that is {_kind(other)}. {_WORDS}: an array of positional arguments, an object of named "
                    "ones, or one of each, as in '[\"cat.png\"]' '{\"size\": 64}'."
                )
    return positional or [], named or {}


def edited(payload: bytes, *, is_json: bool, why: str = "") -> bytes:
    """Let the user edit a payload. The editor gets JSON over several lines; the result is compact again.

    `why`: the error of the previous round. Raises `NotDone` when nothing was changed, `UserError` for what is no
    text, and `PayloadInvalid`.
    """
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise UserError("The payload is no UTF-8 text, so no editor can show it; expected --payload.") from None
    if is_json:
        text = spread(payload)
    changed = click.edit(text, extension=".json" if is_json else ".txt", require_save=not why)
    if changed is None or (changed == text and not why):
        raise NotDone("Nothing was changed in the editor, so nothing was done.")
    if is_json:
        codec = JsonCodec()
        return codec.encode(codec.decode(changed.encode()))
    # Editors end the last line, also where there was no such end.
    return (changed if text.endswith("\n") else changed.removesuffix("\n")).encode()


def spread(payload: bytes) -> str:
    """Format JSON over several lines; other text stays unchanged."""
    try:
        return json.dumps(json.loads(payload), indent=2, ensure_ascii=False) + "\n"
    except ValueError:
        return payload.decode("utf-8", "replace")


def _decoded(data: bytes) -> Any:
    try:
        return JsonCodec().decode(data)
    except PayloadInvalid as error:
        raise UserError(f"ARGS: {error} {_WORDS}, as in '[\"cat.png\"]' '{{\"size\": 64}}'.") from None


def _kind(value: object) -> str:
    names = {str: "a string", bool: "true or false", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), "something else")
