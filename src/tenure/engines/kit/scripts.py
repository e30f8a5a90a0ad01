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
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from tenure.core import engine, limits
from tenure.core.steps import Script
from tenure.engines.kit import config

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SHARED: Final = "tenure.engines.kit"
INCLUDE: Final = re.compile(r"^--@(include|part) (.*)\n", re.MULTILINE)
"""The lines of an operation or library that name libraries."""
_COMMENTS: Final = re.compile(r"^ *--(?!@(?:include|part) ).*$", re.MULTILINE)
"""Lines that are only a comment."""


class Scripts(MutableMapping[str, Script]):
    """Scripts by their names. Each is put together at its first use: a process uses few of them."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Script]) -> None:
        self._make = make
        self._made: dict[str, Script | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Script:
        made = self._made[name]
        if made is None:
            made = self._made[name] = self._make(name)
        return made

    def __setitem__(self, name: str, script: Script) -> None:
        self._made[name] = script

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def load(
    package: str, words: Mapping[str, str | int], names: Iterable[str] = (), kits: Sequence[str] = ()
) -> MutableMapping[str, Script]:
    """The operations of the engine in `package` as scripts, by their names; without `names`, all that it has. `kits`:
    packages with more operations and libraries that it shares with some engines.

    `words` are those that its Lua uses, by name: see `words_of`. The first use of a script raises `LookupError` if its
    Lua has another one.
    """
    found: dict[str, Traversable] = {}
    for place in (_SHARED, *reversed(kits), package):
        spec = find_spec(place)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            found |= lua_files(Path(folder, "lua"))

    @cache  # most libraries are part of many operations
    def read(path: str) -> str:
        return _filled(path, _COMMENTS.sub("", found[path].read_text("utf-8")), words)

    names = names or sorted(path.removesuffix(".lua") for path in found if "/" not in path)
    return Scripts(names, partial(_assemble, read))


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


def _assemble(read: Callable[[str], str], name: str) -> Script:
    """The full text of an operation: its libraries in place."""

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

    return Script(name, expand(f"{name}.lua", set()))


def _filled(path: str, text: str, words: Mapping[str, str | int]) -> str:
    """A file with its words and numbers in place."""

    def fill(match: re.Match[str]) -> str:
        if match[1] not in words:
            raise LookupError(f"{path} uses {match[0]}; the words of its engine have no such name.")
        return str(words[match[1]])

    return re.sub(r"@([A-Z_]+)@", fill, text)
