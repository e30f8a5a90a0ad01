"""Where running handlers are: their frames as text, with source lines and without local variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from traceback import StackSummary
from types import CodeType, FrameType
from typing import Any, Final

from tenure.core.text import cut

FRAMES_MAX: Final = 30
"""Frames of a handler that are shown, the innermost ones."""
STACK_BYTES_MAX: Final = 4 * 1024
"""Bytes of the text about one handler."""
_AWAITS_MAX: Final = 1_000
"""Coroutines that await each other: a handler may nest them without end."""
_PARTS: Final = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
"""What a coroutine, a generator and an async generator call their frame and what they wait for."""
_HERE: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CALLER: Final = os.path.join(_HERE, "invoke.py")
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(_HERE))) + os.sep


def suspended_frames(coroutine: Any) -> list[FrameType]:
    """Return the frames of a suspended coroutine and of the coroutines that it awaits, the outermost first.

    They end at a future, and at an async generator, which hides what it awaits.
    """
    frames: list[FrameType] = []
    while coroutine is not None and len(frames) < _AWAITS_MAX:
        frame, awaited = next(((one, other) for one, other in _PARTS if hasattr(coroutine, one)), ("", ""))
        if (found := getattr(coroutine, frame, None)) is None:
            break
        frames.append(found)
        coroutine = getattr(coroutine, awaited)
    return frames


def thread_frames(thread: int | None) -> list[FrameType]:
    """Return the frames of a running thread, the outermost first."""
    return list(_up(sys._current_frames().get(thread or 0)))[::-1]


def frames_below(code: CodeType, argument: str) -> Iterator[tuple[Any, list[FrameType]]]:
    """Yield, for each thread that runs this function, one of its arguments and the frames below it.

    So a thread needs no note of what it runs, which would cost each job time.
    """
    for top in sys._current_frames().values():
        inner: list[FrameType] = []
        for frame in _up(top):
            if frame.f_code is code:
                yield frame.f_locals[argument], inner[::-1]
                break
            inner.append(frame)


def with_threads(frames: Sequence[FrameType], calls: Sequence[tuple[Any, list[FrameType]]]) -> list[FrameType]:
    """Return the frames of a coroutine, and where it awaits the call of a thread, the frames of that thread.

    `calls`: the futures of such calls, and the frames of their threads. A layer holds such a future as `answer`.
    """
    for index, frame in enumerate(frames):
        if frame.f_code.co_filename.startswith(_HERE):
            awaited = frame.f_locals.get("answer")
            if (inner := next((found for answer, found in calls if answer is awaited), None)) is not None:
                return [*frames[:index], *inner]
    return list(frames)


def _up(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def stack_text(frames: Sequence[FrameType]) -> str:
    """Return the innermost frames of a handler as text, without the frames of the worker. Never raises."""
    try:
        return _text(frames)
    except Exception as error:  # the loader of a user's module has the source, and memory may be limited
        return f"(no stack: {type(error).__name__})"


def _text(frames: Sequence[FrameType]) -> str:
    called = next((n for n, frame in enumerate(frames) if frame.f_code.co_filename == _CALLER), -1)
    own = (frame for frame in frames[called + 1 :] if not frame.f_code.co_filename.startswith(_HERE))
    # What the app puts around its functions comes first. The handler itself may be inside Tenure, as when it enqueues.
    shown = list(dropwhile(lambda frame: frame.f_code.co_filename.startswith(_OURS), own))[-FRAMES_MAX:]
    lines = StackSummary.extract((frame, frame.f_lineno) for frame in shown).format()
    while len(lines) > 1 and sum(map(len, lines)) > STACK_BYTES_MAX:
        del lines[0]
    return cut("".join(lines).rstrip("\n"), STACK_BYTES_MAX)
