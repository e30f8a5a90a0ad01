"""What programs of users rest on: public names and signatures change on purpose only."""

from dataclasses import is_dataclass

import pytest
from pydantic import TypeAdapter

import tenure
from tenure import events, testing
from tests.architecture.surface import SNAPSHOT, lines

SEEN = {
    kind
    for module in (tenure, events, testing)
    for name in module.__all__
    if isinstance(kind := getattr(module, name), type) and (is_dataclass(kind) or hasattr(kind, "__struct_fields__"))
}
OWN = {tenure.BulkChange, tenure.Schedule, tenure.Settings, tenure.TaskCall}
"""Values with errors, functions or arguments of the program in them."""


def test_the_public_names_and_signatures_are_those_of_the_snapshot():
    now, kept = lines(), SNAPSHOT.read_text().splitlines()
    changed = [f"- {line}" for line in kept if line not in now] + [f"+ {line}" for line in now if line not in kept]
    assert not changed, (
        "If it is meant: note it in CHANGELOG.md and run `python -m tests.architecture.surface`.\n" + "\n".join(changed)
    )


@pytest.mark.parametrize("kind", sorted(SEEN - OWN, key=repr))
def test_what_users_see_can_be_the_response_of_a_route(kind):
    """FastAPI asks pydantic, which takes dataclasses and no structs."""
    TypeAdapter(kind)
