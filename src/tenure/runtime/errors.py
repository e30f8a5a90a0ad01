"""An error as bounded text: its name, its message, and the tracebacks of it and its causes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from typing import Final

from tenure.core import limits
from tenure.core.job import ErrorInfo
from tenure.core.text import cut

MAX_TRACEBACK_BYTES: Final = 16 * 1024
"""Bytes of a traceback that are kept with a failed job."""

CHAIN_MAX = 5
"""Causes and members of groups that are described with the error itself."""
FRAMES_MAX = 30
_HERE = os.path.dirname(os.path.abspath(__file__))
_WORKERS = (_HERE + os.sep, os.path.join(os.path.dirname(_HERE), "integrations") + os.sep)
"""Folders of the code that calls handlers: its frames are left out."""


def describe(error: BaseException) -> ErrorInfo:
    """Return the error as bounded text. Never raises, even if the error's methods and attributes do."""
    name = _tried(_name, error, "Error")
    message = _tried(_message, error, f"<{name} cannot be printed>")
    return ErrorInfo(name, message, _tried(_traceback, error, ""))


def _tried(part: Callable[[BaseException], str], error: BaseException, otherwise: str) -> str:
    try:
        return part(error)
    except BaseException:
        return otherwise


def _name(error: BaseException) -> str:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ in ("builtins", "tenure.core.errors", "tenure.core.signals")
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return cut(name, limits.MAX_NAME)


def _message(error: BaseException) -> str:
    return cut(str(error), limits.MAX_ERROR_TEXT)


def _traceback(error: BaseException) -> str:
    own = error.__traceback__
    if own is not None:
        own = own.tb_next  # the first frame is the worker's, and more of them where there is middleware
    while own is not None and own.tb_frame.f_code.co_filename.startswith(_WORKERS):
        own = own.tb_next
    blocks = []
    for link, trace in [(error, own), *((other, other.__traceback__) for other in _related(error))]:
        frames = "".join(traceback.format_tb(trace, limit=-FRAMES_MAX))
        info = f"{_name(link)}: {_tried(_message, link, '<cannot be printed>')[:1000]}"
        blocks.append(f"{frames}{info}")
    if own is None and len(blocks) == 1:
        return ""
    return cut("\n\nwith or caused by:\n".join(blocks), MAX_TRACEBACK_BYTES)


def _related(error: BaseException) -> Iterator[BaseException]:
    """Members of a group, then causes, the nearest first; at most `CHAIN_MAX`, and each once."""
    seen, line = {id(error)}, [error]
    for link in line:
        members = list(link.exceptions[:CHAIN_MAX]) if isinstance(link, BaseExceptionGroup) else []
        cause = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        for other in [*members, *([cause] if cause is not None else [])]:
            if id(other) not in seen and len(seen) <= CHAIN_MAX:
                seen.add(id(other))
                line.append(other)
                yield other
