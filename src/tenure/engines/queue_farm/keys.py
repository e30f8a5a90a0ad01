"""Names of Redis keys: all begin with the namespace, Tenure's own with `<namespace>:tenure`."""

from __future__ import annotations

from typing import Final

from tenure.core import names
from tenure.core.errors import InvalidArgument, invalid

DEFAULT_QUEUE: Final = "default"
"""The one queue of Tenure in a namespace. A queue of the original clients is a lane of it."""
OURS: Final = "tenure"
_FETCHED: Final = ":fetchAt"


def check_namespace(namespace: object) -> str:
    """Raises `InvalidArgument`."""
    if not isinstance(namespace, str):
        raise invalid("namespace", "a str", type(namespace).__name__)
    try:
        namespace.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise invalid("namespace", "text that UTF-8 can encode", names.shown(namespace)) from None
    if not namespace or "?" in namespace:
        raise invalid("namespace", "the beginning of the keys, without question marks", names.shown(namespace))
    return namespace


def check_lane(lane: str | None) -> str:
    """The name of a queue of the original clients. Raises `InvalidArgument`."""
    if lane is None:
        raise InvalidArgument(
            "A job of queue-farm must name its queue: using(lane=...), as in using(lane='user:42'). Jobs of one lane "
            "run in order."
        )
    if lane.endswith(_FETCHED):
        rule = f"the name of a queue that does not end in {_FETCHED!r}: its keys would be those of another queue"
        raise invalid("lane", rule, names.shown(lane))
    return lane
