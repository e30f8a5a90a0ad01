"""Finds what must not be in the repository: registry hosts, paths of one machine, secrets, and code that runs data.

    python scripts/forbidden.py [DIR]

Exit status 1 and one line for each finding. The tests call `findings` too, so there is one list of rules.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SKIPPED = {".git", ".venv", ".compat", ".bench", "build", "dist", "node_modules", "__pycache__"}
MAX_BYTES = 2 * 1024 * 1024

# A character class inside each pattern keeps this file from finding itself.
TEXT_RULES = (
    (r"py[p]i\.(org|python\.org)|files\.python[h]osted|python[h]osted\.org|npm[j]s\.org", "names a registry host"),
    (r"--(extra-)?index[-]url|--find[-]links|--trusted[-]host", "names a package index"),
    (r"(?<![\w./-])/(work[/]|root[/]|home[/][a-z]|Users[/][A-Za-z])", "is a path of one machine"),
    (r"-----BEGIN [A-Z ]*PRIVATE[ ]KEY|\bgh[pousr][_][A-Za-z0-9]{30,}|\bAK[I]A[A-Z0-9]{16}\b", "looks like a secret"),
)

FORBIDDEN_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "import_module"}
ALLOWED = {
    # The only place that imports what somebody else names: the user, on the command line.
    ("src/tenure/cli/loader.py", "import_module"),
    # Loads its own names late, from a table that stands in the file.
    ("src/tenure/__init__.py", "import_module"),
    # A command's module, from a fixed table: `--help` loads none of them.
    ("src/tenure/cli/__init__.py", "import_module"),
}


def findings(root: Path) -> list[str]:
    """Everything forbidden under `root`, as `file:line: what`."""
    found: list[str] = []
    for path in files(root):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}:{line}: {what}" for line, what in in_text(text)]
        if path.suffix == ".py":
            found += [f"{name}:{line}: {what}" for line, what in in_code(name, text)]
    return found


def files(root: Path) -> Iterator[Path]:
    """The repository's own files: no caches, no environments, nothing binary or huge."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            f for f in folders if f not in SKIPPED and not f.endswith(("_cache", ".egg-info")) and f != ".hypothesis"
        )
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and path.stat().st_size <= MAX_BYTES and b"\0" not in path.read_bytes()[:4096]:
                yield path


def in_text(text: str) -> Iterator[tuple[int, str]]:
    for pattern, what in TEXT_RULES:
        for match in re.finditer(pattern, text):
            yield text.count("\n", 0, match.start()) + 1, f"{match.group(0)!r} {what}"


def in_code(name: str, text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text, filename=name)):
        if isinstance(node, ast.Import):
            used = {alias.name.split(".")[0] for alias in node.names} & FORBIDDEN_IMPORTS
        elif isinstance(node, ast.ImportFrom):
            used = {(node.module or "").split(".")[0]} & FORBIDDEN_IMPORTS
        elif isinstance(node, ast.Call):
            used = {called_name(node.func)} & FORBIDDEN_CALLS
        else:
            continue
        for word in sorted(used):
            if (name, word) not in ALLOWED:
                yield node.lineno, f"{word} runs or rebuilds what it is given"


def called_name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    # `.eval(` and `.exec(` of other objects (a Redis client, a transaction) are other things.
    if isinstance(function, ast.Attribute) and function.attr not in {"eval", "exec"}:
        return function.attr
    return ""


if __name__ == "__main__":
    problems = findings(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(problems) or "nothing forbidden found")
    sys.exit(1 if problems else 0)
