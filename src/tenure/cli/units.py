"""Option values with units: durations (90s, 15m, 2h, 7d) and sizes of memory (512MB, 1GB)."""

from __future__ import annotations

from typing import Any, Final

import click

from tenure.core.text import SECONDS, number_with_unit

_MEGABYTES: Final = {"": 1.0, "m": 1.0, "mb": 1.0, "mib": 1.0, "g": 1_024.0, "gb": 1_024.0, "gib": 1_024.0}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only for type checkers
    """Seconds, or a number with a unit, as in 90s, 15m, 2h or 7d. Its value is in seconds, from `least` to `most`."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float | None = None) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = number_with_unit(str(value), SECONDS)
        if found is None:
            self.fail(f"{value!r} is not a duration. Expected seconds, or a unit: 90s, 15m, 2h, 7d.", param, ctx)
        if found < self._least or (self._most is not None and found > self._most):
            self.fail(f"{value!r} is not in the range {self._least:g}s to {self._most:,.0f}s.", param, ctx)
        return found


class Age(Duration):
    """A duration with a unit, as a bare number may be meant as days."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not str(value)[-1:].isalpha():
            self.fail(f"{value!r} is not an age. Expected a number and s, m, h or d, as in 15m or 7d.", param, ctx)
        return super().convert(value, param, ctx)


class Memory(click.ParamType):  # type: ignore[type-arg]  # generic only for type checkers
    """Megabytes, or a number with a unit, as in 512MB or 1GB. Its value is in whole megabytes, from 1 to `most`."""

    name = "memory"

    def __init__(self, most: int) -> None:
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = number_with_unit(str(value), _MEGABYTES)
        if found is None:
            self.fail(f"{value!r} is not a size. Expected megabytes, or a unit, as in 512MB or 1GB.", param, ctx)
        if not 1 <= found <= self._most:
            self.fail(f"{value!r} is not in the range 1MB to {self._most:,}MB.", param, ctx)
        return round(found)
