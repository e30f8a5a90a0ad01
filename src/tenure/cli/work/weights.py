"""The weights of `tenure worker --weight`, and the spelling of weights in earlier releases."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from typing import Final

from tenure.cli.errors import UserError
from tenure.core import limits

_WEIGHT: Final = re.compile(r"(.+)=([0-9]{1,3})", re.DOTALL)
_EARLIER: Final = re.compile(r"(.+?)(?::([0-9]+))?", re.DOTALL)


def parse_weights(values: Sequence[str]) -> dict[str, int]:
    """The weight of each queue.

        >>> parse_weights(["critical=5", "user:42=2"])
        {'critical': 5, 'user:42': 2}

    Raises `UserError`.
    """
    weights: dict[str, int] = {}
    for value in values:
        found = _WEIGHT.fullmatch(value)
        if found is None or not 1 <= int(found[2]) <= limits.MAX_WEIGHT:
            raise UserError(f"--weight must be QUEUE=N with N from 1 to {limits.MAX_WEIGHT}, got {value!r}.")
        if weights.setdefault(found[1], int(found[2])) != int(found[2]):
            raise UserError(f"--weight gives queue {found[1]!r} two weights, {weights[found[1]]} and {found[2]}.")
    return weights


def current_spelling(value: str, named: Collection[str]) -> str | None:
    """The options for a `-q` that was written for an earlier release. `named`: the queues that the app names.

        >>> current_spelling("critical:5,mails", ["critical", "mails"])
        '-q critical --weight critical=5 -q mails'

    None: the app has a queue of this name, or none of the queues that an earlier release would have read.
    """
    found = [_EARLIER.fullmatch(piece.strip()) for piece in value.split(",")]
    pairs = [one.groups() for one in found if one is not None]
    if value in named or not any(name in named for name, _ in pairs):
        return None
    words: list[str] = []
    for name, weight in pairs:
        words += ["-q", name] if weight is None else ["-q", name, "--weight", f"{name}={weight}"]
    return shlex.join(words)
