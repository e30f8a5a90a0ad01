"""What a job may be the only one of: the values of the option `unique`, and the key that stands for a call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from leasehold.core import limits, names
from leasehold.core.errors import InvalidArgument
from leasehold.core.shape import Conflict, UniqueRule
from leasehold.core.shape import Until as Span

if TYPE_CHECKING:
    from leasehold.core.job import JobView

MAX_WINDOW_MS: Final = 365 * limits.DAY
"""The longest window of a unique job."""

Seconds: TypeAlias = float | timedelta
Until: TypeAlias = Literal["ended", "started"] | Seconds
OnConflict: TypeAlias = Literal["reject", "existing", "replace", "rerun"]

_BY_ARGUMENTS: Final = ""
"""The key of a rule that has none yet: it is made of the job's task and arguments. No real key is empty."""
_OWN: Final = "k:"
_DIGEST: Final = "a:"
_DIGEST_BYTES: Final = 16
BY_ARGUMENTS: Final = "by arguments: "
"""How the key of a view begins that was made of the task and the arguments."""
_MOST_S: Final = MAX_WINDOW_MS // limits.SECOND


@dataclass(frozen=True, slots=True)
class Unique:
    """That a job is the only one of its key on its queue: of an own key, or (None) of its task and arguments.

        thumbnail.using(unique=Unique(until="started", on_conflict="existing")).enqueue("cat.png")
        report.using(unique=Unique("report:7", on_conflict="rerun")).enqueue(7)

    `until`: "ended" (also across retries; the default), "started" (its first claim), or for how long from its enqueue,
    in seconds or as a `timedelta` (0.001 s to 365 days). `on_conflict`: what happens when another job has the key.
    "reject" raises `NotUnique`; the others give a handle of the other job, with `created` False. "existing" does
    nothing else. "replace" gives the other, while it waits, what the new call would run (task, arguments, `timeout`,
    `retries`) and nothing else: it keeps its id, its place, lane, priority, due time and key, whatever `lane`,
    `lane_limit`, `priority`, `delay`, `run_after`, `id` or `persistent` the new call asks for; while the other runs it
    rejects. "rerun" runs the call once more after the other, if that one runs already; it needs `until="ended"`, and no
    delay. A persistent job can have no key that ends before it, so only `until="ended"`. Raises `InvalidArgument`.
    """

    key: str | None = None
    until: Until = "ended"
    on_conflict: OnConflict = "reject"

    def __post_init__(self) -> None:
        _check_key(self.key)
        _span(self.until)
        if _conflict(self.on_conflict) is Conflict.RERUN and _span(self.until)[0] is not Span.ENDED:
            raise InvalidArgument(
                'on_conflict="rerun" runs the call again after the one that runs, so that one must keep the key until '
                'it has ended; expected until="ended" with it.'
            )


@dataclass(frozen=True, slots=True)
class Debounce:
    """That of many calls only the last one runs, once `seconds` have passed without another.

        reindex.using(unique=Debounce(5)).enqueue("products")

    Each call gives the waiting job its arguments and lets it wait anew, for ten times `seconds` in all at the most; of
    its options as little counts as with `on_conflict="replace"`.
    `key` None: calls with the same arguments. `seconds`: a number or a `timedelta`, 0.001 s to 365 days. It is a delay
    of its own, so it goes with no other, and not with `persistent`. Raises `InvalidArgument`.
    """

    seconds: Seconds
    key: str | None = None

    def __post_init__(self) -> None:
        _check_key(self.key)
        _window_ms(self.seconds, "seconds of Debounce")


@dataclass(frozen=True, slots=True)
class Throttle:
    """That of the calls within `seconds` only the first one runs, whatever becomes of it.

        sync.using(unique=Throttle(60, key="sync")).enqueue()

    The others give a handle of the first, with `created` False. `key` None: calls with the same arguments. `seconds`: a
    number or a `timedelta`, 0.001 s to 365 days. It does not go with `persistent`. Raises `InvalidArgument`.
    """

    seconds: Seconds
    key: str | None = None

    def __post_init__(self) -> None:
        _check_key(self.key)
        _window_ms(self.seconds, "seconds of Throttle")


UniqueOption: TypeAlias = str | bool | Unique | Debounce | Throttle | None
"""What the option `unique` may be. A text is an own key, True the arguments; None and False: it need not be unique."""

_CONFLICTS = (Conflict.REJECT, Conflict.EXISTING, Conflict.REPLACE, Conflict.RERUN)


def rule_of(value: object) -> UniqueRule | None:
    """The rule that the option asks for; see `keyed` for one by the arguments. Raises `InvalidArgument`."""
    match value:
        case None | False:
            return None
        case True:
            return UniqueRule(_BY_ARGUMENTS)
        case str():
            return UniqueRule(_own_key(value))
        case Unique():
            until, window_ms = _span(value.until)
            return UniqueRule(_own_key(value.key), until, _conflict(value.on_conflict), window_ms=window_ms)
        case Debounce():
            wait_ms = _window_ms(value.seconds, "seconds")
            return UniqueRule(_own_key(value.key), Span.STARTED, Conflict.POSTPONE, wait_ms=wait_ms)
        case Throttle():
            window_ms = _window_ms(value.seconds, "seconds")
            return UniqueRule(_own_key(value.key), Span.WINDOW, Conflict.EXISTING, window_ms=window_ms)
        case _:
            kind = value.__name__ if isinstance(value, type) else type(value).__name__
            raise InvalidArgument(
                f"unique is a {kind}; expected a key (text), True (by the arguments), Unique(...), Debounce(...), "
                "Throttle(...), or None."
            )


def by_arguments(rule: UniqueRule) -> bool:
    """Whether the rule needs the arguments of the job to have a key."""
    return rule.key == _BY_ARGUMENTS


def keyed(rule: UniqueRule, task: str | None, arguments: bytes) -> UniqueRule:
    """The rule with the key that stands for these arguments of this task (None: a raw payload)."""
    # No task's name is empty or has a zero byte, so that no two different pairs give the same bytes.
    content = (task or "").encode() + b"\0" + arguments
    return replace(rule, key=_DIGEST + blake2b(content, digest_size=_DIGEST_BYTES).hexdigest())


def public_view(view: JobView) -> JobView:
    """A job as its user knows it: with the unique key that was asked for, not the one that lies in Redis.

    A key by the arguments is shown as "by arguments: " and a digest of them.
    """
    rule = view.shape.unique
    if rule is None:
        return view
    return replace(view, shape=replace(view.shape, unique=replace(rule, key=_key_as_asked(rule.key))))


def _key_as_asked(stored: str) -> str:
    if stored.startswith(_DIGEST):
        return BY_ARGUMENTS + stored.removeprefix(_DIGEST)
    return stored.removeprefix(_OWN)


def _check_key(key: object) -> None:
    if key is not None:
        names.unique_key(key, "key")


def _own_key(key: str | None) -> str:
    # The two kinds begin differently: no own key can be taken for a digest.
    return _BY_ARGUMENTS if key is None else _OWN + names.unique_key(key)


def _conflict(value: object) -> Conflict:
    if not isinstance(value, str) or value not in _CONFLICTS:
        expected = ", ".join(_CONFLICTS)
        raise InvalidArgument(f"on_conflict is {names.shown(value)}; expected one of {expected}.")
    return Conflict(value)


def _span(until: object) -> tuple[Span, int]:
    """Until when, and for a time its length."""
    if isinstance(until, str):
        if until in (Span.STARTED, Span.ENDED):
            return Span(until), 0
        raise InvalidArgument(f'until is {until[:40]!r}; expected "ended", "started", or seconds (up to {_MOST_S:,}).')
    return Span.WINDOW, _window_ms(until, "until")


def _window_ms(value: object, field: str) -> int:
    return names.duration_ms(value, field, most_ms=MAX_WINDOW_MS)
