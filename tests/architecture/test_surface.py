"""What programs of users rest on: public names and signatures change on purpose only."""

from tests.architecture.surface import SNAPSHOT, lines


def test_the_public_names_and_signatures_are_those_of_the_snapshot():
    now, kept = lines(), SNAPSHOT.read_text().splitlines()
    changed = [f"- {line}" for line in kept if line not in now] + [f"+ {line}" for line in now if line not in kept]
    assert not changed, (
        "If it is meant: note it in CHANGELOG.md and run `python -m tests.architecture.surface`.\n" + "\n".join(changed)
    )
