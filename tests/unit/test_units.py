"""Units in the options of commands."""

from __future__ import annotations

import click
import pytest

from tenure.cli.units import Age, Duration, Memory


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Duration(), "90", 90.0),
        (Duration(), "1.5", 1.5),
        (Duration(), "500ms", 0.5),
        (Duration(), "15m", 900.0),
        (Duration(), "1h", 3_600.0),
        (Age(), "7d", 604_800.0),
        (Memory(4_096), "512", 512),
        (Memory(4_096), "512MB", 512),
        (Memory(4_096), "1GB", 1_024),
    ],
)
def test_a_number_with_a_unit(kind: click.ParamType, text: str, value: float) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Duration(), "1x", "Expected seconds, or a unit: 90s, 15m, 2h, 7d."),
        (Duration(), "-1", "is not a duration"),
        (Duration(), "inf", "is not a duration"),
        (Duration(0, 86_400), "2d", "is not in the range 0s to 86,400s"),
        (Age(), "90", "Expected a number and s, m, h or d"),
        (Memory(4_096), "5GB", "is not in the range 1MB to 4,096MB"),
        (Memory(4_096), "1TB", "Expected megabytes, or a unit, as in 512MB or 1GB."),
    ],
)
def test_what_is_no_number_with_a_unit(kind: click.ParamType, text: str, message: str) -> None:
    with pytest.raises(click.BadParameter) as error:
        kind.convert(text, None, None)
    assert message in error.value.message
