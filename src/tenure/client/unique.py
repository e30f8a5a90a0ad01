"""Unique jobs: the values of the option `unique`, and the keys in Redis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from tenure.core import limits, names
from tenure.core.errors import invalid
from tenure.core.shape import DIGEST, Conflict, UniqueRule
from tenure.core.shape import Until as Span
from tenure.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenure.core.job import JobView

MAX_WINDOW_MS: Final = 365 * limits.DAY

Seconds: TypeAlias = float | timedelta
Until: TypeAlias = Literal["ended", "started"] | Seconds
OnConflict: TypeAlias = Literal["reject", "existing", "replace", "rerun"]

_BY_ARGUMENTS: Final = ""
"""The key of a rule by arguments, before the job's task and arguments are known. No real key is empty."""
OF_ARGUMENTS: Final = UniqueRule(_BY_ARGUMENTS)
_OWN: Final = "k:"
_DIGEST_BYTES: Final = 16
BY_ARGUMENTS: Final = "by arguments: "
"""The prefix of keys by arguments, as users see them."""
_MOST_S: Final = MAX_WINDOW_MS // limits.SECOND
_RERUN: Final = "The running job must keep its key until it has ended."


@dataclass(frozen=True, slots=True)
class Unique:
    """Allow one job per key on a queue. The key is your own, or (None) the job's task and arguments.

        thumbnail.using(unique=Unique(until="started", on_conflict="existing")).enqueue("cat.png")
        report.using(unique=Unique("report:7", on_conflict="rerun")).enqueue(7)

    `until`: when the key is free again: "ended" (the default; also across retries), "started" (at the first claim), or
    a time after the enqueue, in seconds or as a `timedelta` (0.001 s to 365 days). `on_conflict`: what an enqueue does
    if another job has the key. "reject" raises `NotUnique`; the others return a handle of the other job, with `created`
    False. "existing" does nothing else. "replace" gives a waiting job the task, arguments, `timeout`, `retries`,
    headers, limits and share of the new call; the job keeps its id, lane, priority, due time and key, and other options
    of the new call are ignored; if the job runs, the call is rejected. "rerun" runs the call once more after a running
    job has ended; it needs `until="ended"` and no delay. A persistent job needs `until="ended"`. Raises
    `InvalidArgument`.
    """

    key: str | None = None
    until: Until = "ended"
    on_conflict: OnConflict = "reject"

    def __post_init__(self) -> None:
        rule_of(self)


@dataclass(frozen=True, slots=True)
class Debounce:
    """Run only the last of many calls, after `seconds` without another call.

        reindex.using(unique=Debounce(5)).enqueue("products")

    Each call gives the waiting job its arguments and restarts the wait, for at most ten times `seconds` in all. Other
    options of the call are ignored, as with `on_conflict="replace"`. `key` None: calls with the same arguments.
    `seconds`: a number or a `timedelta`, 0.001 s to 365 days. It is itself a delay, so it cannot go with `delay`,
    `run_after` or `persistent`. Raises `InvalidArgument`.
    """

    seconds: Seconds
    key: str | None = None

    def __post_init__(self) -> None:
        rule_of(self)


@dataclass(frozen=True, slots=True)
class Throttle:
    """Run only the first of the calls within `seconds`, even if it fails.

        sync.using(unique=Throttle(60, key="sync")).enqueue()

    The other calls return a handle of the first job, with `created` False. `key` None: calls with the same arguments.
    `seconds`: a number or a `timedelta`, 0.001 s to 365 days. Cannot go with `persistent`. Raises `InvalidArgument`.
    """

    seconds: Seconds
    key: str | None = None

    def __post_init__(self) -> None:
        rule_of(self)


UniqueOption: TypeAlias = str | bool | Unique | Debounce | Throttle | None
"""The values of the option `unique`. A text is a key, True means the arguments; None and False mean: not unique."""

_CONFLICTS: Final = get_args(OnConflict)


def rule_of(value: object) -> UniqueRule | None:
    """Return the rule of an option; `keyed` completes a rule by arguments. Raises `InvalidArgument`."""
    match value:
        case None | False:
            return None
        case True:
            return OF_ARGUMENTS
        case str():
            return UniqueRule(_OWN + names.unique_key(value))
        case Unique():
            until, window_ms = _span(value.until)
            conflict = _conflict(value.on_conflict)
            if conflict is Conflict.RERUN and until is not Span.ENDED:
                raise invalid("until", '"ended" with on_conflict="rerun"', names.shown(value.until), _RERUN)
            return UniqueRule(_stored_key(value.key), until, conflict, window_ms=window_ms)
        case Debounce():
            wait_ms = _window_ms(value.seconds, "seconds of Debounce")
            return UniqueRule(_stored_key(value.key), Span.STARTED, Conflict.POSTPONE, wait_ms=wait_ms)
        case Throttle():
            window_ms = _window_ms(value.seconds, "seconds of Throttle")
            return UniqueRule(_stored_key(value.key), Span.WINDOW, Conflict.EXISTING, window_ms=window_ms)
        case _:
            kind = value.__name__ if isinstance(value, type) else type(value).__name__
            raise invalid("unique", "a key (text), True, Unique(...), Debounce(...), Throttle(...) or None", kind)


def keyed(rule: UniqueRule, task: str | None, arguments: Callable[[], bytes]) -> UniqueRule:
    """Return the rule with its key: the user's, or one from the arguments of this task (None: a raw payload)."""
    if rule.key != _BY_ARGUMENTS:
        return rule
    # A task's name is never empty and has no zero byte, so different pairs give different bytes.
    content = (task or "").encode() + b"\0" + arguments()
    return replace(rule, key=DIGEST + blake2b(content, digest_size=_DIGEST_BYTES).hexdigest())


def public_view(view: JobView) -> JobView:
    """Return a job with the unique key as its user wrote it, not as Redis stores it.

    A key by arguments is shown as "by arguments: " and their digest.
    """
    rule = view.shape.unique
    if rule is None:
        return view
    is_digest = rule.key.startswith(DIGEST)
    key = BY_ARGUMENTS + rule.key.removeprefix(DIGEST) if is_digest else rule.key.removeprefix(_OWN)
    return replace(view, shape=replace(view.shape, unique=replace(rule, key=key)))


def _stored_key(key: object) -> str:
    # The prefixes differ, so no user's key equals a digest.
    return _BY_ARGUMENTS if key is None else _OWN + names.unique_key(key, "key")


def _conflict(value: object) -> Conflict:
    if value not in _CONFLICTS:
        raise invalid("on_conflict", f"one of {', '.join(_CONFLICTS)}", names.shown(value))
    return Conflict(str(value))


def _span(until: object) -> tuple[Span, int]:
    """Return when the key is free again, and for a window its length."""
    if isinstance(until, str):
        if until in (Span.STARTED, Span.ENDED):
            return Span(until), 0
        raise invalid("until", f'"ended", "started", or seconds (up to {_MOST_S:,})', repr(until[:40]))
    return Span.WINDOW, _window_ms(until, "until")


def _window_ms(value: object, field: str) -> int:
    return names.duration_ms(value, field, most_ms=MAX_WINDOW_MS)
