"""Hints in errors: the most similar known name, and what the names of other work queues are called here."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Final, NoReturn

_CURRENT_JOB: Final = "Call tenure.current_job() in the task"
OPTIONS: Final[Mapping[str, str]] = {
    "acks_late": "Leave it out: a job is acknowledged when it has ended",
    "at_front": "Use priority",
    "autoretry_for": "Use retry_on",
    "bind": _CURRENT_JOB,
    "countdown": "Use delay",
    "cron": "Use schedule=Cron(...)",
    "crontab": "Use schedule=Cron(...)",
    "default_retry_delay": "Use backoff",
    "delay": "Use using(delay=...), at the enqueue",
    "eta": "Use run_after",
    "every": "Use schedule=Every(...)",
    "ignore_result": "Use result_ttl=0",
    "job_id": "Use id",
    "job_timeout": "Use timeout",
    "keep_result": "Use result_ttl",
    "max_retries": "Use retries",
    "max_tries": "Use retries: attempts after the first",
    "meta": "Use headers",
    "queue_name": "Use queue",
    "rate_limit": "Use limits",
    "result_expires": "Use result_ttl",
    "retry": "Use retries, or retry_on for the errors",
    "retry_backoff": "Use backoff",
    "retry_delay": "Use backoff",
    "scheduled": "Use run_after",
    "soft_time_limit": "Use timeout",
    "task_id": "Use id",
    "throws": "Use fail_on",
    "time_limit": "Use timeout",
    "timezone": "Use tz",
    "_defer_by": "Use delay",
    "_defer_until": "Use run_after",
    "_job_id": "Use id",
    "_queue_name": "Use queue",
}
"""What options of other work queues are here."""

CONTEXTS: Final = frozenset({"self", "ctx", "context"})
"""Parameters through which other work queues pass the job."""

_ENQUEUE: Final = "Use enqueue(...)"
_USING: Final = "Use using(delay=...).enqueue(...)"
TASK_METHODS: Final[Mapping[str, str]] = {
    "delay": _ENQUEUE,
    "apply_async": "Use enqueue(...), with options using(...).enqueue(...)",
    "send": _ENQUEUE,
    "send_with_options": "Use using(...).enqueue(...)",
    "kiq": _ENQUEUE,
    "enqueue_in": _USING,
    "enqueue_at": "Use using(run_after=...).enqueue(...)",
    "schedule": _USING,
    "map": "Use enqueue_many([call(...), ...])",
    "retry": "Raise tenure.Retry(...) in the task",
    "s": "Use call(...)",
    "si": "Use call(...)",
    "signature": "Use call(...)",
}
APP_METHODS: Final[Mapping[str, str]] = {
    "enqueue": "Enqueue a task with its own enqueue(...), raw bytes with queue(...).enqueue(...)",
    "enqueue_job": "Use the task's enqueue(...)",
    "send_task": "Use the task's enqueue(...)",
    "add_periodic_task": "Use schedules.add(...), or @app.task(schedule=...)",
    "start": "Run `tenure worker MODULE:APP`, or use run_worker()",
    "worker_main": "Run `tenure worker MODULE:APP`, or use run_worker()",
}
JOB_METHODS: Final[Mapping[str, str]] = {
    "get": "Use result(timeout=...)",
    "get_result": "Use result(timeout=...)",
    "successful": "Use state()",
    "failed": "Use state()",
    "wait": "Use result(timeout=...)",
    "return_value": "Use result(timeout=0)",
    "status": "Use state()",
    "get_status": "Use state()",
    "ready": "Use state()",
    "info": "Use refresh()",
    "revoke": "Use cancel()",
    "abort": "Use cancel()",
}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence with the known word that is most similar, after a space; empty if no word is similar.

    >>> did_you_mean("tmeout", ["timeout", "delay"])
    " Did you mean 'timeout'?"
    """
    near = difflib.get_close_matches(word, known, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def option_hint(word: str, known: Iterable[str]) -> str:
    """Return what to write in place of an unknown option, as a sentence after a space; empty if nothing is similar.

    >>> option_hint("countdown", ["delay"])
    ' Use delay.'
    """
    return f" {OPTIONS[word]}." if word in OPTIONS else did_you_mean(word, known)


def hint_at_keywords(kind: type[Any]) -> None:
    """Let the errors of a constructor name the keyword that is most similar to an unknown one, as Python does from 3.13
    on, and the keywords for a value that it takes by name only."""
    init = kind.__init__

    @wraps(init)
    def hinting(self: object, *args: Any, **named: Any) -> None:
        try:
            init(self, *args, **named)
        except TypeError as error:
            parameters = list(signature(init).parameters.values())[1:]
            known = [one.name for one in parameters]
            by_name = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
            if by_name and len(args) > len(parameters) - len(by_name):
                raise TypeError(f"{kind.__name__}(...) takes values by name: {', '.join(by_name)}.") from None
            hint = next((option_hint(name, known) for name in named if name not in known), "")
            if not hint or "Did you mean" in str(error):
                raise
            raise TypeError(f"{error}.{hint}") from None

    kind.__init__ = hinting


def in_a_test() -> str:
    """Return advice for a test without the fixture, after a space; empty outside of pytest."""
    is_test = "PYTEST_CURRENT_TEST" in os.environ
    return " In a test, use the fixture: tenure_app(app)." if is_test else ""


def pointing(instead: Mapping[str, str]) -> Callable[[Any, str], NoReturn]:
    """Return a `__getattr__` that raises for a method of another work queue, and names the method here."""

    def missing(self: object, name: str) -> NoReturn:
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        advice = f". {instead[name]}." if name in instead else ""
        raise AttributeError(text + advice, name=name, obj=self)

    return missing


def a(noun: str) -> str:
    """Return the noun with its article.

    >>> a("Order"), a("dict")
    ('an Order', 'a dict')
    """
    return f"{'an' if noun[:1] in 'AEIOaeio' else 'a'} {noun}"
