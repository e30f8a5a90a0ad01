"""The queues of `leasehold worker -q`, with their weights: `critical:5,default:1`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from leasehold.cli.errors import UserError
from leasehold.core import limits, names

_WEIGHTED: Final = re.compile(r"(.*):([+-]?[0-9]+(?:\.[0-9]+)?)", re.DOTALL)
"""Also what can only be meant as a weight and is none, as -1 and 0.5."""
_DIGITS: Final = 9
_COMMA: Final = "\0"
"""Stands for a comma that is part of a name. No argument of a process can hold it."""


def parse_queues(values: Sequence[str]) -> dict[str, int]:
    """Queue -> weight, in the order given. Commas separate queues, the last `:NUMBER` is a weight, else it is 1.

        >>> parse_queues(["critical:5,default", "user:42:1"])
        {'critical': 5, 'default': 1, 'user:42': 1}

    A comma in a name is written twice. Raises `UserError` and `InvalidArgument`.
    """
    weights: dict[str, int] = {}
    for value in values:
        pieces = value.replace(",,", _COMMA).split(",")
        for piece in pieces if len(pieces) == 1 else map(str.strip, pieces):
            name, weight = _parse(piece.replace(_COMMA, ","))
            if weights.setdefault(names.queue_name(name), weight) != weight:
                raise UserError(f"--queue names {name!r} with two weights, {weights[name]} and {weight}; expected one.")
    return weights


def _parse(piece: str) -> tuple[str, int]:
    weighted = _WEIGHTED.fullmatch(piece)
    if weighted is None:
        return piece, 1
    name, number = weighted.groups()
    if not number.isdigit() or len(number) > _DIGITS or not 1 <= int(number) <= limits.MAX_WEIGHT:
        raise UserError(
            f"--queue {piece!r}: the weight is {number}; expected a whole number from 1 to {limits.MAX_WEIGHT}. If it "
            f"is the end of the queue's name, write a weight behind it: {piece}:1"
        )
    return name, int(number)
