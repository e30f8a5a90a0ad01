"""Choices on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    Choice = click.Choice[str]
else:
    Choice = click.Choice  # which older versions of click do not let us subscribe


class OneOf(Choice):
    """A choice that is told in one line when nothing was chosen: click's list has tabs, which we do not let through."""

    def get_missing_message(self, param: click.Parameter, ctx: Any = None) -> str:
        return f"Expected one of {', '.join(map(repr, self.choices))}."
