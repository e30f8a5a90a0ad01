"""How the Lua operations of an engine become scripts: a file an operation, with its libraries in place.

A line `--@include a b` is replaced by lua/lib/a.lua and b.lua of the engine, and `@NAME@` by the number of that name in
core/limits.py. Data reaches a script through KEYS and ARGV only, never through its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

from leasehold.core import limits
from leasehold.core.steps import Script


def assemble(package: str, name: str) -> str:
    """The full text of an operation of the engine in `package`: its libraries in place, its numbers filled in."""
    folder = files(package) / "lua"
    text = (folder / f"{name}.lua").read_text()

    def include(match: re.Match[str]) -> str:
        return "".join((folder / "lib" / f"{lib}.lua").read_text() for lib in match[1].split())

    text = re.sub(r"^--@include (.*)\n", include, text, flags=re.MULTILINE)
    return re.sub(r"@([A-Z_]+)@", lambda match: str(getattr(limits, match[1])), text)


def load(package: str, names: Iterable[str]) -> dict[str, Script]:
    """These operations as scripts, by their names."""
    return {name: Script(name, assemble(package, name)) for name in names}
