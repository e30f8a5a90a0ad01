"""How the Lua operations of an engine become scripts: a file an operation, with its libraries in place.

An operation or library is the engine's own file, or else one that engines share: <name>.lua and lib/<name>.lua in the
folder lua or in a subject's folder within it, first of the engine's package, then of the kits that it names, then of
this one. A line `--@include a b` is replaced by the libraries a and b, where they are not there yet; a library may
include those that it needs. `--@part a` in a block does the same for this block only, so that other calls do not create
its functions. `@NAME@` becomes what the engine gives by that name: a word, or a number of its config.py. Lines of
comments become empty: a pipeline sends the text of a script, and error messages name its lines. Data reaches a script
through KEYS and ARGV only, never through its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import ModuleType
from typing import Final

from tenure.core import engine, limits
from tenure.core.steps import Script
from tenure.engines.kit import config

_SHARED: Final = "tenure.engines.kit"
INCLUDE: Final = re.compile(r"^--@(include|part) (.*)\n", re.MULTILINE)
"""The lines of an operation or library that name libraries."""
_COMMENTS: Final = re.compile(r"^ *--.*$", re.MULTILINE)
"""Lines that are only a comment."""


def load(
    package: str, words: Mapping[str, str | int], names: Iterable[str] = (), kits: Sequence[str] = ()
) -> dict[str, Script]:
    """The operations of the engine in `package` as scripts, by their names; without `names`, all that it has. `kits`:
    packages with more operations and libraries that it shares with some engines.

    `words` are those that its Lua uses, by name: see `words_of`.

    Raises:
        LookupError: an operation uses a name that `words` lacks.
    """
    found: dict[str, Traversable] = {}
    for place in (_SHARED, *reversed(kits), package):
        found |= lua_files(files(place) / "lua")

    @cache  # most libraries are part of many operations
    def read(path: str) -> str:
        return found[path].read_text("utf-8")

    names = names or sorted(path.removesuffix(".lua") for path in found if "/" not in path)
    return {name: Script(name, _assemble(name, read, words)) for name in names}


def lua_files(folder: Traversable, within: str = "") -> dict[str, Traversable]:
    """Return the operations (`<name>.lua`) and libraries (`lib/<name>.lua`) of a folder, in all subjects."""
    found: dict[str, Traversable] = {}
    for one in folder.iterdir():
        if one.is_dir():
            found |= lua_files(one, "lib/" if one.name == "lib" else within)
        elif one.name.endswith(".lua"):
            found[f"{within}{one.name}"] = one
    return found


def words_of(*modules: ModuleType, calls: str, layout: int, moving: str = "moving") -> dict[str, str | int]:
    """Return the words of an engine's Lua: the numbers of its modules and of those that all engines share; `CALLS`, how
    its keys with remembered answers begin; `LAYOUT`, the version of its layout; and `MOVING`, its key of a move."""
    pairs = (pair for module in (limits, engine, config, *modules) for pair in vars(module).items())
    numbers = {name: value for name, value in pairs if name.isupper() and isinstance(value, int)}
    return {"CALLS": calls, "LAYOUT": layout, "MOVING": moving, **numbers}


def _assemble(name: str, read: Callable[[str], str], words: Mapping[str, str | int]) -> str:
    """The full text of an operation: its libraries in place, words and numbers filled in."""

    def expand(path: str, there: set[str]) -> str:
        def include(match: re.Match[str]) -> str:
            within = set(there) if match[1] == "part" else there
            found = ""
            for lib in match[2].split():
                if lib not in within:
                    within.add(lib)
                    found += expand(f"lib/{lib}.lua", within)
            return found

        return INCLUDE.sub(include, read(path))

    def fill(match: re.Match[str]) -> str:
        if match[1] not in words:
            raise LookupError(f"{name}.lua uses {match[0]}; the words of its engine have no such name.")
        return str(words[match[1]])

    return re.sub(r"@([A-Z_]+)@", fill, _COMMENTS.sub("", expand(f"{name}.lua", set())))
