"""Each Lua library of the native engine lists the names that it shares with the script around it.

A library is text that is put into a script, so its names and those of the script are the same. Names of `lib keys` are
in every script and not listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tenure.engines.kit.scripts import lua_files
from tests.architecture.test_lua import OPERATIONS, SHARED, SOURCE, header
from tests.support.each import for_each

NATIVE: Final = SOURCE / "native" / "lua"
LIBRARIES: Final = sorted(NATIVE.rglob("lib/*.lua"))
FILES: Final = lua_files(SHARED) | lua_files(NATIVE)
BASE: Final = {"call", "key", "prefix"}
WORDS: Final = set(
    re.findall(
        r"\w+",
        """and break do else elseif end false for function if in local nil not or repeat return then true until while
        bit cjson cmsgpack error ipairs math next pairs pcall redis select setmetatable string table tonumber tostring
        type unpack""",
    )
)
READ: Final = re.compile(
    r"'(EXISTS|GET|HM?GET|HGETALL|HEXISTS|HLEN|HSTRLEN|HSCAN|LLEN|LRANGE|LINDEX|SCARD|SMEMBERS|TIME"
    r"|ZCARD|ZCOUNT|ZM?SCORE|Z(REV)?RANGE|ZRANGEBYSCORE)'"
)
WRITE: Final = re.compile(
    r"'(DEL|SET|HDEL|HINCRBY|HSET|HSETNX|[LR]PUSH|[LR]POP|LINSERT|LREM|LTRIM|PEXPIRE|PUBLISH|SADD|SREM"
    r"|ZADD|ZINCRBY|ZREM|ZREMRANGEBYSCORE)'"
)


class Names(NamedTuple):
    """The names of a file. `own`: those that it makes at its outermost level; `made`: and those of its libraries there.
    `outer`: those that it uses and that are not its own; `needed`: of these, those that no library of it makes;
    `assigned`: those that it assigns to."""

    own: frozenset[str]
    made: frozenset[str]
    outer: frozenset[str]
    needed: frozenset[str]
    assigned: frozenset[str]


def file_of(name: str) -> Path:
    found = FILES[f"lib/{name}.lua"]
    assert isinstance(found, Path)
    return found


def tokens_of(text: str) -> Iterator[str]:
    """The tokens of a file without its comments, and `@name` for a library that is included."""
    for line in text.splitlines():
        if match := re.match(r"--@(?:include|part) (.*)", line):
            yield from (f"@{name}" for name in match[1].split())
        else:
            line = re.sub(r"'(?:[^'\\]|\\.)*'|@[A-Z_]+@", "0", re.sub(r"(?:^| )--.*", "", line))
            yield from re.findall(r"[a-zA-Z_]\w*|\d[\w.]*|\.\.+|[=~<>]=|\S", line)


@cache
def names_of(path: Path) -> Names:
    """Read the names of a file, block by block."""
    tokens = list(tokens_of(path.read_text(encoding="utf-8")))
    scopes: list[dict[str, bool]] = [{}]  # whether a name is the file's own, or a library's
    opened: list[str] = []
    outer: set[str] = set()
    needed: set[str] = set()
    assigned: set[str] = set()

    def kind(name: str) -> bool | None:
        return next((scope[name] for scope in reversed(scopes) if name in scope), None)

    def names_from(at: int) -> list[str]:
        """The names in a list of names."""
        found = [tokens[at]]
        while tokens[at + 1] == ",":
            at += 2
            found.append(tokens[at])
        return found

    at = 0
    while at < len(tokens):
        word, before = tokens[at], tokens[at - 1] if at else ""
        if word.startswith("@"):
            scopes[-1].update(dict.fromkeys(names_of(file_of(word[1:])).made, False))
        elif word in "([{":
            opened.append(word)
        elif word in ")]}":
            opened.pop()
        elif word == "local":
            if tokens[at + 1] != "function":
                scopes[-1].update(dict.fromkeys(names_from(at + 1), True))
        elif word in ("function", "for"):
            first = tokens.index("(", at) + 1 if word == "function" else at + 1
            if word == "function" and before == "local":
                scopes[-1][tokens[at + 1]] = True
            scopes.append(dict.fromkeys(names_from(first), True))
            opened.append(word)
            at = tokens.index(")", at) if word == "function" else first - 1
        elif word in ("if", "repeat", "while") or (word == "do" and opened[-1:] not in (["for"], ["while"])):
            scopes.append({})
            opened.append(word)
        elif word == "do":
            opened[-1] = "loop"
        elif word in ("else", "elseif"):
            scopes[-1] = {}
        elif word in ("end", "until"):
            scope = scopes.pop()
            if word == "until":  # its condition belongs to the block
                scopes[-1].update(scope)
            opened.pop()
        elif re.match(r"[a-zA-Z_]", word) and word not in WORDS and before not in (".", ":"):
            is_field = opened[-1:] == ["{"] and tokens[at + 1] == "="
            if not is_field and not kind(word):
                outer.add(word)
                if kind(word) is None:
                    needed.add(word)
                names = names_from(at)
                if tokens[at + 2 * len(names) - 1] == "=" and opened[-1:] not in (["{"], ["("], ["["]):
                    assigned.update(names)
        at += 1
    assert not opened, "a block has no end"
    own = (name for name, is_own in scopes[0].items() if is_own)
    return Names(*map(frozenset, (own, scopes[0], outer, needed, assigned & outer)))


def files_of(path: Path) -> set[Path]:
    """A file and the libraries that stand in it."""
    names = [token[1:] for token in tokens_of(path.read_text(encoding="utf-8")) if token.startswith("@")]
    return {path}.union(*(files_of(file_of(name)) for name in names))


@cache
def scripts() -> list[set[Path]]:
    return [files_of(path) for path in OPERATIONS if path.parent in (NATIVE, SHARED)]


def listed(path: Path) -> dict[str, set[str]]:
    """The lists in the header of a library: names, and whether its own commands read or write."""
    lists = re.findall(r"\b(Needs|Sets|Defines|Redis): ([^.:]*)\.", " ".join(header(path)))
    return {title: set(re.findall(r"\w+", names)) for title, names in lists}


@for_each(LIBRARIES)
def test_a_library_lists_the_names_that_it_shares(path):
    lists, names = listed(path), names_of(path)
    assert lists.get("Needs", set()) == names.needed - names.assigned - BASE
    assert lists.get("Sets", set()) == names.assigned
    others = {
        name for script in scripts() if path in script for file in script - {path} for name in names_of(file).outer
    }
    assert names.own & others <= lists.get("Defines", set()) <= names.own


@for_each(LIBRARIES)
def test_a_library_says_whether_it_reads_or_writes(path):
    text = path.read_text(encoding="utf-8")
    does = {word for word, commands in (("reads", READ), ("writes", WRITE)) if commands.search(text)}
    assert listed(path).get("Redis", set()) - {"and"} == does
