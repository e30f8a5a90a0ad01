"""The pages name what is public. `make site` checks links and the table of contents."""

import re
from pathlib import Path

import leasehold
from leasehold.app.policy import TaskOptions
from leasehold.client.options import UsingOptions

DOCS = Path(__file__).parents[2] / "docs"
API = DOCS / "reference" / "api"


def test_the_reference_has_each_public_name_once():
    directive = re.compile(r"^\.\. (?:auto\w+|py:data):: leasehold\.(\w+)$", re.MULTILINE)
    names = sorted(name for page in API.glob("*.md") for name in directive.findall(page.read_text()))
    assert names == sorted(set(leasehold.__all__) - {"__version__"})


def test_what_is_not_here_yet_is_not_here():
    rows = (DOCS / "howto" / "not-here-yet.md").read_text().splitlines()
    missing = {name for row in rows if row.startswith("|") for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert {"Cron", "schedule", "limits"} <= missing
    here = {*leasehold.__all__, *TaskOptions.__annotations__, *UsingOptions.__annotations__}
    assert missing & here == set()


def test_the_list_of_guides_has_every_guide():
    guides = DOCS / "howto"
    listed = re.findall(r"\]\((\S+\.md)\)", (guides / "README.md").read_text())
    assert sorted(listed) == sorted(page.name for page in guides.glob("*.md") if page.name != "README.md")
