"""The reference has every public name. `make site` checks links and the table of contents."""

import re
from pathlib import Path

import leasehold

API = Path(__file__).parents[2] / "docs" / "reference" / "api"


def test_the_reference_has_each_public_name_once():
    directives = (
        re.findall(r"^\.\. auto\w+:: leasehold\.(\w+)$", page.read_text(), re.MULTILINE) for page in API.glob("*.md")
    )
    names = sorted(name for found in directives for name in found)
    assert names == sorted(set(leasehold.__all__) - {"__version__"})
