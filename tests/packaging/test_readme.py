"""The first screen of the README works in a clone, in the environment that its first command makes."""

import shutil
import subprocess

import pytest

from tests.docs.test_docs import blocks_of, write
from tests.packaging.conftest import ROOT, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TESTS = "make test"
"""The build server proves this command in a clone: here it is only asked what it would run."""


def test_the_commands_before_the_requirements_work_in_a_clone(tmp_path):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a clone")
    clone = tmp_path / "clone"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    screen = tmp_path / "screen.md"
    screen.write_text((ROOT / "README.md").read_text().split("\n## Requirements")[0])
    words = ["PATH=$PWD/.venv/bin:$PATH"]
    for block in blocks_of(screen):
        if block.file:
            write(clone / block.file, block.text)
        elif block.kind == "sh":
            words.append(block.text.replace(TESTS, f"{TESTS} --dry-run"))
    settings = {
        "DIR": str(ROOT / "docs"),  # for `make demo`
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "PIP_NO_COMPILE": "1",  # else pip compiles all modules of all packages, and the commands need few
    }
    printed = run("bash", "-euo", "pipefail", "-c", "\n".join(words), cwd=clone, expect=0, **settings)
    assert "completed  shop.thumbnail" in printed
    for told in ("make demo", TESTS, "pip install '.[embedded]'", "tenure worker shop:app --burst"):
        assert told in "\n".join(words)
