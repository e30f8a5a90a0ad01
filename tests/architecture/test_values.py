"""The duties of a worker exchange values: no object sets the attributes of another, or takes many collaborators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tenure.runtime

RUNTIME = Path(tenure.runtime.__file__).parent
COLLABORATORS_MOST = 6
PLAIN = {"int", "float", "bool", "str"}
OWNERS = {
    "jobs/batches.py": "gathers the groups that it makes",
    "jobs/table.py": "the table owns the state of the leases in it",
    "jobs/job.py": "marks its own lease as answered",
    "jobs/members.py": "notes what follows its own job",
    "isolation/main.py": "a job process makes its one lease by itself",
}
"""Modules that set attributes of objects other than `self`, and why they may."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(RUNTIME.rglob("*.py")):
        yield path.relative_to(RUNTIME).as_posix(), ast.parse(path.read_text())


def targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        found = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        found = [node.target]
    else:
        return
    for one in found:
        yield from one.elts if isinstance(one, ast.Tuple) else [one]


def test_no_object_sets_an_attribute_of_another():
    setters = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        for target in targets(node)
        if isinstance(target, ast.Attribute) and not (isinstance(target.value, ast.Name) and target.value.id == "self")
    }
    assert setters <= set(OWNERS)


def test_constructors_take_few_collaborators():
    many = {
        f"{name}: {kind.name}"
        for name, tree in modules()
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for made in kind.body
        if isinstance(made, ast.FunctionDef) and made.name == "__init__"
        if len([one for one in collaborators(made) if one not in PLAIN]) > COLLABORATORS_MOST
    }
    assert many == set()


def collaborators(made: ast.FunctionDef) -> list[str]:
    given = [*made.args.args[1:], *made.args.kwonlyargs]
    return [ast.unparse(one.annotation) if one.annotation is not None else "" for one in given]
