"""One test for many files: a case for each file would cost more than its check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path


def for_each(paths: Sequence[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Turn a check of one path into a test of all of them, which names every path that fails."""

    def decorate(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            assert paths
            failed = []
            for path in paths:
                try:
                    check(path)
                except AssertionError as error:
                    error.add_note(str(path))
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(paths)} files", failed)

        test.__doc__ = check.__doc__
        return test

    return decorate
