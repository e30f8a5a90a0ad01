"""The style, where a machine can tell: small files and functions, a purpose said first, only the CLI prints."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.each import for_each

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "src").rglob("*.py"))
MAX_FILE = 400
MAX_FUNCTION = 60

# Exceptions: a file, or `file:function`, and the reason. Keep it short; delete before you add.
LONG: dict[str, str] = {}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def too_long() -> set[str]:
    """Files and functions over the limits, as they are named in LONG."""
    found = set()
    for path in FILES:
        if len(path.read_text(encoding="utf-8").splitlines()) > MAX_FILE:
            found.add(name_of(path))
        for function in functions(tree_of(path)):
            if (function.end_lineno or 0) - function.lineno + 1 > MAX_FUNCTION:
                found.add(f"{name_of(path)}:{function.name}")
    return found


def test_there_is_something_to_check():
    assert len(FILES) > 10


def test_files_and_functions_are_small():
    found = too_long()
    assert found - LONG.keys() == set(), (
        f"over {MAX_FILE} lines a file or {MAX_FUNCTION} a function: cut, or give a reason"
    )
    assert LONG.keys() - found == set(), "no longer too long: remove the exception"


@for_each(FILES)
def test_the_first_line_says_the_purpose(path):
    docstring = ast.get_docstring(tree_of(path))
    assert docstring, "a module starts with one line that says its purpose"
    assert path.read_text(encoding="utf-8").startswith('"""'), "the purpose comes first"


@for_each(FILES)
def test_only_the_cli_prints(path):
    allowed = "cli" in path.parts
    assert allowed or [call.lineno for call in calls(tree_of(path), "print")] == []


@for_each(FILES)
def test_no_room_is_called_utils(path):
    assert not {"util", "utils", "helpers", "common", "misc"} & {*path.parts, path.stem}


@for_each(FILES)
def test_nothing_global_changes(path):
    found = [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.Global)]
    assert found == [], "a `global` statement: hold the state in an object that somebody owns"
