"""Every Lua operation states its contract."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import dropwhile, takewhile
from pathlib import Path
from types import ModuleType

from tenure.engines.kit.scripts import lua_files
from tests.support.each import for_each
from tests.support.engines import ENTRIES

SOURCE = Path(__file__).parents[2] / "src" / "tenure" / "engines"
DECLARATIONS: dict[str, ModuleType] = {
    name: entry.scripts for entry in ENTRIES if (SOURCE / (name := entry.name.replace("-", "_")) / "lua").is_dir()
}
"""Of the engines of the package that have Lua."""
SHARED = SOURCE / "kit" / "lua"
LIBRARIES = sorted(SOURCE.rglob("lib/*.lua"))
OPERATIONS = sorted(set(SOURCE.rglob("*.lua")) - set(LIBRARIES))
PARTS = ("KEYS[1]", "ARGV", "Returns:", "Invariant:")
MAX_FILE = 400
MAX_FUNCTION = 60
MAX_COLUMNS = 120


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def engines_of(path: Path) -> list[str]:
    """The engines that use an operation or a library: its own one, or all those that have no such file of their own."""
    own = path.relative_to(SOURCE).parts[0]
    if own in DECLARATIONS:
        return [own]
    within = f"lib/{path.name}" if path.parent.name == "lib" else path.name
    return [name for name in DECLARATIONS if files_of(name).get(within) == path]


@cache
def files_of(engine: str) -> dict[str, Traversable]:
    """The files that an engine uses: its own ones, else those of its kits, else the shared ones."""
    kits = getattr(DECLARATIONS[engine], "KITS", ())
    kit_folders = (SOURCE.joinpath(*kit.split(".")[2:], "lua") for kit in kits)
    found: dict[str, Traversable] = {}
    for folder in (SHARED, *kit_folders, SOURCE / engine / "lua"):
        found |= lua_files(folder)
    return found


def users_of(path: Path) -> list[str]:
    """The engines that have the operation in this file."""
    return [name for name in engines_of(path) if path.stem in DECLARATIONS[name].SCRIPTS]


def header(path: Path) -> list[str]:
    """The comment lines a file begins with, without their dashes."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("-- "):
            break
        lines.append(line[3:].strip())
    return lines


def arguments(path: Path) -> str:
    lines = dropwhile(lambda line: not line.startswith("ARGV"), header(path))
    first = next(lines).removeprefix("ARGV")
    return " ".join([first, *takewhile(lambda line: ":" not in line and not line.startswith("ARGV"), lines)]).strip()


def functions_of(text: str) -> Iterator[tuple[int, int]]:
    """The functions of a Lua file, nested ones and those without a name included: first line and number of lines."""
    text = re.sub(r"--.*|'(?:[^'\\\n]|\\.)*'", "''", text)
    blocks: list[tuple[str, int]] = []
    for match in re.finditer(r"\b(function|if|do|repeat|end|until)\b", text):
        line = text.count("\n", 0, match.start()) + 1
        if match[1] not in ("end", "until"):
            blocks.append((match[1], line))
            continue
        word, first = blocks.pop()
        if word == "function":
            yield first, line - first + 1
    assert not blocks, "a block has no end"


@for_each(OPERATIONS + LIBRARIES)
def test_files_and_functions_are_small(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_FILE
    assert max(map(len, text.splitlines())) <= MAX_COLUMNS
    long = [f"line {first}: {lines} lines" for first, lines in functions_of(text) if lines > MAX_FUNCTION]
    assert not long, f"over {MAX_FUNCTION} lines a function: cut it into functions of one purpose"


def test_the_lengths_of_functions_are_counted():
    text = "local a = function()\n  if x then -- end\n    y('end')\n  end\nend\nlocal function b() repeat until c end\n"
    assert list(functions_of(text)) == [(1, 5), (6, 1)]


def test_every_engine_with_lua_is_checked_here():
    kits = {SHARED.parent, SHARED.parent / "exports", SHARED.parent / "lists"}
    within = {folder.parent for path in OPERATIONS for folder in path.parents if folder.name == "lua"}
    assert within == {*kits, *(SOURCE / name for name in DECLARATIONS)}


@for_each(OPERATIONS)
def test_an_operation_is_used(path):
    assert users_of(path), "no engine has it: delete it"


@for_each(OPERATIONS)
def test_the_header_states_the_contract(path):
    lines = header(path)
    assert re.match(rf"{path.stem}: .+", lines[0]), f"line 1: `-- {path.stem}: one sentence`"
    order = [part for line in lines[1:] for part in PARTS if line.startswith(part)]
    assert order == list(PARTS)
    assert all(
        line.removeprefix(part).strip() for line in lines for part in PARTS if part != "ARGV" and line.startswith(part)
    )


@for_each(OPERATIONS)
def test_no_position_is_read_that_was_not_declared(path):
    declared = arguments(path)
    positions = [int(n) for n in re.findall(r"\bARGV\[(\d+)\]", path.read_text(encoding="utf-8"))]
    fixed = len(re.sub(r"(\([^)]*\)|\S+)\.\.\.", "", declared).split())
    assert max(positions, default=0) <= fixed, f"ARGV has {fixed} fixed positions: {declared}"


@for_each(OPERATIONS)
def test_the_assembled_script_has_no_gaps(path):
    for engine in users_of(path):
        text = DECLARATIONS[engine].SCRIPTS[path.stem].text
        assert "--@" not in text
        assert not re.search(r"@[A-Z_]+@", text)


@cache
def libraries_of(engine: str) -> tuple[set[str], set[str]]:
    """The names of all functions and modules that scripts of this engine make."""
    texts = [script.text for script in DECLARATIONS[engine].SCRIPTS.values()]
    functions = {name for text in texts for name in re.findall(r"^local function (\w+)", text, re.MULTILINE)}
    modules = {name for text in texts for name in re.findall(r"^local (\w+) = setmetatable", text, re.MULTILINE)}
    return functions, modules


@for_each(OPERATIONS)
def test_every_library_stands_behind_those_that_it_needs(path):
    for engine in users_of(path):
        functions, modules = libraries_of(engine)
        text = re.sub(r"--.*|'[^']*'", "", DECLARATIONS[engine].SCRIPTS[path.stem].text)
        bound = {name for names in re.findall(r"function[ \w]*\(([^)]*)\)", text) for name in names.split(", ")}
        for name in (name for name in functions - bound if f"{name}(" in text):
            made, used = re.search(rf"local function {name}\b", text), re.search(rf"(?<![.\w]){name}\(", text)
            assert not used or (made and made.start() < used.start()), f"{engine}: {name} is used before it is there"
        for name in (name for name in modules if f"{name}." in text):
            made, used = (
                re.search(rf"^local {name} =", text, re.MULTILINE),
                re.search(rf"(?<![.\w]){name}\.\w+\(", text),
            )
            assert not used or (made and made.start() < used.start()), f"{engine}: {name} is used before it is there"


@for_each(LIBRARIES)
def test_a_library_says_what_it_is_for_and_is_used(path):
    assert re.match(rf"lib {path.stem}: .+", header(path)[0])
    users = [file for file in OPERATIONS + LIBRARIES if {*engines_of(file)} & {*engines_of(path)}]
    includes = [
        line for file in users for line in re.findall(r"^--@(?:include|part) (.*)", file.read_text(), re.MULTILINE)
    ]
    assert any(path.stem in line.split() for line in includes), "nothing includes it: delete it"


@for_each(OPERATIONS + LIBRARIES)
def test_only_keys_of_the_prefix_and_bounded_loops(path):
    text = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
    # One library reads KEYS[2]: where keys of limits begin on a cluster.
    used = {*re.findall(r"\bKEYS\[(.*?)\]", text)} - ({"2"} if name_of(path) == "native/lua/lib/lazy.lua" else set())
    assert used <= {"1"}, "all keys are the prefix KEYS[1] and a suffix: one slot a queue"
    assert not re.search(r"'(KEYS|FLUSHDB|FLUSHALL|CONFIG)'", text), (
        "a command that looks at, or changes, more than the queue"
    )
    assert not re.search(r"\bos\.|\bmath\.random|\bloadstring\b", text), (
        "time is Redis' TIME; chance and code come from nowhere"
    )
    assert not re.search(r"\bwhile true\b", text), "a loop has a limit that is named"


def test_lua_files_are_found_as_package_data():
    folders = [
        resources.files("tenure.engines") / name / "lua" for name in ("kit", "kit/exports", "kit/lists", *DECLARATIONS)
    ]
    found = {name for folder in folders for name in lua_files(folder)}
    assert found >= {f"{name}.lua" for module in DECLARATIONS.values() for name in module.SCRIPTS}


def test_jobs_of_the_native_engine_end_in_three_places() -> None:
    """All ends pass through `ends`, and completions through `settle` and its full script: what is to happen at an end
    has its place there. `export` and `move` take jobs elsewhere, `rows` and `advance` write ends that jobs have."""
    ending = re.compile(r"call\('HDEL', (?:key\('jobs'\)|jobs\b)|call\('HSET', key\('ended'\)")
    native = SOURCE / "native" / "lua"
    found = {path.stem for path in native.rglob("*.lua") if ending.search(path.read_text(encoding="utf-8"))}
    assert found == {"ends", "settle", "settle_full"} | {"export", "move"} | {"rows", "advance"}
