"""A wire protocol is one folder and one registry entry: code outside of them names no protocol.

NAMED lists the exceptions: what a new protocol may cost outside of its folder, its registry entry, its test entry and
the import contracts.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.protocols.registry import ENTRIES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tenure"
OWN = re.compile(r"(engines|compat)/(?!kit/)\w+/|protocols/(?!(__init__|registry|spec)\.py)\w+\.py")
"""The folder of an engine, its entry, and the drop-in interface of its original."""
FOLDERS = [entry.name.replace("-", "_") for entry in ENTRIES]
WORDS = re.compile(
    "|".join(rf"(?<![A-Za-z]){name}(?![a-z])|{name.title().replace('_', '')}(?![a-z])" for name in FOLDERS)
)
"""A protocol's module, its engine's or its value's class, and with `-` as `_` its name in a text."""

NAMED: dict[str, str] = {
    "__init__.py": "public names of the package are a literal list, for type checkers and editors",
    "protocols/registry.py": "the registry",
    "cli/table.py": "first lines of commands, which `--help` shows without loading anything",
    "cli/demo/jobs.py": "the demo has a protocol, whatever the environment says",
    "core/unsupported.py": "an error names the protocol that has every feature; core lies below the registry",
}
"""A file that may name a protocol, and the reason. The tests fail for one that no longer does."""


def names_in(path: Path) -> Iterator[str]:
    """Identifiers, imports and texts of a module, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text) if id(node) not in prose:
                yield text.replace("-", "_")
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom():
                yield from (node.module or "", *(alias.name for alias in node.names))
            case ast.Import():
                yield from (alias.name for alias in node.names)


def found_in(path: Path) -> set[str]:
    return {match[0] for name in names_in(path) for match in WORDS.finditer(name)}


def shared_modules() -> dict[str, Path]:
    paths = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return {name: path for name, path in paths.items() if not OWN.match(name)}


def test_only_listed_modules_name_a_protocol() -> None:
    found = {name: words for name, path in shared_modules().items() if (words := found_in(path))}
    assert not {name: words for name, words in found.items() if name not in NAMED}, "ask the registry entry instead"
    assert not set(NAMED) - set(found), "take it from the list"


def test_no_module_compares_the_name_of_an_engine() -> None:
    """Features and the facts of a registry entry state the difference."""
    found = [
        f"{name}:{node.lineno}"
        for name, path in shared_modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare) and "engine.name" in ast.unparse(node)
    ]
    assert not found


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_entry_has_a_folder_and_a_module(folder: str) -> None:
    assert (SOURCE / "engines" / folder / "__init__.py").exists()
    assert (SOURCE / "protocols" / f"{folder}.py").exists()


@pytest.mark.parametrize(
    "line",
    [
        "from tenure.engines.native import NativeEngine",
        "import tenure.engines.redis_work_queue",
        "is_ours = engine.name == 'native'",
        "raise UserError('for queues of redis-work-queue')",
        "engine = RedisWorkQueueEngine('jobs')",
    ],
)
def test_a_module_that_names_a_protocol_is_found(line: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(line)
    assert found_in(module)


def test_prose_and_longer_words_are_not_names(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""As the native engine does."""\nalternatives = "an alternative"\n')
    assert not found_in(module)
