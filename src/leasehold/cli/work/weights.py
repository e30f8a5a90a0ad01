"""The queues of `leasehold worker -q`, with their weights: `critical:5,default:1`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
        for piece in _pieces(value):
            name, weight = _parse(piece.replace(_COMMA, ","))
            if weights.setdefault(names.queue_name(name), weight) != weight:
                raise UserError(f"--queue names {name!r} with two weights, {weights[name]} and {weight}; expected one.")
    return weights


def misread(values: Sequence[str], known: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Of the queues `known`, those that are written here as they are called and are read as others: these.

    >>> list(misread(["mails,jobs:7"], ["jobs:7", "mails"]))
    [('jobs:7', ['jobs'])]
    """
    for name in known:
        length = name.count(",") + 1
        for pieces in map(_pieces, values):
            for start in range(len(pieces) - length + 1):
                run = pieces[start : start + length]
                written = ",".join(run)
                read = [_parse(piece.replace(_COMMA, ","))[0] for piece in run]
                if read != [name] and name in (written, _unweighted(written)):
                    yield name, read


def spelled(name: str) -> str:
    """A queue's name as `-q` has it.

    >>> spelled("a,b"), spelled("jobs:7")
    ('a,,b', 'jobs:7:1')
    """
    return name.replace(",", ",,") + (":1" if _WEIGHTED.fullmatch(name) else "")


def _pieces(value: str) -> list[str]:
    pieces = value.replace(",,", _COMMA).split(",")
    return pieces if len(pieces) == 1 else [piece.strip() for piece in pieces]


def _unweighted(text: str) -> str:
    weighted = _WEIGHTED.fullmatch(text)
    return text if weighted is None else weighted.group(1)


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
